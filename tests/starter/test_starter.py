"""The starter set keeps its promises: size, connectedness, tempting wrong choices, splits that share no fact."""

import json
from collections import Counter
from typing import Any

import pytest

from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.statements import fill_in_the_blank
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.reading import SPLITS
from mhgrn.starter import HERE, NEW_QUESTIONS, Starter
from mhgrn.subgraphs.extract import Extractor

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    return {split: [json.loads(line) for line in (HERE / f"{split}.jsonl").read_text("utf-8").splitlines()] for split in SPLITS}


def answer(row: Row) -> str:
    return next(str(choice["text"]) for choice in row["question"]["choices"] if choice["label"] == row["answerKey"])


def test_size(rows: dict[str, list[Row]], starter_graph: KnowledgeGraph) -> None:
    assert starter_graph.fact_count >= 2500
    assert len(starter_graph) >= 1000
    assert sum(count > 0 for count in starter_graph.relation_counts().values()) >= 14
    assert sum(map(len, rows.values())) >= 500
    assert min(len(rows["dev"]), len(rows["test"])) >= 150
    for split in rows.values():
        for row in split:
            assert len({choice["text"] for choice in row["question"]["choices"]}) == 5
        letters = Counter(row["answerKey"] for row in split)
        assert max(letters.values()) < 0.3 * len(split)  # no letter gives the answer away


def test_support_is_in_the_graph_and_touches_the_answer(rows: dict[str, list[Row]], starter_graph: KnowledgeGraph) -> None:
    for split in rows.values():
        for row in split:
            for head, relation, tail in row["support"]:
                assert starter_graph.holds(head.replace(" ", "_"), relation, tail.replace(" ", "_")), row["id"]
            assert any(answer(row) in (head, tail) for head, _, tail in row["support"]), row["id"]


def test_no_fact_answers_questions_of_two_splits(rows: dict[str, list[Row]]) -> None:
    owners: dict[tuple[str, ...], set[str]] = {}
    stems = Counter(row["question"]["stem"] for split in rows.values() for row in split)
    assert max(stems.values()) == 1
    for split, found in rows.items():
        for row in found:
            for fact in row["support"]:
                if answer(row) in (fact[0], fact[2]):
                    owners.setdefault(tuple(fact), set()).add(split)
    assert not [fact for fact, splits in owners.items() if len(splits) > 1]


def test_wrong_choices_are_connected_to_the_question_too(rows: dict[str, list[Row]], starter_graph: KnowledgeGraph) -> None:
    grounder = Grounder(starter_graph)
    connected = total = 0
    for row in rows["dev"] + rows["test"]:
        stem, right = row["question"]["stem"], answer(row)
        for choice in (c["text"] for c in row["question"]["choices"]):
            if choice == right:
                continue
            mentions = grounder.mentions(fill_in_the_blank(stem, choice), choice)
            near = {int(n) for q in mentions.question for n in starter_graph.neighbors(q)}
            wide = near | {int(n) for m in near for n in starter_graph.neighbors(m)}
            total += 1
            connected += bool(wide & set(mentions.answer))
    assert connected > 0.98 * total


def test_new_questions_are_in_no_file(rows: dict[str, list[Row]], starter_graph: KnowledgeGraph) -> None:
    stems = {row["question"]["stem"] for split in rows.values() for row in split}
    extract, grounder = Extractor(starter_graph), Grounder(starter_graph)
    for question, choices in NEW_QUESTIONS:
        assert question not in stems
        for choice in choices:
            assert len(extract(grounder.mentions(fill_in_the_blank(question, choice), choice)).concepts)


def test_settings_load() -> None:
    config = Starter.config(seed=3)
    assert (config.seed, config.mhgrn.hops, config.preset) == (3, 2, "default")
