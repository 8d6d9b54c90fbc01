"""mhgrn kg: from files of triples to a graph folder and what it says of itself."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from harness import COMMAND, Command, Project, in_a_process

from mhgrn.features.folder import FeatureFolder
from mhgrn.kg import KnowledgeGraph
from mhgrn.printing import CONTROLS
from mhgrn.starter import FACTS

TRIPLES = "head\trelation\ttail\ndesk\tAtLocation\tclassroom\nchild\tAtLocation\tclassroom\ncat\tIsA\tanimal\n"


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "triples.tsv"
    path.write_text(TRIPLES, encoding="utf-8")
    return path


def facts(here: Command, graph: Path, concept: str) -> set[tuple[str, ...]]:
    return {tuple(fact) for fact in json.loads(here("kg", "show", graph, concept, "--json").out)}


def test_processes_build_describe_and_show(project: Project) -> None:
    built = json.loads((project.root / "build.json").read_text())
    rows = len(FACTS.read_text(encoding="utf-8").splitlines()) - 1
    assert built["report"]["rows"] == rows
    info = json.loads(in_a_process("kg", "stats", project.graph, "--json").out)
    assert (info["concepts"], info["facts"], info["schema"]) == (built["concepts"], built["facts"], "conceptnet")
    assert sum(info["relations"].values()) == info["facts"]
    text = in_a_process("kg", "stats", project.graph).out
    assert f"{info['facts']:,} facts" in text
    shown = in_a_process("kg", "show", project.graph, "Milk", "--json")
    assert ["milk", "UsedFor", "drinking"] in json.loads(shown.out)
    assert shown.err == ""
    assert "milk —UsedFor→ drinking" in in_a_process("kg", "show", project.graph, "milk").out


def test_shown_facts_are_the_file_s(triples: Path, here: Command, tmp_path: Path) -> None:
    assert here("kg", "build", triples, "-o", tmp_path / "graph").code == 0
    expected = {("desk", "AtLocation", "classroom"), ("child", "AtLocation", "classroom")}
    assert facts(here, tmp_path / "graph", "classroom") == expected


def test_show_stops_at_the_limit_and_says_so(triples: Path, here: Command, tmp_path: Path) -> None:
    here("kg", "build", triples, "-o", tmp_path / "graph")
    lines = here("kg", "show", tmp_path / "graph", "classroom", "--limit", "1").out.splitlines()
    assert len(lines) == 2
    assert "1 more" in lines[1]


@pytest.mark.parametrize(("asked", "suggested"), [("children", "child"), ("childs", "child"), ("Class rooms", "class_room")])
def test_an_unknown_concept_suggests_one_with_the_same_lemma_or_one_edit_away(
    asked: str, suggested: str, triples: Path, here: Command, tmp_path: Path
) -> None:
    triples.write_text(f"{TRIPLES}class_room\tIsA\troom\n", encoding="utf-8")
    graph = tmp_path / "graph"
    here("kg", "build", triples, "-o", graph)
    for command in (["show", graph, asked], ["path", graph, "cat", asked], ["draw", graph, "cat", asked, "-o", tmp_path / "a.svg"]):
        done = here("kg", *command)
        assert done.code == 2
        assert f"{asked!r} is not a concept of the graph {graph}. Did you mean {suggested}?" in done.err


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("class room", "classroom"),
        ("hen hous", "hen_house"),
        ("house of hens", ""),
        ("house hen", "hen_house"),
        ("hen", "hen_house"),
        ("clasrooom", "classroom"),
        ("anmals", "animal"),
        ("z" * 1_000_000, ""),
        ("\ud800", ""),
    ],
)
def test_an_unknown_concept_suggests_similar_ones(asked: str, suggested: str, triples: Path, here: Command, tmp_path: Path) -> None:
    triples.write_text(f"{TRIPLES}hen_house\tIsA\tbuilding\n", encoding="utf-8")
    graph = tmp_path / "graph"
    here("kg", "build", triples, "-o", graph)
    done = here("kg", "show", graph, asked)
    assert done.code == 2
    assert done.err.endswith(f"Did you mean {suggested}?\n" if suggested else f"is not a concept of the graph {graph}.\n")
    assert len(done.err) < 1000


@pytest.mark.parametrize("compress", [False, True])
def test_conceptnet_release_format(compress: bool, here: Command, tmp_path: Path) -> None:
    rows = [
        ["/a/1", "/r/HasA", "/c/en/cat/n", "/c/en/tail", '{"weight": 2.0}'],
        ["/a/2", "/r/IsA", "/c/en/cat", "/c/en/animal", '{"weight": 1.0}'],
        ["/a/3", "/r/IsA", "/c/fr/chat", "/c/fr/animal", '{"weight": 1.0}'],
        ["/a/4", "/r/dbpedia/genre", "/c/en/cat", "/c/en/animal", '{"weight": 1.0}'],
    ]
    text = "".join("\t".join(row) + "\n" for row in rows).encode()
    source = tmp_path / ("assertions.csv.gz" if compress else "assertions.csv")
    source.write_bytes(gzip.compress(text) if compress else text)
    report = json.loads(here("kg", "build", source, "-o", tmp_path / "graph", "--json").out)["report"]
    assert (report["rows"], report["kept"], report["other_language"]) == (4, 2, 1)
    # HasA is PartOf the other way round
    assert facts(here, tmp_path / "graph", "cat") == {("tail", "PartOf", "cat"), ("cat", "IsA", "animal")}


def test_a_few_malformed_rows_are_left_out_and_named(here: Command, tmp_path: Path) -> None:
    source = tmp_path / "triples.tsv"
    good = [f"thing{i}\tIsA\tobject" for i in range(300)]
    source.write_text("\n".join([*good, "two\tfields"]) + "\n", encoding="utf-8")
    built = here("kg", "build", source, "-o", tmp_path / "graph")
    assert built.code == 0
    assert f"left out: {source}:301: 2 fields" in built.err
    assert "1 malformed" in built.out


def test_a_second_build_replaces_the_first_if_asked(triples: Path, here: Command, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    here("kg", "build", triples, "-o", graph)
    triples.write_text(TRIPLES + "dog\tIsA\tanimal\n", encoding="utf-8")
    refused = here("kg", "build", triples, "-o", graph)
    assert (refused.code, refused.out) == (2, "")
    assert f"{graph} exists; name another folder, or replace it with --force." in refused.err
    assert json.loads(here("kg", "stats", graph, "--json").out)["facts"] == 3
    assert here("kg", "build", triples, "-o", graph, "--force").code == 0
    assert json.loads(here("kg", "stats", graph, "--json").out)["facts"] == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph", "triples.tsv"]


def test_other_commands_replace_only_if_asked(triples: Path, here: Command, tmp_path: Path) -> None:
    graph, other, text = tmp_path / "graph", tmp_path / "other", tmp_path / "text"
    here("kg", "build", triples, "-o", graph)
    for command in (["shuffle-relations", graph, "-o", other], ["merge", graph, graph, "-o", other], ["export", graph, "-o", text]):
        first, second, third = here("kg", *command), here("kg", *command), here("kg", *command, "--force")
        assert (second.code, third.code) == (2, 0), (first, second, third)
        assert "or replace it with --force" in second.err


def test_features_survive_if_the_concepts_are_the_same(triples: Path, here: Command, tmp_path: Path) -> None:
    """Vectors of names fit every graph with the same concepts; those of facts are kept, but refused for other facts."""
    graph, features = tmp_path / "graph", tmp_path / "graph" / "features"
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("cat 1 2\nanimal 3 4\n", encoding="utf-8")
    here("kg", "build", triples, "-o", graph)
    built = here("features", "build", graph, "--from", "vectors", "--set", f"file={vectors}")
    assert built.code == 0, built
    (folder,) = features.iterdir()
    before = sorted(features.rglob("*"))
    triples.write_text(f"{TRIPLES}cat\tLikes\tanimal\n", encoding="utf-8")
    again = here("kg", "build", triples, "-o", graph, "--force")
    assert (again.code, again.err) == (0, "")
    assert sorted(features.rglob("*")) == before
    loaded = FeatureFolder.load(folder, KnowledgeGraph.load(graph))
    assert loaded.stored.whole.tolist() == [[1, 2], [3, 4]]
    triples.write_text(f"{TRIPLES}dog\tIsA\tanimal\n", encoding="utf-8")
    other = here("kg", "build", triples, "-o", graph, "--force")
    assert "deleting the node features of the graph that was here before, which had other concepts" in other.err
    assert not features.exists()


def test_hostile_names_are_escaped_wherever_they_are_shown(here: Command, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("cat\x1b[2J\tIs\u202eA\tanimal\u2066\nanimal\u2066\tHasA\tleg\x9b\n", encoding="utf-8")
    graph = tmp_path / "graph"
    built = here("kg", "build", facts, "-o", graph)
    assert "warning: 4 names have control or bidirectional characters" in built.err
    assert f"The first: {facts}:1: 'cat\\x1b[2j'" in built.err
    commands = [
        ["show", graph, "animal\u2066"],
        ["path", graph, "cat\x1b[2j", "leg\x9b"],
        ["path", graph, "cat\x1b[2j", "leg\x9b", "--json"],
        ["stats", graph],
        ["stats", graph, "--json"],
        ["show", graph, "no\x1bsuch\u202e"],
        ["show", graph, "cat\x1b[2"],
    ]
    for done in (built, *(here("kg", *command) for command in commands)):
        assert not CONTROLS.search((done.out + done.err).replace("\n", "")), done
    shown = json.loads(here("kg", "path", graph, "cat\x1b[2j", "leg\x9b", "--json").out)
    assert "animal\u2066" in shown["paths"][0]["concepts"]  # JSON has the names as they are


def test_columns_and_delimiter_are_options(here: Command, tmp_path: Path) -> None:
    table = tmp_path / "edges.txt"
    table.write_text("cat;animal;IsA;x\n", encoding="utf-8")
    built = here(
        "kg",
        "build",
        table,
        "--delimiter",
        ";",
        "--columns",
        "head=1,relation=3,tail=2",
        "--language",
        "de",
        "-o",
        tmp_path / "graph",
    )
    assert built.code == 0, built
    assert "note: --language has no effect on files of the format csv." in built.err
    assert facts(here, tmp_path / "graph", "cat") == {("cat", "IsA", "animal")}


def test_a_link_to_a_graph_may_be_built_over(triples: Path, here: Command, tmp_path: Path) -> None:
    graph, link = tmp_path / "graph", tmp_path / "link"
    here("kg", "build", triples, "-o", graph)
    link.symlink_to(graph)
    triples.write_text(TRIPLES + "dog\tIsA\tanimal\n", encoding="utf-8")
    built = here("kg", "build", triples, "-o", link, "--force")
    assert built.code == 0, built
    assert json.loads(here("kg", "stats", link, "--json").out)["facts"] == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph", "link", "triples.tsv"]


def test_shuffled_relations_keep_the_edges(project: Project, here: Command, tmp_path: Path) -> None:
    assert here("kg", "shuffle-relations", project.graph, "-o", tmp_path / "shuffled", "--seed", "1").code == 0
    ours, theirs = (facts(here, graph, "saddle") for graph in (tmp_path / "shuffled", project.graph))
    assert {(h, t) for h, _, t in ours} == {(h, t) for h, _, t in theirs}
    assert ours != theirs


def test_results_and_messages_do_not_mix(triples: Path, tmp_path: Path) -> None:
    built = in_a_process("kg", "build", triples, "-o", tmp_path / "graph", "--json")
    assert json.loads(built.out)["facts"] == 3
    assert built.err == ""


def test_a_closed_pipe_is_no_error_message(project: Project) -> None:
    read, write = os.pipe()
    os.close(read)
    shown = subprocess.run([COMMAND, "kg", "show", str(project.graph), "milk"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert [line for line in shown.stderr.splitlines() if not line.startswith(b"compiling ")] == []


def test_provenance_is_kept_and_shown(here: Command, tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("child\tAtLocation\tclassroom\nclassroom\tRelatedTo\tschoolroom\n")
    for name, kept in (("kept", ["--provenance"]), ("plain", [])):
        graph = tmp_path / name
        here("kg", "build", tmp_path / "facts.tsv", "-o", graph, *kept)
        source = "[facts.tsv:1]" if kept else ""
        lines = here("kg", "show", graph, "child").out.splitlines()
        assert lines == [f"child —AtLocation→ classroom   {source}".rstrip()]
        (fact,) = json.loads(here("kg", "show", graph, "child", "--details", "--json").out)
        assert (fact["fact"], fact["number"]) == (["child", "AtLocation", "classroom"], 0)
        assert fact.get("provenance") == ({"file": "facts.tsv", "row": 1} if kept else None)
        assert fact["id"] in here("kg", "show", graph, "child", "--details").out
        found = json.loads(here("kg", "path", graph, "child", "schoolroom", "--details", "--json").out)
        assert [one["fact"][0] for one in found["facts"]] == ["child", "classroom"]
        said = here("kg", "path", graph, "child", "schoolroom", "--details").out.splitlines()
        assert len(said) == 3
        assert said[2].endswith("[facts.tsv:2]") == bool(kept)
