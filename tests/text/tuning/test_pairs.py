"""Questions about facts: what is asked, which answers count as wrong, and which facts are never used."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.text.tuning.pairs import FactPairs, PairBatch, PairOptions, connected_by_questions

Fact = tuple[str, str, str]


def random_graph(concepts: int, relations: int, facts: int, seed: int = 0) -> KnowledgeGraph:
    random = np.random.default_rng(seed)
    rows = {(f"c{h}", f"r{r}", f"c{t}") for h, r, t in random.integers([concepts, relations, concepts], size=(facts, 3)).tolist()}
    return KnowledgeGraph.from_facts(sorted(rows))


def facts_of(graph: KnowledgeGraph) -> set[Fact]:
    names, relations = list(graph), [relation.name for relation in graph.schema.relations]
    rows = zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True)
    return {(names[h], relations[r], names[t]) for h, r, t in rows}


def used_facts(question: str, answer: str) -> list[Fact]:
    """The facts that a question states, in the default wording: "It r1 c2 C3 r0 what?" """
    words = question.lower().removesuffix("?").split()
    found = [tuple(answer if word in ("it", "what") else word for word in words[at : at + 3]) for at in range(0, len(words), 3)]
    # "c3 r0 what" and "what r0 c3" have the relation between both ends
    return [(head, relation, tail) for head, relation, tail in found]


def rows(batch: PairBatch) -> Iterator[tuple[str, str, list[str]]]:
    """Each question with its answer and its wrong answers."""
    for question, answer, wrong in zip(batch.questions, batch.answer.tolist(), batch.wrong, strict=True):
        yield question, batch.names[answer], [batch.names[i] for i in np.flatnonzero(wrong)]


def same(one: PairBatch, other: PairBatch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_batches_are_repeatable_and_independent_of_order() -> None:
    graph = random_graph(60, 3, 300)
    one, other = FactPairs(graph), FactPairs(graph)
    forward = [one.batch(number, 20) for number in range(5)]
    backward = [other.batch(number, 20) for number in reversed(range(5))][::-1]
    assert all(map(same, forward, backward))
    assert not same(forward[0], forward[1])
    assert not same(forward[0], FactPairs(graph, PairOptions(seed=1)).batch(0, 20))
    assert same(one.batch(2, 20, held_out=True), other.batch(2, 20, held_out=True))


@given(
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), min_size=2, max_size=60),
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6),
    st.integers(0, 3),
    st.integers(0, 5),
)
def test_no_true_answer_counts_as_wrong(
    numbers: set[tuple[int, int, int]], left_out: set[tuple[int, int]], hard: int, number: int
) -> None:
    graph = KnowledgeGraph.from_facts([(f"c{h}", f"r{r}", f"c{t}") for h, r, t in sorted(numbers)])
    places = {name: place for place, name in enumerate(graph)}
    pairs = [(places[f"c{a}"], places[f"c{b}"]) for a, b in sorted(left_out) if f"c{a}" in places and f"c{b}" in places]
    try:
        drawn = FactPairs(graph, PairOptions(combined=0, hard=hard), np.array(pairs, dtype=np.int64).reshape(-1, 2))
    except UserError:  # too few facts are left
        return
    batch, true = drawn.batch(number, 12), facts_of(graph)
    assert len(set(batch.names)) == len(batch.names)
    assert batch.others.shape == (len(batch.questions), hard)
    unused = {frozenset(f"c{i}" for i in pair) for pair in left_out}
    for question, answer, wrong in rows(batch):
        (fact,) = used_facts(question, answer)
        assert fact in true
        assert frozenset((fact[0], fact[2])) not in unused
        known = fact[0] if question.endswith("what?") else fact[2]
        for name in wrong:
            assert used_facts(question, name)[0] not in true
            assert name != known
            assert frozenset((known, name)) not in unused


def test_facts_that_are_held_out_or_left_out_are_never_used() -> None:
    graph = random_graph(80, 3, 600)
    without = np.array([(head, tail) for head, tail in zip(graph.heads().tolist(), graph.tail.tolist(), strict=True)][::7])
    pairs = FactPairs(graph, PairOptions(combined=1), without)
    names = list(graph)
    held_out = {(names[pairs._head[fact]], names[pairs._tail[fact]]) for fact in pairs.held_out.tolist()}
    left_out = {(names[a], names[b]) for a, b in without.tolist()}
    assert held_out
    assert left_out
    unused = {frozenset(pair) for pair in held_out | left_out}
    combined = 0
    for number in range(30):
        for question, answer, wrong in rows(pairs.batch(number, 40)):
            used = used_facts(question, answer)
            combined += len(used) > 1
            assert not {frozenset((head, tail)) for head, _, tail in used} & unused
            known = used[-1][0] if question.endswith("what?") else used[-1][2]
            assert not {frozenset((known, name)) for name in wrong} & unused
    assert combined > 500
    asked = [used_facts(question, answer) for question, answer, _ in rows(pairs.batch(0, 40, held_out=True))]
    assert {(used[-1][0], used[-1][2]) for used in asked} <= held_out  # asked about them, and clauses are of other facts
    assert not {(head, tail) for used in asked for head, _, tail in used[:-1]} & (held_out | left_out)


def test_held_out_facts_do_not_depend_on_the_seed_and_are_spread_evenly() -> None:
    graph = random_graph(100, 2, 3000)  # a round number of concepts, of which the number of a pair is a multiple
    one, other = (FactPairs(graph, PairOptions(seed=seed)) for seed in (0, 1))
    assert np.array_equal(one.held_out, other.held_out)
    assert 0.01 < len(one.held_out) / len(graph.relation) < 0.04
    assert len(np.unique(np.maximum(one._head, one._tail)[one.held_out] % 50)) > 10


def test_names_that_differ_only_in_inflection_are_not_wrong() -> None:
    graph = KnowledgeGraph.from_facts(
        [
            ("dog", "AtLocation", "park"),
            ("cat", "AtLocation", "parks"),
            ("fish", "AtLocation", "sea"),
            ("dogs", "AtLocation", "sea"),
        ]
    )
    wrong: dict[str, set[str]] = {}
    pairs = FactPairs(graph, PairOptions(combined=0))
    for number in range(10):
        for question, _, names in rows(pairs.batch(number, 10)):
            wrong.setdefault(question, set()).update(names)
    assert wrong["Dog at location what?"] == {"cat", "fish", "sea"}  # neither parks nor dogs
    assert wrong["What at location parks?"] == {"dog", "dogs", "fish", "sea"}  # not park, which the question is about


def test_hard_wrong_answers_are_neighbors_or_have_the_same_relation() -> None:
    graph = random_graph(60, 4, 300)
    pairs = FactPairs(graph, PairOptions(combined=0, hard=2))
    true = facts_of(graph)
    batch = pairs.batch(0, 60)
    for question, answer, others in zip(batch.questions, batch.answer.tolist(), batch.others.tolist(), strict=True):
        ((head, relation, tail),) = used_facts(question, batch.names[answer])
        known = head if question.endswith("what?") else tail
        for name in (batch.names[other] for other in others):
            neighbors = any({known, name} == {h, t} for h, _, t in true)
            assert neighbors or any(r == relation and name in (h, t) for h, r, t in true)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ([("a", "r", "a b"), ("a c", "r", "c")], "a word in common"),
        ([("a", "r", "one two three four five six")], "more than 5 words"),
        ([("a", "r", "b")], "too few facts"),
    ],
)
def test_a_graph_without_usable_facts_is_one_message(facts: list[Fact], says: str) -> None:
    with pytest.raises(UserError, match=says):
        FactPairs(KnowledgeGraph.from_facts(facts))


def test_all_facts_left_out() -> None:
    graph = KnowledgeGraph.from_facts([("a", "r", "b"), ("c", "r", "d")])
    with pytest.raises(UserError, match="left out because of the given questions"):
        FactPairs(graph, None, np.array([(0, 1), (3, 2)]))


def test_two_facts_are_enough_and_none_is_held_out() -> None:
    pairs = FactPairs(KnowledgeGraph.from_facts([("desk", "AtLocation", "school"), ("fish", "AtLocation", "sea")]))
    assert not len(pairs.held_out)
    assert {len(names) for _, _, names in rows(pairs.batch(0, 8))} <= {1, 2, 3}


def test_names_in_other_scripts() -> None:
    graph = KnowledgeGraph.from_facts([("猫", "在", "房子"), ("собака", "живёт", "дом"), ("سمك", "في", "بحر")])
    batch = FactPairs(graph, PairOptions(combined=1)).batch(0, 30)
    assert {"猫", "дом", "بحر"} <= set(batch.names)
    assert batch.wrong.any()
    assert any("猫 在 what?" in question for question in batch.questions)


def test_facts_between_question_and_choice_are_found() -> None:
    graph = KnowledgeGraph.from_facts(
        [
            ("desk", "AtLocation", "school"),
            ("desk", "AtLocation", "office"),
            ("fish", "AtLocation", "sea"),
            ("pen", "AtLocation", "desk"),
        ]
    )
    names = list(graph)
    question = Question("1", "Where do children sit at a desk?", ("a school", "the sea"), 0)
    found = {(names[a], names[b]) for a, b in connected_by_questions(graph, [question]).tolist()}
    assert ("desk", "school") in found
    assert not any("office" in pair or "pen" in pair for pair in found)


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"combined": 1.5}, {"hard": -1}, {"seed": -1}])
def test_impossible_options(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        PairOptions(**wrong)  # type: ignore[arg-type]
