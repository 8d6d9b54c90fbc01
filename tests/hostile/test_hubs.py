"""Two hubs in one question: the subgraph is cut to a stated size in `prepare` and in `ask`, and the answer says so."""

import json
from pathlib import Path

import numpy as np
import pytest

from mhgrn.config import Config
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.schema import Schema
from mhgrn.subgraphs.extract import DEFAULT_FACTS, DEFAULT_NODES
from mhgrn.subgraphs.prepared import PrepareOptions, prepare
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder


def two_hubs(neighbors: int) -> KnowledgeGraph:
    """Concepts 0 and 1 share all other concepts as neighbors, by two relations."""
    other = np.arange(2, neighbors + 2)
    hub, relation, other = (grid.reshape(-1) for grid in np.meshgrid([0, 1], [0, 1], other))
    names = ["sun", "moon", *(f"q{number}" for number in range(neighbors))]
    schema = Schema.derived(["near", "above"])
    return KnowledgeGraph.from_table(names, hub, relation, other, None, schema, {})


@pytest.mark.parametrize("neighbors", [20_000, pytest.param(300_000, marks=pytest.mark.long)])
def test_a_question_about_two_hubs_is_cut_to_a_stated_size(neighbors: int, tmp_path: Path) -> None:
    graph = two_hubs(neighbors)
    graph.save(tmp_path / "graph")
    rows = {"train": ["Where is q1?", ["q2", "q3"]], "dev": ["Where is the sun?", ["moon", "q5"]]}
    for split, (question, choices) in rows.items():
        row = {"question": question, "choices": choices, "answer": "A"}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row), encoding="utf-8")
    data = prepare(tmp_path, graph, tmp_path / "data", PrepareOptions(workers=1))
    sizes = [(len(s.concepts), len(s.head)) for s in data.subgraphs(data.split("dev")[0])]
    assert max(nodes for nodes, _ in sizes) == DEFAULT_NODES  # it was cut
    assert max(facts for _, facts in sizes) <= DEFAULT_FACTS
    cut = np.asarray(data.cut)
    assert cut.max() == neighbors + 2 - DEFAULT_NODES
    settings = {"features": "random", "text": {"encoder": str(letter_encoder(tmp_path / "encoder"))}, "training": {"epochs": 1}}
    answerer = QuestionAnswerer(train(data, Config.of(settings), tmp_path / "run", graph))
    answer = answerer.ask("Where is the sun?", ["moon", "q5"], paths=1)
    (note,) = (note for note in answer.notes if "cut" in note)
    assert f"{DEFAULT_NODES:,} nodes" in note
    assert f"{cut.max():,}" in note
    assert not any("cut" in note for note in answerer.ask("Where is q1?", ["q2", "q3"], effects=False).notes)
