"""The facts shown as evidence have the effects that are shown, if they are really removed or really alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import mhgrn
from batched_answers import assert_batches_equal_single_answers, assert_equal
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.explain import QuestionFacts, SmallestSet
from mhgrn.explain.smallest_set import ranked
from mhgrn.inference import Answer, Asked, EvidenceSet, FactMasks, QuestionAnswerer, SupportingFact
from mhgrn.inference.evidence_set import evidence_set, in_reading_order
from mhgrn.inference.searching import fact_gradients
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.graph import Fact
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.starter import HERE
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train


@pytest.fixture(scope="module")
def qa() -> QuestionAnswerer:
    return mhgrn.load()


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return list(read_questions(HERE / "dev.jsonl"))[:16]


def names_of(qa: QuestionAnswerer, question: Question) -> list[Fact]:
    """All facts of the graphs of a question's choices."""
    graph = qa.run.graph
    facts = FactMasks(qa.scorer, qa.read([Asked(question)]), 0).facts.facts.tolist()
    return [Fact(graph.name(h), graph.schema.relations[r].name, graph.name(t)) for h, r, t in facts]


def check(qa: QuestionAnswerer, question: Question, answer: Answer) -> None:
    """Ask again with each set of facts really left out."""
    evidence = answer.evidence
    assert evidence is not None

    def ask(**options: object) -> Answer:
        return qa.answer(question, effects=False, **options)

    before = answer.probabilities[answer.choice]
    off = ask(graph=False)
    gave = before - off.probabilities[answer.choice]
    assert evidence.without_graph == pytest.approx(off.probabilities[answer.choice], abs=1e-5)
    assert evidence.dependent == (off.choice != answer.choice or abs(gave) > 0.1)
    facts = [one.fact for one in evidence.facts]
    assert len(facts) <= 6
    assert all(qa.run.graph.holds(*fact) for fact in facts)
    if not facts:
        assert not evidence.carries
        return
    same = {(fact.head, fact.relation, fact.tail) for fact in facts} | {(fact.tail, fact.relation, fact.head) for fact in facts}
    only = ask(without=[fact for fact in names_of(qa, question) if tuple(fact) not in same])
    without = ask(without=facts)
    assert evidence.only == pytest.approx(only.probabilities[answer.choice], abs=1e-5)
    assert evidence.without == pytest.approx(without.probabilities[answer.choice], abs=1e-5)
    assert (evidence.answer_only, evidence.answer_without) == (only.choice, without.choice)
    assert evidence.sufficient == (only.choice == answer.choice)
    lost = before - without.probabilities[answer.choice]
    assert evidence.necessary == (without.choice != answer.choice or (gave > 0 and lost > gave / 2))
    alone = [ask(without=[fact]).probabilities[answer.choice] for fact in facts]
    assert [one.without for one in evidence.facts] == pytest.approx(alone, abs=1e-5)


def test_evidence_has_the_effects_that_are_shown(qa: QuestionAnswerer, questions: list[Question]) -> None:
    answers = [qa.answer(question) for question in questions]
    for question, answer in zip(questions, answers, strict=True):
        check(qa, question, answer)
    dependent = [answer.evidence for answer in answers if answer.evidence and answer.evidence.dependent]
    assert len(dependent) > 8
    assert sum(evidence.carries for evidence in dependent) >= 0.8 * len(dependent)


def test_evidence_does_not_depend_on_the_batch(qa: QuestionAnswerer, questions: list[Question]) -> None:
    assert_batches_equal_single_answers(qa, questions[:8])
    mixed = qa.answer_all([Asked(question, by="attention" if n % 2 else "evidence") for n, question in enumerate(questions[:6])])
    assert [answer.evidence is None for answer in mixed] == [False, True] * 3
    assert_equal(mixed[2], qa.answer(questions[2]))


def test_a_model_without_derivatives_has_evidence_too(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, questions: list[Question]
) -> None:
    config = Config.of({"graph_encoder": "rgcn", "training": {"epochs": 1}, "features": "random"})
    run = train(small_data, config, tmp_path / "run", starter_graph)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in run.model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    answerer = QuestionAnswerer(run)
    answers = [answerer.answer(question) for question in questions]
    for question, answer in zip(questions, answers, strict=False):
        check(answerer, question, answer)
    assert any(answer.evidence.carries for answer in answers if answer.evidence)


def test_derivatives_rank_facts_as_small_changes_do(qa: QuestionAnswerer, questions: list[Question]) -> None:
    """Facts with the largest derivatives are among those whose removal lowers the answer most."""
    for question in questions[:6]:
        masks = FactMasks(qa.scorer, qa.read([Asked(question)]), 0)
        everything, answer = np.ones(len(masks.facts), dtype=bool), masks.read.best[0]
        (gradient,) = fact_gradients(masks, everything[None])
        after = torch.softmax(masks.scores(~np.eye(len(masks.facts), dtype=bool)), 1)[:, answer].numpy()
        if gradient.max() > 0.1:
            assert ranked(gradient, 1)[0] in ranked(-after, 5)
        untouched = ~np.isin(np.arange(len(everything)), np.concatenate(masks.facts.number))
        assert not gradient[untouched].any()


def test_the_text_says_what_carries_the_answer() -> None:
    facts = [
        SupportingFact(Fact("rain", "Causes", "leak"), "Rain can lead to a leak.", 0.5),
        SupportingFact(Fact("leak", "Causes", "puddle"), "A leak can lead to a puddle.", 0.625),
    ]
    evidence = EvidenceSet(facts, True, True, True, 0.7, 0.25, 0.125, "puddle", "sun", "puddle", "these 2 facts carry it.")
    answer = Answer("What?", "puddle", {"puddle": 0.75, "sun": 0.25}, [], {"question": [], "choices": {}}, evidence=evidence)
    assert str(answer).splitlines()[3:] == [
        "    because",
        "      Rain can lead to a leak.       (without it 75.0% → 50.0%)",
        "      A leak can lead to a puddle.   (without it 75.0% → 62.5%)",
        "    with only these facts: 75.0% → 70.0%",
        "    without these facts: 75.0% → 25.0%, the answer becomes sun",
        "    without the graph: 75.0% → 12.5%",
    ]
    assert "      rain —Causes→ leak     (without it 75.0% → 50.0%)" in answer.text(triples=True).splitlines()
    single = replace(answer, evidence=replace(evidence, facts=facts[:1]))
    assert str(single).splitlines()[4:6] == ["      Rain can lead to a leak.", "    with only this fact: 75.0% → 70.0%"]
    none = replace(answer, evidence=replace(evidence, facts=[], summary="the graph plays no part in this answer."))
    assert str(none).splitlines()[3:] == ["    the graph plays no part in this answer.", "    without the graph: 75.0% → 12.5%"]
    values = json.loads(json.dumps(answer.to_dict()))["evidence"]
    assert values["facts"][0] == {"fact": ["rain", "Causes", "leak"], "sentence": "Rain can lead to a leak.", "without": 0.5}
    assert values["sufficient"] is True


def test_the_way_of_explaining_is_checked(qa: QuestionAnswerer) -> None:
    with pytest.raises(UserError, match="by is 'effort'; it should be one of evidence, attention"):
        qa.ask("Where?", ["sea", "tree"], by="effort")
    assert qa.ask("Where does a fish live?", ["sea", "tree"], by="attention").evidence is None
    assert qa.ask("Where does a fish live?", ["sea", "tree"], effects=False).evidence is None


def test_facts_are_read_from_the_question_on() -> None:
    none = np.zeros(0, dtype=np.int64)
    chain = Subgraph(np.array([4, 2, 9]), np.array([QUESTION, ANSWER, OTHER]), np.array([2, 0]), np.array([0, 0]), np.array([1, 2]))
    facts = QuestionFacts.of([chain, Subgraph(none, none, none, none, none)], symmetric=())
    assert facts.facts.tolist() == [[4, 0, 9], [9, 0, 2]]
    assert in_reading_order([1, 0], facts) == [0, 1]  # whatever their effects
    assert in_reading_order([1], facts) == [1]


def test_the_summary_says_how_little_the_graph_does() -> None:
    subgraph = Subgraph(np.array([0, 1]), np.array([QUESTION, ANSWER]), np.array([0]), np.array([0]), np.array([1]))
    facts, graph = QuestionFacts.of([subgraph], ()), KnowledgeGraph.from_facts([("rain", "Causes", "leak")])

    def summary(**given: object) -> str:
        found = SmallestSet([0], True, True, False, 0.9, 0.4, 0.8, 0.7, [0.7])
        return evidence_set(replace(found, **given), facts, graph, ["leak", "sun"]).summary

    assert summary(dependent=False, without_graph=0.85) == "the graph plays little part in this answer."
    assert summary(dependent=False, without_graph=0.899) == "the graph plays no part in this answer."
    assert summary().endswith("these come nearest, but without them the answer keeps most of what the graph gave:")
    assert summary(sufficient=False, necessary=True).endswith("these come nearest, but are not enough alone:")
