"""Damaged files of every format with ids: one clear message with file and line, and nothing is written."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from harness import Command

import dumps
from dumps import DUMPS
from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, build
from mhgrn.kg.readers import _rdf
from mhgrn.kg.readers.wikidata import WikidataReader

# after which text a file is cut; it is the start of something that every entity has
CUTS = {
    "N-Triples": b'label> "',
    "N-Quads": b'label> "',
    "Turtle": b'label "',
    "TriG": b'label "',
    "RDF/XML": b"<rdfs:label",
    "SKOS (Turtle)": b'prefLabel "',
    "OWL": b"<rdfs:label",
    "OBO": b'synonym: "',
    "Wikidata JSON": b'"claims":',
    "KGTK": b"\tlabel\t",
    "Neo4j CSV (apoc)": b'":Thing",',
    "Neo4j JSON (apoc)": b'"type":',
}


@pytest.fixture(params=CUTS)
def dump(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A small dump of each format."""
    if library := DUMPS[request.param].needs:
        pytest.importorskip(library)
    monkeypatch.setattr(dumps, "ENTITIES", 60)
    path = tmp_path / DUMPS[request.param].file
    DUMPS[request.param].write(path, 1)
    return request.param, path


def message(path: Path) -> str:
    """What a user is told about a file: the reason for refusing it, or the malformed rows."""
    try:
        _, report = build([path])
    except UserError as error:
        return str(error)
    return "\n".join(report.bad_rows)


def test_a_dump_is_whole(dump: tuple[str, Path]) -> None:
    graph, report = build([dump[1]], options=ImportOptions(max_bad=0))
    assert graph.fact_count > 150
    assert not report.bad


def test_a_truncated_file_is_named_with_the_line(dump: tuple[str, Path]) -> None:
    name, path = dump
    content = path.read_bytes()
    end = content.index(CUTS[name], len(content) // 2) + len(CUTS[name])
    path.write_bytes(content[:end])
    line = content.count(b"\n", 0, end) + 1
    found = message(path)
    assert re.search(rf"{path.name}:({line}|{line + 1}): ", found), found


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_named(dump: tuple[str, Path], encoding: str) -> None:
    name, path = dump
    text = path.read_text(encoding="utf-8")
    at = text.index(CUTS[name].decode(), len(text) // 2)
    path.write_bytes((text[:at] + "ü" + text[at:]).encode(encoding))
    found = message(path)
    if encoding == "latin-1":
        assert re.search(rf"{path.name}:{text.count(chr(10), 0, at) + 1}: not UTF-8 text", found), found
    assert str(path) in found
    assert "UTF-8" in found


def test_a_truncated_archive_is_refused_and_nothing_is_written(dump: tuple[str, Path], tmp_path: Path, here: Command) -> None:
    _, path = dump
    packed = tmp_path / f"{path.name}.gz"
    content = gzip.compress(path.read_bytes())
    packed.write_bytes(content[: len(content) // 2])
    done = here("kg", "build", packed, "-o", tmp_path / "graph")
    assert done.code == 2
    assert re.search(rf"{packed.name}(:\d+: cannot be read from here| cannot be read as text)", done.err), done.err
    assert "Traceback" not in done.err
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, packed.name}


def test_a_line_without_end_is_refused(dump: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, path = dump
    monkeypatch.setattr(WikidataReader, "longest_line", 1 << 20)
    content = path.read_bytes()
    at = content.index(CUTS[name], len(content) // 2)
    path.write_bytes(content[: at + len(CUTS[name])] + b"x" * (18 << 20))
    found = message(path)
    assert str(path) in found
    assert re.search(r"more than (a|16) million characters", found), found


ODD_ENTITIES: list[Any] = [
    3,
    "text",
    None,
    [],
    [{}],
    {},
    {"id": 3, "labels": {}, "claims": {}},
    {"id": "Q1", "labels": [3], "aliases": {"en": [3]}, "claims": {"P1": 3, "P2": [3], "P3": [{"mainsnak": []}]}},
    {"id": "Q1", "labels": {"en": 3}, "claims": {"P1": [{"mainsnak": {"datavalue": 3, "datatype": []}, "rank": {}}]}},
    {"id": "Q1", "claims": {"P1": [{"mainsnak": {"datatype": "string", "datavalue": {"value": "half \ud800"}}}]}},
    {"id": "Q\udfff", "labels": {"en": {"value": "half \ud800"}}, "claims": {}},
    {"type": "property", "id": "P31", "labels": {"en": {"value": "half \ud800"}}, "claims": {}},
]


@pytest.mark.parametrize("odd", ODD_ENTITIES, ids=range(len(ODD_ENTITIES)))
def test_json_of_another_type_is_a_malformed_row_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    monkeypatch.setattr(dumps, "ENTITIES", 60)
    path = tmp_path / "wikidata.json"
    DUMPS["Wikidata JSON"].write(path, 1)
    path.write_text(path.read_text(encoding="utf-8").replace("[\n", f"[\n{json.dumps(odd)},\n", 1), encoding="utf-8")
    graph, report = build([path], options=ImportOptions(format="wikidata"))
    assert graph.fact_count > 150
    assert report.bad <= 1
    assert all(re.search(r"wikidata\.json(:2)?: ", row) for row in report.bad_rows)


ODD_NODES: list[Any] = [
    3,
    None,
    [],
    {"type": "node"},
    {"type": "node", "id": {}},
    {"type": "node", "id": 1, "properties": [3]},
    {"type": "node", "id": 1, "properties": {"name": {"a": 1}, "aliases": [3, None]}},
    {"type": "relationship", "start": [], "end": {}, "label": 3},
    {"type": "relationship", "start": {"id": "a"}, "end": {"id": "half \ud800"}, "label": "R"},
    {"type": "relationship", "start": {"id": "a"}, "end": {"id": "b"}, "label": "half \ud800"},
]


@pytest.mark.parametrize("odd", ODD_NODES, ids=range(len(ODD_NODES)))
def test_json_of_another_type_in_a_neo4j_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    monkeypatch.setattr(dumps, "ENTITIES", 60)
    path = tmp_path / "neo4j.json"
    DUMPS["Neo4j JSON (apoc)"].write(path, 1)
    path.write_text(path.read_text(encoding="utf-8") + json.dumps(odd) + "\n", encoding="utf-8")
    graph, report = build([path])
    assert graph.fact_count > 150
    assert report.bad == (0 if isinstance(odd, dict) and odd.get("properties") else 1)
    assert all(re.search(r"neo4j\.json:\d+: ", row) for row in report.bad_rows)


def test_a_dump_without_its_last_bracket_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "ENTITIES", 60)
    path = tmp_path / "wikidata.json"
    DUMPS["Wikidata JSON"].write(path, 1)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:40]), encoding="utf-8")
    assert any("not closed by a bracket; is the dump truncated?" in note for note in build([path])[1].notes)


def test_an_entity_of_wikidata_may_have_millions_of_characters(tmp_path: Path) -> None:
    claims = [{"mainsnak": {"datatype": "wikibase-item", "datavalue": {"value": {"id": f"Q{n}"}}}} for n in range(2, 120_000)]
    lines = [json.dumps({"id": "Q1", "labels": {}, "claims": {"P50": claims}}), json.dumps({"id": 3}), "]"]
    assert len(lines[0]) > 9 << 20  # more than a block
    path = tmp_path / "wikidata.json"
    path.write_text("[\n" + ",\n".join(lines), encoding="utf-8")
    graph, report = build([path])
    assert graph.fact_count == 119_998
    assert [row.partition(": ")[0] for row in report.bad_rows] == [f"{path}:3"]


def test_a_text_of_neo4j_may_span_lines(tmp_path: Path) -> None:
    path = tmp_path / "neo4j.csv"
    head = '"_id","_labels","name","_start","_end","_type"\n'
    path.write_text(head + '"0",":A","Ann\n\nof Rome",,,\n"1",":A","Bob",,,\n,,,"0","1","KNOWS"\n', encoding="utf-8")
    assert list(map(tuple, build([path])[0].facts())) == [("Ann_of_Rome", "KNOWS", "Bob")]
    path.write_text(head + '"0",":A","Ann,,,\n"1",":A","Bob",,,\n,,,"0","1","KNOWS"\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"neo4j\.csv:2: a quotation mark opens here and is not closed on this line"):
        build([path])


RESTRICTIONS = """\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix : <http://example.org/> .
"""


def test_restrictions_in_any_order_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of definitions are never complete; the last of them are kept, and a restriction near to its class is found."""
    pytest.importorskip("pyoxigraph")
    monkeypatch.setattr(_rdf, "MOST_NODES", 10)
    sizes = list[int]()
    add = _rdf._Restrictions.add

    def watched(self: Any, *arguments: Any) -> Any:
        found = add(self, *arguments)
        sizes.append(len(self._nodes))
        return found

    monkeypatch.setattr(_rdf._Restrictions, "add", watched)
    statements = {
        "class": ":c{n} rdfs:subClassOf _:b{n} .",
        "property": "_:b{n} owl:onProperty :part_of .",
        "filler": "_:b{n} owl:someValuesFrom :d{n} .",
    }
    text = RESTRICTIONS
    for n in range(300):
        order = [list(statements), list(statements)[::-1], ["property", "class", "filler"]][n % 3]
        text += "\n".join(statements[one].format(n=n) for one in order)
        text += (
            f"\n:e{n} owl:equivalentClass [ owl:intersectionOf ( :f [ owl:onProperty :part_of ; owl:someValuesFrom :g{n} ] ) ] .\n"
        )
    path = tmp_path / "a.ttl"
    path.write_text(text, encoding="utf-8")
    graph, report = build([path])
    facts = {(fact.head.rpartition("/")[2], fact.relation, fact.tail.rpartition("/")[2]) for fact in graph.facts()}
    assert facts == {(f"c{n}", "part_of", f"d{n}") for n in range(300)}
    assert max(sizes) <= 11
    assert any("statements about nodes without a name" in note for note in report.notes)
