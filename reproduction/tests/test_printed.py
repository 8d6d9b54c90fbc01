"""Tables without training: counts and properties equal those of the paper."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.subgraphs.report import count_walks
from mhgrn_reproduction import data_tables, encoder_tables, printed, scalability
from mhgrn_reproduction.sources import Sources


def test_parameters_are_the_papers() -> None:
    rows = {row[0]: row for row in encoder_tables.parameters()["rows"]}
    assert {name: rows[name][3:] for name in encoder_tables.PAPER_PARAMETERS} == {
        "rn": ["399K", "yes"],
        "rgcn": ["365K", "yes"],
        "gconattn": ["453K", "yes"],
        "mhgrn": ["544K", "yes"],
        "qagnn": ["2,845K", "no"],  # of its code; its paper has no number
    }


def test_splits_are_the_papers(shared_data: Path, tmp_path: Path) -> None:
    rows = data_tables.splits(Sources(shared_data, tmp_path))["rows"]
    assert [row[-1] for row in rows] == ["yes"] * 3
    assert [row[4] for row in rows] == ["no", "yes", "yes"]  # the official test split has no answers
    assert not list(tmp_path.iterdir())


def test_properties_are_those_of_table_1() -> None:
    rows = {row[0]: row[1:4] for row in encoder_tables.properties()["rows"]}
    for name, (relations, paths, nodes, hops) in encoder_tables.PAPER_PROPERTIES.items():
        assert nodes == hops
        assert rows[name] == [relations, paths, nodes], name
    assert rows["none"] == ["–", "no", "–"]
    assert rows["gconattn"][0] == rows["most-edges"][0] == "no"
    assert rows["edge-types"][0] == "yes"


@given(st.integers(3, 30), st.integers(0, 100), st.integers(1, 5), st.integers(0, 99))
def test_random_graphs_have_no_two_facts_between_the_same_nodes(nodes: int, facts: int, relations: int, seed: int) -> None:
    graph = scalability.random_subgraph(nodes, facts, relations, np.random.default_rng(seed))
    pairs = set(zip(graph.head.tolist(), graph.tail.tolist(), strict=True))
    assert len(pairs) == len(graph.head) == min(facts, nodes * (nodes - 1) // 2)
    assert all(0 <= head < tail < nodes for head, tail in pairs)
    assert graph.relation.max(initial=0) < relations
    assert {QUESTION, ANSWER} <= set(graph.types.tolist())


def test_steps_are_timed_by_size_and_drawn(tmp_path: Path) -> None:
    times = scalability._times("mhgrn", ((k, k, 6) for k in (1, 2)), graphs=2, degree=2, repeats=1)
    assert list(times) == [1, 2]
    assert all(seconds > 0 for seconds in times.values())
    found = printed.result("scalability", ["a"], [["b"]], seconds={"mhgrn": {"hops": times, "nodes": times}})
    printed.save(found, tmp_path / "scalability", lambda path: scalability.draw_scalability(found, path))
    assert (tmp_path / "scalability" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert printed.read(tmp_path / "scalability")["rows"] == [["b"]]


def test_path_counts_are_those_of_the_statements(small_data: PreparedData, tmp_path: Path) -> None:
    found, draw = data_tables.path_counts(small_data, 2)
    statements = range(len(small_data.node_ptr) - 1)
    walks = np.array([count_walks(small_data.subgraph(s), 2)[0] for s in statements])
    assert [row[1] for row in found["rows"]] == [f"{round(float(mean), 2):,}" for mean in walks.mean(0)]
    draw(tmp_path / "paths.png")
    assert (tmp_path / "paths.png").is_file()


def test_a_result_of_something_else_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    of_this, of_that = (printed.result("breakdown", ["a"], [["1"]], of={"experiment": name}) for name in ("this", "that"))
    printed.save(of_this, tmp_path / "breakdown", replace=False)
    printed.save(of_this, tmp_path / "breakdown", replace=False)
    with pytest.raises(UserError, match=r"has a result of experiment this\. .* --results, .* --force"):
        printed.save(of_that, tmp_path / "breakdown", replace=False)
    assert printed.read(tmp_path / "breakdown") == of_this
    printed.save(of_that, tmp_path / "breakdown")
    assert printed.read(tmp_path / "breakdown") == of_that
