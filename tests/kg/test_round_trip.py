"""A graph that is written as text and read again is the same graph, to the last byte of its arrays."""

import json
import shlex
import tempfile
from pathlib import Path

import pytest
from harness import Command, contents
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.starter import FACTS

OWN = """\
name: own
relations:
  - {name: part of, members: ["*has", "*Contains"]}
  - {name: near, symmetric: true}
  - {name: is a, members: [is a, ISA, "*superclass of"]}
  - {name: unused}
pruned_relations: [unused]
pruned_concepts: [Person]
"""
cells = st.one_of(
    st.sampled_from(["cat", "Black  Cat", "person", "café", "head", "/r/x", "#", "ǅ", "ΣΑΣ", "İ", '"', "a,b", "_"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=4),  # these are no part of a text
)
own_relations = st.sampled_from(["has", "contains", "near", "is a", "isa", "superclass of", "unused"])
weights = st.floats(width=32, allow_nan=False, allow_infinity=False).map(str)


def without_source(folder: Path) -> dict[str, str]:
    """A graph's files, but for those that say where it came from."""
    return {path: digest for path, digest in contents(folder).items() if path not in ("graph.json", "checksums.json")}


def round_trip(graph: KnowledgeGraph, options: ImportOptions, folder: Path) -> None:
    graph.save(folder / "one")
    graph.export(folder / "text")
    text = folder / "text"
    again, report = build([text / "facts.tsv"], str(text / "schema.yaml"), options, text / "concepts.txt")
    assert (again.fingerprint, report.bad, report.kept) == (graph.fingerprint, 0, graph.fact_count)
    again.save(folder / "two")
    assert without_source(folder / "two") == without_source(folder / "one")
    again.export(folder / "text again")
    assert contents(folder / "text again") == contents(folder / "text")


@settings(max_examples=50)
@given(
    rows=st.lists(st.tuples(cells, st.one_of(own_relations, cells), cells, weights), min_size=1, max_size=8),
    own=st.booleans(),
    options=st.builds(ImportOptions, prune=st.booleans(), self_loops=st.booleans(), weights=st.booleans(), max_bad=st.just(1.0)),
)
def test_any_graph(rows: list[tuple[str, str, str, str]], own: bool, options: ImportOptions) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "own.yaml").write_text(OWN, encoding="utf-8")
        (folder / "facts.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8", newline="")
        try:
            graph, _ = build([folder / "facts.tsv"], str(folder / "own.yaml") if own else None, options)
        except UserError as error:
            assume("no row was usable" not in str(error))
            raise
        round_trip(graph, options, folder)


@pytest.mark.parametrize("flags", [[], ["--weights", "--keep-pruned", "--keep-self-loops"]], ids=["plain", "everything kept"])
def test_the_command_that_export_prints_builds_the_same_graph(
    flags: list[str], tmp_path: Path, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = here("kg", "build", FACTS, "--schema", "conceptnet", "-o", tmp_path / "one", *flags)
    assert made.code == 0, made
    exported = here("kg", "export", tmp_path / "one", "-o", tmp_path / "text")
    assert exported.code == 0, exported
    program, *args = shlex.split(exported.out.rpartition("to build it again: ")[2])
    assert program == "mhgrn"
    assert here(*args).code == 0
    assert without_source(tmp_path / "GRAPH") == without_source(tmp_path / "one")


def test_a_merged_graph_is_built_again_from_its_export(tmp_path: Path, here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.tsv").write_text("cat\tIsA\tcat\ncat\tHasContext\tdog\n", encoding="utf-8")
    for name, file in (("one", FACTS), ("two", tmp_path / "loop.tsv")):
        made = here("kg", "build", file, "--schema", "conceptnet", "--keep-pruned", "--keep-self-loops", "-o", tmp_path / name)
        assert made.code == 0, made
    assert here("kg", "merge", tmp_path / "one", tmp_path / "two", "-o", tmp_path / "both").code == 0
    exported = json.loads(here("kg", "export", tmp_path / "both", "-o", tmp_path / "text", "--json").out)
    assert here(*shlex.split(exported["command"])[1:]).code == 0
    assert without_source(tmp_path / "GRAPH") == without_source(tmp_path / "both")
    assert exported["facts"] == KnowledgeGraph.load(tmp_path / "GRAPH").fact_count


def test_an_export_does_not_replace_other_files(tmp_path: Path, here: Command, starter_graph: KnowledgeGraph) -> None:
    assert starter_graph.folder is not None
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "facts.tsv").write_text("my\town\tfacts\n", encoding="utf-8")
    refused = here("kg", "export", starter_graph.folder, "-o", mine)
    assert (refused.code, [path.name for path in mine.iterdir()]) == (2, ["facts.tsv"])
    assert "contains other files" in refused.err


def test_a_graph_built_again_keeps_the_features_of_the_same_concepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, _ = build([FACTS], "conceptnet")
    graph.save(tmp_path / "graph")
    vectors = tmp_path / "graph" / "features" / "names-1" / "vectors.npy"
    vectors.parent.mkdir(parents=True)
    vectors.write_bytes(b"hours of work")
    graph.save(tmp_path / "graph")
    assert vectors.read_bytes() == b"hours of work"
    assert capsys.readouterr().err == ""
    with_other_facts, _ = build([FACTS], None)
    with_other_facts.save(tmp_path / "graph")
    assert vectors.read_bytes() == b"hours of work"
    assert capsys.readouterr().err == ""
    KnowledgeGraph.from_facts([("a", "r", "b")]).save(tmp_path / "graph")
    assert not vectors.exists()
    assert "deleting the node features of the graph that was here before" in capsys.readouterr().err


def test_a_list_of_concepts_that_cannot_be_read_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; name a file of concepts"):
        build([FACTS], "conceptnet", concepts=tmp_path / "none.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        build([FACTS], "conceptnet", concepts=tmp_path / "bad.txt")
