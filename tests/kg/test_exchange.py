"""Graphs from and to objects in memory."""

import builtins
from pathlib import Path
from typing import Any

import networkx
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, build

FACTS = [("cat", "IsA", "animal"), ("animal", "HasA", "skin"), ("cat", "AtLocation", "house"), ("cat", "Likes", "animal")]


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_facts(FACTS)


def test_length_iteration_and_membership_agree(graph: KnowledgeGraph) -> None:
    assert list(graph) == ["cat", "animal", "skin", "house"]
    assert len(list(graph)) == len(graph)
    assert all(name in graph for name in graph)
    assert set(graph.facts()) == set(FACTS)
    assert len(list(graph.facts())) == graph.fact_count
    assert all(fact in graph for fact in graph.facts())
    extended = graph.with_facts([("quokka", "IsA", "animal")])
    assert list(extended) == [*graph, "quokka"]
    assert "quokka" in extended
    assert Fact("quokka", "IsA", "animal") in extended
    assert set(extended.facts()) == {*FACTS, ("quokka", "IsA", "animal")}


def test_membership_takes_any_spelling_and_any_value(graph: KnowledgeGraph) -> None:
    assert " CAT " in graph
    assert ("Cat", "IsA", "Animal") in graph
    for other in (
        "dog",
        "",
        "\ud800",
        ("cat", "IsA", "skin"),
        ("cat", "isa?", "animal"),
        ("cat", "IsA"),
        ("cat", 1, "animal"),
        None,
        0,
    ):
        assert other not in graph


def test_a_graph_says_what_it_is(graph: KnowledgeGraph) -> None:
    assert repr(graph) == "KnowledgeGraph(concepts=4, facts=4, relations=4, folder=None)"


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=6)


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=8))
def test_facts_and_files_give_the_same_names(tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]) -> None:
    """In memory and from a file, also for letters outside ASCII."""
    kept = [f for f in facts if all(" ".join(part.split()) for part in f) and not f[1].strip().startswith("*")]
    path = Path(tmp_path_factory.mktemp("facts")) / "facts.csv"
    cells = ['"' + part.replace('"', '""') + '"' for fact in kept for part in fact]
    rows = [",".join(cells[i : i + 3]) for i in range(0, len(cells), 3)]
    path.write_text("h,r,t\n" + "\n".join(rows).replace("\r", " ").replace("\n\n", "\n"), encoding="utf-8", newline="")
    if not kept or any("\n" in part or "\r" in part for fact in kept for part in fact):
        return
    built, _ = build(path)
    assert KnowledgeGraph.from_facts(kept).fingerprint == built.fingerprint


def test_letters_outside_ascii_are_lowered(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("Ärger\u00a0 Über\tIsA\tGEFÜHL\n", encoding="utf-8")
    same = KnowledgeGraph.from_facts([("Ärger\u00a0 Über", "IsA", "GEFÜHL")])
    assert list(same) == list(build(path)[0]) == ["ärger_über", "gefühl"]


def test_facts_as_mappings_frames_and_with_weights() -> None:
    expected = KnowledgeGraph.from_facts(FACTS).fingerprint
    records = [{"subject": h, "object": t, "predicate": r, "id": 5} for h, r, t in FACTS]
    frame = pandas.DataFrame(FACTS, columns=["Source Node", "relation", "Target Node"])
    for given_facts in (
        records,
        frame,
        polars.from_pandas(frame),
        [list(fact) for fact in FACTS],
        (fact for fact in FACTS),
        frame.to_numpy(),
    ):
        assert KnowledgeGraph.from_facts(given_facts).fingerprint == expected
    weighted = KnowledgeGraph.from_facts([("a", "r", "b", 2.0), ("b", "r", "a")])
    assert weighted.weight is not None
    assert weighted.weight.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ("facts.tsv", "'facts.tsv' is not a list of facts"),
        ({"head": "a"}, "is not a list of facts"),
        (5, "5 is not a list of facts"),
        (["cat IsA animal"], "fact 1 is 'cat IsA animal'; give tuples of three texts"),
        ([("a", "r", "b"), ("a", "b")], r"fact 2 is \('a', 'b'\)"),
        ([("a", "r", 5)], "fact 1 is"),
        ([{"a", "r", "b"}], "fact 1 is"),
        ([{"head": "a", "tail": "b"}], "fact 1 has the keys head, tail"),
        ([("a", "", "b")], "fact 1, .*: an empty head, relation or tail"),
        ([("a", "r", "b", "heavy")], "the weight 'heavy' is not a number"),
        ([("a", "r", "\ud800")], "half of a surrogate pair"),
        ([("a", "r", "b" * 10**6, 1, 1)], "fact 1 is"),
    ],
)
def test_wrong_facts_are_refused(facts: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        KnowledgeGraph.from_facts(facts)
    assert len(str(refused.value)) < 500


def test_networkx_round_trip(graph: KnowledgeGraph) -> None:
    exported = graph.to_networkx()
    assert list(exported.nodes) == list(graph)
    assert {(h, r, t) for h, t, r in exported.edges(keys=True)} == set(FACTS)
    assert KnowledgeGraph.from_networkx(exported).fingerprint == graph.fingerprint
    weighted = KnowledgeGraph.from_facts([(*fact, 0.5 + i) for i, fact in enumerate(FACTS)])
    again = KnowledgeGraph.from_networkx(weighted.to_networkx(), weight="weight")
    assert again.fingerprint == weighted.fingerprint


def test_networkx_graphs_of_every_kind() -> None:
    undirected = networkx.Graph()
    undirected.add_edge(1, "Two", label="Near")
    undirected.add_node("Alone")
    graph = KnowledgeGraph.from_networkx(undirected, relation="label")
    assert list(graph) == ["1", "two", "alone"]
    assert set(graph.facts()) == {("1", "Near", "two"), ("two", "Near", "1")}
    with pytest.raises(UserError, match="the edge from 1 to 'Two' has no attribute 'relation'; it has: label"):
        KnowledgeGraph.from_networkx(undirected)
    with pytest.raises(UserError, match="is not a graph of networkx"):
        KnowledgeGraph.from_networkx(FACTS)
    undirected.add_node("two")
    with pytest.raises(UserError, match="the node 'two' and 'Two' would have the name 'two'"):
        KnowledgeGraph.from_networkx(undirected, relation="label")


def test_pandas_round_trip(graph: KnowledgeGraph) -> None:
    frame = graph.to_pandas()
    assert list(frame.columns) == ["head", "relation", "tail"]
    assert set(frame.itertuples(index=False, name=None)) == set(FACTS)
    assert KnowledgeGraph.from_facts(frame).fact_count == 4
    weighted = KnowledgeGraph.from_facts([("a", "r", "b", 2.0)])
    assert weighted.to_pandas().to_dict("list") == {"head": ["a"], "relation": ["r"], "tail": ["b"], "weight": [2.0]}


@pytest.mark.parametrize("library", ["networkx", "pandas"])
def test_a_missing_library_is_named(graph: KnowledgeGraph, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name == library:
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=f"pip install {library}"):
        getattr(graph, f"to_{library}")()


@pytest.mark.parametrize("paths", [5, None, [5], b"facts.tsv", {"a": 1}, [["facts.tsv"]]])
def test_wrong_paths_are_refused(paths: Any) -> None:
    with pytest.raises(UserError, match="is not a file name; give the path"):
        build(paths)


def test_one_path_or_many(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("cat\tIsA\tanimal\n", encoding="utf-8")
    graphs = [build(paths)[0] for paths in (path, str(path), [path], [str(path)], iter([path]))]
    assert len({graph.fingerprint for graph in graphs}) == 1


# ---- control characters

CONTROLS = ["\x01", "\x7f", "\x9b", "\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\ufffe", "\uffff"]


@pytest.mark.parametrize("character", CONTROLS, ids=ascii)
def test_control_characters_are_kept_and_reported(tmp_path: Path, character: str) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text(
        f"cat\tIsA\tanimal\n\nbad{character}dog\tIsA\tanimal\nbad{character}dog\tLikes\tx{character}\n", encoding="utf-8"
    )
    graph, report = build(path)
    assert f"bad{character}dog" in graph
    assert report.with_controls == 2
    assert report.first_with_controls.startswith(f"{path}:3: 'bad\\")
    assert character not in report.first_with_controls


@pytest.mark.parametrize(
    "character", ["ä", "日", "😀", "\u200d", "\u00ad", "\u2020", "\u2070", "\uff00", "ؠ", "\u00a9", "\ufffd", "\U000e0001"]
)
def test_other_characters_are_not_reported(tmp_path: Path, character: str) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text(f"a{character}\tIsA\tb{character}c\n", encoding="utf-8")
    assert build(path)[1].with_controls == 0


def test_control_characters_of_relations_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("a,is\u202ea,b\n", encoding="utf-8")
    report = build(path, options=ImportOptions())[1]
    assert (report.with_controls, report.first_with_controls) == (1, "the relation 'is\\u202ea'")
