"""Concepts that are proposed for questions without choices."""

import numpy as np
import pytest

import mhgrn
from mhgrn.errors import UserError
from mhgrn.inference import Asked, FactMasks
from mhgrn.inference.proposing import NEAR, NO_WALK, Proposer
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.question import Question


@pytest.fixture(scope="module")
def qa():
    return mhgrn.load()


def test_the_weights_of_walks_equal_their_enumeration(qa):
    """Walks of one and two facts from each topic, one at a time."""
    graph = qa.graph
    proposer = Proposer(graph, qa.run.encoder)
    topics = sorted(graph.id(name) for name in ("child", "desk"))
    last = proposer.attention(proposer._embedded(["Where would a child sit at a desk?"])[0])
    m, steps = len(graph.schema), {}
    for h, r, t in zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True):
        steps.setdefault(h, []).append((r, t))
        steps.setdefault(t, []).append((r + m, h))
    weights = []
    for topic in topics:
        found = {}
        for r, there in steps[topic]:
            if there != topic:
                found[there] = found.get(there, 0.0) + NEAR * float(last[r])
                for r2, beyond in steps[there]:
                    if beyond != topic:
                        found[beyond] = found.get(beyond, 0.0) + float(last[r2])
        weights.append(found)
    concepts, logs = proposer._walked(np.array(topics), last)
    assert set(concepts.tolist()) == {concept for found in weights for concept in found} - set(topics)
    expected = [sum(np.log(found.get(concept, 0.0) + NO_WALK) for found in weights) for concept in concepts.tolist()]
    np.testing.assert_allclose(logs, expected, rtol=1e-9)


def test_the_question_word_decides_which_relation_counts(qa):
    proposer = Proposer(qa.graph, qa.run.encoder)
    relations = [relation.name for relation in qa.graph.schema.relations]
    for question, relation in (("Where would you find a pillow?", "AtLocation"), ("What is the opposite of hot?", "Antonym")):
        attention = proposer.attention(proposer._embedded([question])[0])
        assert float(attention.sum()) == pytest.approx(1.0)
        assert relations[int(attention.argmax()) % len(relations)] == relation


def test_proposals_are_ranked_and_every_answer_has_paths(qa):
    answer = qa.ask("Where would a child sit at a desk?", n=5)
    assert answer.choice in ("classroom", "schoolroom")
    assert [share for _, share, _ in answer.ranking] == sorted(answer.probabilities.values(), reverse=True)
    assert all(paths for _, _, paths in answer.ranking)
    for _, _, paths in answer.ranking:
        assert all(qa.graph.holds(*fact) for path in paths for fact in path.facts)
    assert answer.evidence is not None


def test_a_prior_is_part_of_every_score_also_without_facts(qa):
    found = qa._proposer.propose("What do bees make?")
    plain = qa.read([Asked(Question.asked(found.text, found.names), effects=False)])
    prior = np.array(found.scores)
    both = plain.with_prior(plain.score.new_tensor(prior), qa.scorer.temperature)
    np.testing.assert_allclose(both.score.numpy(), plain.score.numpy() + prior, rtol=1e-5, atol=1e-5)
    one, other = FactMasks(qa.scorer, plain, 0), FactMasks(qa.scorer, both, 0)
    keep = np.zeros((1, len(one.facts)), dtype=bool)
    np.testing.assert_allclose(other.scores(keep)[0].numpy(), one.scores(keep)[0].numpy() + prior, rtol=1e-5, atol=1e-5)


def test_questions_that_cannot_be_answered_say_why(qa):
    with pytest.raises(UserError, match="names no concept"):
        qa.ask("zzqx?")
    for option in ({"coverage": 0.9}, {"subgraph": True}, {"contrast": "sea"}, {"without": [("a", "IsA", "b")]}):
        with pytest.raises(UserError, match="questions with choices"):
            qa.ask("Where does a fish live?", **option)
    lonely = Proposer(KnowledgeGraph.from_facts([("fish", "AtLocation", "sea")], qa.graph.schema), qa.run.encoder)
    with pytest.raises(UserError, match="no concept can be reached"):
        lonely.propose("Where is [fish] in the [sea]?")
