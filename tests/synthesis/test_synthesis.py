"""Questions made from a graph: wrong choices are wrong, splits are disjoint, and threads change nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mhgrn
from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import lemmatize, says_nothing, tokenize
from mhgrn.kg import KnowledgeGraph, Schema, build
from mhgrn.kg.graph import Fact
from mhgrn.questions.reading import read_splits
from mhgrn.starter import FACTS
from mhgrn.subgraphs.prepared import prepare
from mhgrn.synthesis.options import STRATEGIES, SynthesisOptions
from mhgrn.synthesis.synthesizing import synthesize

Row = dict[str, Any]
COUNT = 600


@pytest.fixture(scope="module")
def starter() -> KnowledgeGraph:
    return build([FACTS], schema="conceptnet")[0]


@pytest.fixture(scope="module")
def made(starter: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthesis") / "questions"
    synthesize(starter, folder, count=COUNT, split=(0.8, 0.1, 0.1), workers=1)
    return folder


def rows_of(folder: Path) -> dict[str, list[Row]]:
    return {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in sorted(folder.glob("*.jsonl"))}


def everything(folder: Path) -> list[Row]:
    return [row for rows in rows_of(folder).values() for row in rows]


def right_of(row: Row) -> str:
    return str(row["choices"]["ABCDEFGHIJ".index(row["answer"])])


def content(text: str) -> set[str]:
    return {root for word, root in zip(tokenize(text), lemmatize(text), strict=True) if not says_nothing(word, root)}


def answers(facts: list[Fact], row: Row) -> set[str]:
    """All answers of a question by brute force: the ends of every path with its relations, in its directions."""
    path = [Fact(*fact) for fact in row["made_from"]["facts"]]
    known = row["question_concept"].replace(" ", "_")
    ends = {known}
    for step in path:
        forward = step.head == known
        known = step.tail if forward else step.head
        if len(path) == 1:  # the direction does not matter
            ends = {f.tail if f.head in ends else f.head for f in facts if f.relation == step.relation and {f.head, f.tail} & ends}
        elif forward:
            ends = {f.tail for f in facts if f.relation == step.relation and f.head in ends}
        else:
            ends = {f.head for f in facts if f.relation == step.relation and f.tail in ends}
    return {end.replace("_", " ") for end in ends}


def check(graph: KnowledgeGraph, row: Row, choices: int) -> None:
    facts = list(graph.facts())
    about = row["made_from"]
    assert all(Fact(*fact) in facts for fact in about["facts"])
    right, wrong = right_of(row), [c for c, s in zip(row["choices"], about["distractors"], strict=True) if s is not None]
    assert len(row["choices"]) == choices == len(wrong) + 1
    true = answers(facts, row)
    assert right in true
    assert not true & set(wrong)
    near = {graph.name(int(n)).replace("_", " ") for n in graph.neighbors(graph.id(right))}
    assert not near & set(wrong)
    assert row["question_concept"] not in row["choices"]
    assert len({lemmatize(choice) for choice in row["choices"]}) == choices
    for choice in wrong:
        assert not content(choice) & (content(right) | content(row["question_concept"]))
    assert not content(right) & content(row["question_concept"])
    assert row["question_concept"].lower() in row["question"].lower()
    if len(about["facts"]) == 2:
        middle = ({*about["facts"][0][::2]} & {*about["facts"][1][::2]}).pop()
        assert middle.replace("_", " ") not in row["choices"]
    assert row.get("hide") == (about["facts"] if about["hidden"] else None)


def test_no_wrong_choice_of_the_starter_graph_is_true(starter: KnowledgeGraph, made: Path) -> None:
    for row in everything(made)[::4]:
        check(starter, row, 5)


WORDS = "cat dog house mouse tree river stone bread milk chair road lamp glass paper boat cloud".split()


@settings(max_examples=25, deadline=None)
@given(
    facts=st.sets(
        st.tuples(st.sampled_from(WORDS), st.sampled_from(["IsA", "PartOf", "eats"]), st.sampled_from(WORDS)), max_size=40
    ),
    choices=st.integers(2, 4),
    distractors=st.sampled_from(["random", "same-relation", "near-graph"]),
    seed=st.integers(0, 1000),
)
def test_no_wrong_choice_of_a_random_graph_is_true(
    tmp_path_factory: pytest.TempPathFactory, facts: set[tuple[str, str, str]], choices: int, distractors: str, seed: int
) -> None:
    graph = KnowledgeGraph.from_facts(sorted(facts), Schema.derived(["IsA", "PartOf", "eats"]))
    folder = tmp_path_factory.mktemp("made") / "questions"
    options = SynthesisOptions(
        count=4, choices=choices, distractors=distractors, seed=seed, split=(1, 0, 0), min_degree=1, workers=1
    )
    try:
        synthesize(graph, folder, options)
    except UserError:  # the graph is too small
        assert not folder.exists()
        return
    rows = everything(folder)
    assert len(rows) == 4
    for row in rows:
        check(graph, row, choices)


def test_threads_and_repetitions_change_nothing_and_seeds_do(starter: KnowledgeGraph, made: Path, tmp_path: Path) -> None:
    for workers in (1, 3):
        folder = tmp_path / f"w{workers}"
        synthesize(starter, folder, count=COUNT, split=(0.8, 0.1, 0.1), workers=workers)
        for file in made.iterdir():
            assert (folder / file.name).read_bytes() == file.read_bytes()
    synthesize(starter, tmp_path / "other", count=COUNT, split=(0.8, 0.1, 0.1), seed=1)
    mine, other = ({row["question"] for row in everything(folder)} for folder in (made, tmp_path / "other"))
    assert len(mine & other) < COUNT / 2


def test_splits_have_their_sizes_and_share_no_pair_of_concepts(made: Path) -> None:
    rows = rows_of(made)
    assert {split: len(found) for split, found in rows.items()} == {"train": 480, "dev": 60, "test": 60}
    pairs = {split: {frozenset(fact[::2]) for row in found for fact in row["made_from"]["facts"]} for split, found in rows.items()}
    assert not pairs["train"] & pairs["dev"]
    assert not pairs["train"] & pairs["test"]
    assert not pairs["dev"] & pairs["test"]
    assert len({row["id"] for row in everything(made)}) == COUNT


def test_the_description_counts_what_was_made(starter: KnowledgeGraph, made: Path) -> None:
    about, rows = json.loads((made / "synthesis.json").read_text()), everything(made)
    assert about["graph_fingerprint"] == starter.fingerprint
    assert about["options"]["count"] == COUNT
    assert about["hidden"] == sum("hide" in row for row in rows)
    assert abs(about["hidden"] / COUNT - 0.5) < 0.1
    assert about["kinds"] == Counter({1: "fact", 2: "path"}[len(row["made_from"]["facts"])] for row in rows)
    used = Counter(s for row in rows for s in row["made_from"]["distractors"] if s)
    assert about["distractors"] == used
    assert set(used) == set(STRATEGIES)
    assert min(used.values()) > COUNT / 2
    assert {abs(count - COUNT / 2) <= COUNT / 10 for count in about["kinds"].values()} == {True}


def test_no_relation_dominates(made: Path) -> None:
    last = Counter(row["made_from"]["facts"][-1][1] for row in everything(made))
    assert len(last) >= 12
    assert max(last.values()) < COUNT / 4


def test_the_right_choice_has_no_preferred_place(made: Path) -> None:
    places = Counter(row["answer"] for row in everything(made))
    assert set(places) == set("ABCDE")
    assert max(places.values()) < 2 * min(places.values())


def test_prepare_reads_the_questions_and_hides_their_facts(starter: KnowledgeGraph, made: Path, tmp_path: Path) -> None:
    starter.save(tmp_path / "graph")
    assert {split: len(found) for split, found in read_splits(made).items()} == {"train": 480, "dev": 60, "test": 60}
    data = prepare(made, tmp_path / "graph", tmp_path / "prepared", workers=1)
    rows = {row["id"]: row for row in everything(made)}
    seen = 0
    for number, question in enumerate(data.questions):
        row = rows[question.id]
        assert question.choices[question.answer or 0] == right_of(row)
        for head, _, tail in row["made_from"]["facts"]:
            ends = {starter.id(head), starter.id(tail)}
            for subgraph in data.subgraphs(number):
                concepts = subgraph.concepts
                joined = zip(concepts[subgraph.head].tolist(), concepts[subgraph.tail].tolist(), strict=True)
                found = any({h, t} == ends for h, t in joined)
                assert not (found and question.hide)
                seen += found
    assert seen > COUNT / 10  # facts that are not hidden are in the subgraphs


@pytest.mark.parametrize("distractors", STRATEGIES)
def test_one_strategy_is_used_for_all_wrong_choices(starter: KnowledgeGraph, tmp_path: Path, distractors: str) -> None:
    made = synthesize(starter, tmp_path / "made", count=100, distractors=distractors, hops=[1], hide=0, split=(1, 0, 0))
    assert made.about["distractors"][distractors] > 350
    assert made.about["kinds"] == {"fact": 100}
    assert made.about["hidden"] == 0


def test_wrong_choices_near_in_text_are_nearer_than_random_ones(starter: KnowledgeGraph, tmp_path: Path) -> None:
    import numpy as np

    from mhgrn.text.encoders.minilm import token_vectors

    tokenizer, vectors = token_vectors()
    vectors = vectors - vectors.mean(0)

    def mean_cosine(strategy: str) -> float:
        synthesize(starter, tmp_path / strategy, count=100, distractors=strategy, split=(1, 0, 0))
        found = []
        for row in everything(tmp_path / strategy):
            means = [vectors[tokenizer.encode(c, add_special_tokens=False).ids].mean(0) for c in [right_of(row), *row["choices"]]]
            means = [m / np.linalg.norm(m) for m in means]
            found += [float(means[0] @ m) for m, s in zip(means[1:], row["made_from"]["distractors"], strict=True) if s == strategy]
        return sum(found) / len(found)

    assert mean_cosine("near-text") > mean_cosine("random") + 0.1


def test_graphs_without_facts_to_ask_about_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no facts to ask about"):
        synthesize(KnowledgeGraph.from_facts([], Schema.derived(["r"])), tmp_path / "made")
    with pytest.raises(UserError, match="no facts to ask about"):
        synthesize(KnowledgeGraph.from_facts([("big cat", "IsA", "cat")]), tmp_path / "made", min_degree=1)
    assert not (tmp_path / "made").exists()


def test_too_many_questions_are_refused_with_the_possible_number(starter: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"only ([\d,]+) of 1,000,000 questions can be made") as refused:
        synthesize(starter, tmp_path / "made", count=1_000_000, distractors="random", hops=[1], split=(1, 0, 0))
    assert list(tmp_path.iterdir()) == []
    possible = int(str(refused.value).split()[1].replace(",", ""))
    made = synthesize(starter, tmp_path / "made", count=possible, distractors="random", hops=[1], split=(1, 0, 0))
    assert made.about["splits"] == {"train": possible}


@pytest.mark.parametrize(
    "options",
    [
        {"count": 0},
        {"choices": 1},
        {"choices": True},
        {"hops": [3]},
        {"hops": []},
        {"hide": 1.5},
        {"hide": float("nan")},
        {"split": (0.5, 0.1, 0.1)},
        {"split": (1, 0)},
        {"distractors": "near"},
        {"temperature": -1},
        {"seed": -1},
        {"max_words": 5},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        SynthesisOptions(**options)


def test_splits_without_questions_are_refused(starter: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dev would have no questions"):
        synthesize(starter, tmp_path / "made", count=5)


def test_an_interrupted_synthesis_leaves_nothing(starter: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mhgrn.synthesis.synthesizing._Drawing.keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthesize(starter, tmp_path / "made", count=COUNT)
    assert list(tmp_path.iterdir()) == []


def test_facts_of_large_weight_and_known_concepts_are_preferred() -> None:
    import numpy as np

    from mhgrn.synthesis.synthesizing import _shuffled

    order = _shuffled(np.array([1.0] * 500 + [50.0] * 500), np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(1000))
    assert (order[:300] >= 500).mean() > 0.9


def test_the_function_is_public() -> None:
    assert mhgrn.synthesize is synthesize
    assert mhgrn.SynthesisOptions is SynthesisOptions
