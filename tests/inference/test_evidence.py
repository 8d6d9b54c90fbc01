"""Evidence: budgets, repetition, ids, measures against their definitions, and bounded work at hubs."""

import json
from pathlib import Path

import numpy as np
import pytest

import mhgrn
from mhgrn.errors import UserError
from mhgrn.inference import Asked, Evidence, QuestionAnswerer, gathering
from mhgrn.inference.gathering import canonical, effects, model_uses, near_facts
from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, build
from mhgrn.questions.question import Question
from mhgrn.starter import FACTS, HERE

DESK = "Where would a child sit at a desk?", ["schoolroom", "patio", "furniture store", "library", "bus"]


@pytest.fixture(scope="module")
def qa(tmp_path_factory: pytest.TempPathFactory) -> QuestionAnswerer:
    """The starter model with a graph that keeps provenance."""
    graph, _ = build([FACTS], "conceptnet", ImportOptions(provenance=True))
    graph.save(tmp_path_factory.mktemp("kept") / "graph")
    return mhgrn.load(kg=graph.folder)


def check(found: Evidence, qa: QuestionAnswerer) -> None:
    """What holds for all evidence."""
    graph, tokenizer = qa.run.graph, qa.run.encoder.tokenizer
    assert found.tokens <= found.budget
    assert found.tokens == (len(tokenizer(found.text, add_special_tokens=False)["input_ids"]) if found.text else 0)
    facts = [one for item in found for one in item.facts]
    assert [one.fact for one in facts] == found.facts
    assert len({frozenset((one.fact.head, one.fact.tail)) for one in facts}) == len(facts)
    assert len({one.sentence.lower() for one in facts}) == len(facts)
    for one in facts:
        assert graph.holds(*one.fact)
        assert one.number is not None
        assert graph.fact(one.number) == one.fact
        assert one.id == one.fact.id
        kept = graph.provenance(one.fact)
        assert kept is not None
        assert one.provenance == kept.to_dict()
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert all((item.kind == "path") == (len(item.facts) > 1) for item in found)


@pytest.mark.parametrize("budget", [1, 9, 25, 300, 5000])
@pytest.mark.parametrize("choices", [None, DESK[1]])
def test_budgets_are_kept_and_nothing_is_repeated(qa: QuestionAnswerer, budget: int, choices: list[str] | None) -> None:
    found = qa.evidence(DESK[0], choices, budget)
    check(found, qa)
    assert found == qa.evidence(DESK[0], choices, budget)
    if budget >= 25:
        assert Fact("desk", "AtLocation", "schoolroom") in found.facts
    if budget == 1:
        assert not len(found)
        assert "raise the budget" in found.notes[0]


def test_a_larger_budget_begins_with_the_same_items(qa: QuestionAnswerer) -> None:
    small, large = (qa.evidence(*DESK, budget=budget) for budget in (60, 120))
    assert small.items[:4] == large.items[:4]


def test_forms_of_the_result(qa: QuestionAnswerer) -> None:
    found = qa.evidence(*DESK, budget=60)
    assert json.loads(json.dumps(found.to_dict()))["items"][0]["facts"][0]["fact"] == list(found.facts[0])
    lines = found.context(provenance=True).splitlines()
    assert len(lines) == len(found) + 1
    assert lines[1].startswith(f"[1] {found.items[0].text} (facts.tsv:")
    assert found.text.splitlines() == [item.text for item in found]
    assert found.text in "\n".join(line.partition("] ")[2] for line in found.context().splitlines()[1:])
    nothing = qa.evidence("Xyzzy?")
    assert (nothing.text, nothing.context(), len(nothing)) == ("", "", 0)
    assert nothing.notes == ["the question contains no concept of the graph."]


def test_supporting_facts_of_the_starter_questions_are_found(qa: QuestionAnswerer) -> None:
    rows = [json.loads(line) for line in (HERE / "dev.jsonl").read_text(encoding="utf-8").splitlines()[:10]]
    found = 0
    for row in rows:
        evidence = qa.evidence(row, budget=300)
        check(evidence, qa)
        pairs = {frozenset((fact.head, fact.tail)) for fact in evidence.facts}
        found += all(frozenset((head, tail)) in pairs for head, _, tail in row["support"])
    assert found >= 7


def test_an_effect_is_half_the_change_of_all_probabilities(qa: QuestionAnswerer) -> None:
    question = Question.asked(*DESK)
    before = qa.answer(question, effects=False).probabilities
    read = qa.read([Asked(question)])
    facts = [Fact("desk", "AtLocation", "schoolroom"), Fact("child", "AtLocation", "school"), Fact("chair", "AtLocation", "patio")]
    for fact, effect in effects(qa.scorer, read, facts).items():
        after = qa.answer(question, effects=False, without=[tuple(fact)]).probabilities
        assert effect == pytest.approx(sum(abs(after[choice] - before[choice]) for choice in before) / 2, abs=1e-5)
    assert effects(qa.scorer, read, [Fact("water", "AtLocation", "puddle")]) == {}


def test_uses_are_exact_marginals_over_all_choices(qa: QuestionAnswerer) -> None:
    graph, read = qa.run.graph, qa.read([Asked(Question.asked(*DESK))])
    expected: dict[Fact, float] = {}
    for choice in DESK[1]:
        weight = (read.probabilities[0][DESK[1].index(choice)] + 1 / 5) / 2
        for fact, use in qa.walks(*DESK, choice).fact_uses(graph).items():
            kept = canonical(graph, fact)
            expected[kept] = expected.get(kept, 0.0) + weight * use
    found = model_uses(read, qa._first_head, qa.run.model.graph_encoder)
    assert {fact: use for fact, use in found.items() if use > 1e-9} == pytest.approx(
        {fact: use for fact, use in expected.items() if use > 1e-9}, rel=1e-5
    )


def test_near_facts_follow_one_step_of_a_walk() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        names = [f"c{i}" for i in range(8)]
        facts = {(names[a], f"r{r}", names[b]) for a, b, r in rng.integers(0, 8, (14, 3)) % [8, 8, 2] if a != b}
        graph = KnowledgeGraph.from_facts(sorted(facts))
        starts = [graph.id(name) for name in names[:3] if name in graph]
        after: dict[int, float] = {}
        for start in starts:
            for other in graph.neighbors(start).tolist():
                after[other] = after.get(other, 0.0) + 1 / len(graph.neighbors(start))
        found = near_facts(graph, starts, 1000)
        named = {graph.name(start) for start in starts}
        assert set(found) == {fact for fact in graph.facts() if fact.head in named or fact.tail in named}
        greatest = max(after.values(), default=1.0)
        for fact, value in found.items():
            others = [end for end, at in ((fact.tail, fact.head), (fact.head, fact.tail)) if at in named]
            assert value == pytest.approx(max(after[graph.id(end)] for end in others) / greatest)
        assert list(near_facts(graph, starts, 3)) == list(found)[:3]


def test_hubs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = KnowledgeGraph.from_facts([("hub", "IsA", f"thing{i}") for i in range(500)] + [("rare", "IsA", "thing7")])
    monkeypatch.setattr(gathering, "NEIGHBORS", 100)
    found = near_facts(graph, [graph.id("hub"), graph.id("rare")], 50)
    assert len(found) == 50
    assert list(found)[:2] == [Fact("hub", "IsA", "thing7"), Fact("rare", "IsA", "thing7")]


def test_wrong_input_is_refused(qa: QuestionAnswerer) -> None:
    for question, choices, budget, says in (
        ("", None, 300, "the question"),
        (7, None, 300, "no choices"),
        ("Where?", ["one"], 300, "at least two choices"),
        ("Where?", None, 0, "budget is 0"),
        ("x" * 200_000, None, 300, "characters"),
    ):
        with pytest.raises(UserError, match=says):
            qa.evidence(question, choices, budget)  # type: ignore[arg-type]


def test_a_model_without_graph_still_has_evidence(small_data: object, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    from mhgrn.config import Config
    from mhgrn.training.loop import train

    config = Config.of({"graph_encoder": "none", "training": {"epochs": 1}})
    run = train(small_data, config, tmp_path / "run", starter_graph)  # type: ignore[arg-type]
    found = QuestionAnswerer(run).evidence(*DESK, budget=100)
    assert Fact("desk", "AtLocation", "schoolroom") in found.facts


def test_answers_show_where_their_facts_come_from(qa: QuestionAnswerer) -> None:
    answer = qa.ask(*DESK)
    assert answer.sources is not None
    shown = {fact for path in answer.paths for fact in path.facts}
    shown |= {one.fact for one in answer.evidence.facts} if answer.evidence is not None else set()
    assert {Fact(*one["fact"]) for one in answer.sources} == shown
    for one in answer.sources:
        kept = qa.run.graph.provenance(Fact(*one["fact"]))
        assert kept is not None
        assert (one["id"], one["provenance"]) == (Fact(*one["fact"]).id, kept.to_dict())
    assert answer.to_dict()["sources"] == answer.sources
    assert "source of" in str(answer)
    assert ": facts.tsv:" in str(answer)
    plain = mhgrn.load().ask(*DESK)
    assert "sources" not in plain.to_dict()
    assert "source of" not in str(plain)
    added = qa.ask(*DESK, facts=[("child", "AtLocation", "patio"), ("quokka", "IsA", "animal")], paths=20)
    assert all(one["provenance"] is None for one in added.sources or [] if one["fact"] == ["child", "AtLocation", "patio"])
