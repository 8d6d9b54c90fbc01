"""Synthetic dumps of any size in the formats that mhgrn reads, for benchmarks and tests of readers.

A dump consists of parts with ten thousand entities each, and is the same every time. Entities have a label, an alias and some facts
about other entities, many of them about a few that all parts name. The first part is written by a library of the format: RDF by
pyoxigraph, Parquet by pyarrow, CSV and JSON by the modules of Python. OWL, OBO, KGTK and GraphML follow the layout of files that
the OWL API, OBO's tools, KGTK and networkx write. The other parts are the first one with other numbers of entities.
"""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

FACTS = 6  # of an entity, at most
ENTITIES = 10_000  # of a part
ROW_GROUP = 250_000  # rows of Parquet
FIRST, HUBS = 100_000_000, 900_000_000  # numbers of the first entity, and of those that all parts name
PART = b"10000"  # of the numbers of all entities in the first part, and of no others
WORDS = (
    "north south silver river valley bridge garden history of the modern ancient great society theory market village station "
    "school music ocean winter summer island royal national science paper stone light"
).split()
RELATIONS = "instance of,part of,located in,made of,author,follows,has cause,used by,named after,subclass of,field of work,owner of"
NAMES = RELATIONS.split(",")
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "ex": "http://data.example.org/entity/",
    "p": "http://data.example.org/property/",
}


class Entity(NamedTuple):
    """One entity of a dump."""

    number: int
    label: str
    alias: str
    facts: list[tuple[int, int]]  # number of the relation, number of the other entity


def entities() -> Iterator[Entity]:
    """Yield the entities of the first part, always the same."""
    rng = np.random.default_rng(0)
    words = rng.integers(len(WORDS), size=(ENTITIES, 4)).tolist()
    relations = rng.integers(len(NAMES), size=(ENTITIES, FACTS)).tolist()
    near, far = rng.integers(ENTITIES, size=(ENTITIES, FACTS)), (1000 * rng.random((ENTITIES, FACTS)) ** 3).astype(np.int64)
    others = np.where(rng.random((ENTITIES, FACTS)) < 0.3, HUBS + far, FIRST + near).tolist()
    counts = rng.integers(2, FACTS + 1, size=ENTITIES).tolist()
    for i in range(ENTITIES):
        first, second, third, fourth = (WORDS[word] for word in words[i])
        facts = list(zip(relations[i], others[i], strict=True))[: counts[i]]
        yield Entity(FIRST + i, f"{first} {second} {FIRST + i}", f"{third} {fourth} {FIRST + i}", facts)


Write = Callable[[Path, int], None]
Texts = Callable[[Entity], str]


def _write_parts(
    path: Path, size: int, start: bytes, part: bytes, end: bytes, mark: bytes = PART, digits: str = "0123456789"
) -> None:
    """Write a file of about so many bytes that repeats a part with other numbers."""
    letters = bytes.maketrans(b"0123456789", digits.encode())
    with path.open("wb") as file:
        file.write(start)
        for number in range(10_000):
            file.write(part.replace(mark, mark[:-4] + f"{number:04}".encode().translate(letters)))
            if file.tell() >= size:
                break
        file.write(end)


def _of_texts(text: Texts, start: str = "", end: str = "") -> Write:
    """What writes a dump as texts of entities."""

    def write(path: Path, size: int) -> None:
        _write_parts(path, size, start.encode(), "".join(map(text, entities())).encode(), end.encode())

    return write


def _of_quads(kind: str, quads: Callable[[Any, Entity], Iterator[Any]]) -> Write:
    """What writes a dump of RDF by pyoxigraph."""

    def write(path: Path, size: int) -> None:
        import pyoxigraph as ox

        form = getattr(ox.RdfFormat, kind)
        found = (quad for entity in entities() for quad in quads(ox, entity))
        statements = found if form.supports_datasets else (quad.triple for quad in found)
        prefixes = PREFIXES if kind in ("TURTLE", "TRIG", "RDF_XML") else None
        part = ox.serialize(statements, format=form, prefixes=prefixes) or b""
        start = end = b""
        if kind == "RDF_XML":  # one root for all parts
            place = part.index(b">", part.index(b"<rdf:RDF")) + 1
            start, part, end = part[:place], part[place : part.rindex(b"</rdf:RDF>")], b"</rdf:RDF>\n"
        _write_parts(path, size, start, part, end)

    return write


def _plain(ox: Any, entity: Entity) -> Iterator[Any]:
    own, graph = ox.NamedNode(f"{PREFIXES['ex']}Q{entity.number}"), ox.NamedNode(f"http://data.example.org/{entity.number % 7}")
    yield ox.Quad(own, ox.NamedNode(f"{PREFIXES['rdfs']}label"), ox.Literal(entity.label, language="en"), graph)
    yield ox.Quad(own, ox.NamedNode(f"{PREFIXES['skos']}altLabel"), ox.Literal(entity.alias, language="en"), graph)
    for relation, other in entity.facts:
        named = ox.NamedNode(f"{PREFIXES['p']}{NAMES[relation].replace(' ', '_')}")
        yield ox.Quad(own, named, ox.NamedNode(f"{PREFIXES['ex']}Q{other}"), graph)


def _skos(ox: Any, entity: Entity) -> Iterator[Any]:
    def named(space: str, name: str) -> Any:
        return ox.NamedNode(f"{PREFIXES[space]}{name}")

    own = named("ex", f"c{entity.number}")
    yield ox.Quad(own, named("rdf", "type"), named("skos", "Concept"))
    for language in ("en", "de"):
        yield ox.Quad(own, named("skos", "prefLabel"), ox.Literal(f"{entity.label} {language}", language=language))
    yield ox.Quad(own, named("skos", "altLabel"), ox.Literal(entity.alias, language="en"))
    yield ox.Quad(own, named("skos", "definition"), ox.Literal(f"What is called {entity.label}.", language="en"))
    for relation, other in entity.facts:
        yield ox.Quad(own, named("skos", ("broader", "related", "narrower")[relation % 3]), named("ex", f"c{other}"))


def _owl(entity: Entity) -> str:
    """A class as the OWL API writes it: restrictions inside the class, axioms after it."""
    obo, own = "http://purl.obolibrary.org/obo/", f"http://purl.obolibrary.org/obo/XX_{entity.number}"
    text = f'\n    <owl:Class rdf:about="{own}">\n'
    for relation, other in entity.facts:
        target = f"{obo}XX_{other}"
        if relation % 2:
            text += f'        <rdfs:subClassOf rdf:resource="{target}"/>\n'
            continue
        text += (
            "        <rdfs:subClassOf>\n            <owl:Restriction>\n"
            f'                <owl:onProperty rdf:resource="{obo}RO_{relation:07}"/>\n'
            f'                <owl:someValuesFrom rdf:resource="{target}"/>\n'
            "            </owl:Restriction>\n        </rdfs:subClassOf>\n"
        )
    return (
        f"{text}        <oboInOwl:hasExactSynonym>{entity.alias}</oboInOwl:hasExactSynonym>\n"
        f"        <rdfs:label>{entity.label}</rdfs:label>\n    </owl:Class>\n    <owl:Axiom>\n"
        f'        <owl:annotatedSource rdf:resource="{own}"/>\n'
        '        <owl:annotatedProperty rdf:resource="http://www.geneontology.org/formats/oboInOwl#hasExactSynonym"/>\n'
        f"        <owl:annotatedTarget>{entity.alias}</owl:annotatedTarget>\n"
        "        <oboInOwl:hasDbXref>EX:1</oboInOwl:hasDbXref>\n    </owl:Axiom>\n"
    )


OWL_START = f"""\
<?xml version="1.0"?>
<rdf:RDF xmlns="http://purl.obolibrary.org/obo/xx.owl#" xmlns:owl="{PREFIXES["owl"]}" xmlns:rdf="{PREFIXES["rdf"]}"
     xmlns:rdfs="{PREFIXES["rdfs"]}" xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">
    <owl:Ontology rdf:about="http://purl.obolibrary.org/obo/xx.owl"/>
"""
OWL_END = "</rdf:RDF>\n\n\n\n<!-- Generated by the OWL API (version 4.5.26) https://github.com/owlcs/owlapi -->\n"


def _obo(entity: Entity) -> str:
    text = f"\n[Term]\nid: XX:{entity.number}\nname: {entity.label}\n"
    text += f'def: "What is called {entity.label}." [EX:1]\nsynonym: "{entity.alias}" EXACT [EX:{entity.number}]\n'
    for relation, other in entity.facts:
        kind = f"relationship: {NAMES[relation].replace(' ', '_')}" if relation % 2 else "is_a:"
        text += f"{kind} XX:{other} ! term {other}\n"
    return text


def _wikidata(entity: Entity) -> str:
    own = f"Q{entity.number}"
    claims: dict[str, Any] = {}
    for relation, other in entity.facts:
        value = {"entity-type": "item", "numeric-id": other, "id": f"Q{other}"}
        name = f"P{relation + 31}"
        snak = {"snaktype": "value", "property": name, "datavalue": {"value": value, "type": "wikibase-entityid"}}
        claim = {
            "mainsnak": {**snak, "datatype": "wikibase-item"},
            "type": "statement",
            "id": f"{own}${other:08x}",
            "rank": "normal",
        }
        claims.setdefault(name, []).append(claim)
    texts = {language: {"language": language, "value": f"{entity.label}"} for language in ("en", "de", "fr", "es", "ja")}
    value = {
        "type": "item",
        "id": own,
        "labels": texts,
        "descriptions": {"en": {"language": "en", "value": f"what is called {entity.label}"}},
        "aliases": {"en": [{"language": "en", "value": entity.alias}]},
        "claims": claims,
        "sitelinks": {},
        "lastrevid": entity.number,
    }
    return json.dumps(value, separators=(",", ":")) + ",\n"


def _property(number: int, name: str) -> str:
    label = {"en": {"language": "en", "value": name}}
    return json.dumps({"type": "property", "id": f"P{number + 31}", "labels": label, "aliases": {}, "claims": {}})


WIKIDATA_END = ",\n".join(_property(number, name) for number, name in enumerate(NAMES)) + "\n]\n"


def _kgtk(entity: Entity) -> str:
    own = f"Q{entity.number}"
    rows = [(own, "label", f"'{entity.label}'@en"), (own, "alias", f"'{entity.alias}'@en")]
    rows += [(own, NAMES[relation].replace(" ", "_"), f"Q{other}") for relation, other in entity.facts]
    return "".join(f"{own}-{place}\t{head}\t{label}\t{tail}\n" for place, (head, label, tail) in enumerate(rows))


def _apoc_json(entity: Entity) -> str:
    own = {"id": str(entity.number), "labels": ["Thing"]}
    node = {"type": "node", **own, "properties": {"name": entity.label, "aliases": [entity.alias], "size": entity.number}}
    lines = [json.dumps(node)]
    for place, (relation, other) in enumerate(entity.facts):
        ends = {"start": own, "end": {"id": str(other), "labels": ["Thing"]}}
        edge = {"id": f"{entity.number}{place}", "type": "relationship", "label": NAMES[relation].upper().replace(" ", "_"), **ends}
        lines.append(json.dumps(edge))
    return "".join(f"{line}\n" for line in lines)


def _graphml(entity: Entity) -> str:
    text = f'    <node id="n{entity.number}">\n      <data key="d0">{escape(entity.label)}</data>\n    </node>\n'
    for relation, other in entity.facts:
        edge = f'<edge source="n{entity.number}" target="n{other}">'
        text += f'    {edge}\n      <data key="d1">{NAMES[relation]}</data>\n    </edge>\n'
    return text


GRAPHML_START = """\
<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d1" for="edge" attr.name="relation" attr.type="string" />
  <key id="d0" for="node" attr.name="name" attr.type="string" />
  <graph edgedefault="directed">
""" + "".join(f'    <node id="n{HUBS + hub}" />\n' for hub in range(1000))


class _Lines:
    """The file of a csv writer."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def _csv_of(rows: Callable[[Entity], list[list[Any]]], quoting: Any = csv.QUOTE_MINIMAL) -> Texts:
    def text(entity: Entity) -> str:
        lines = _Lines()
        csv.writer(lines, quoting=quoting, lineterminator="\n").writerows(rows(entity))
        return lines.text

    return text


def _triples(entity: Entity) -> list[list[Any]]:
    return [[entity.label, NAMES[relation], f"entity {other}"] for relation, other in entity.facts]


def _apoc_csv(entity: Entity) -> list[list[Any]]:
    node: list[Any] = [entity.number, ":Thing", entity.label, entity.alias, None, None, None]
    return [node, *([None, None, None, None, entity.number, other, NAMES[relation]] for relation, other in entity.facts)]


def _conceptnet(path: Path, size: int) -> None:
    digits = "abcdefghij"  # of ConceptNet's names, only those of letters are kept

    def named(number: int) -> str:
        return "/c/en/" + "".join(digits[int(digit)] for digit in str(number))

    text = ""
    for entity in entities():
        for relation, other in entity.facts:
            kind = ("IsA", "PartOf", "RelatedTo", "UsedFor")[relation % 4]
            head, tail = named(entity.number), named(other)
            about = {"dataset": "/d/example", "license": "cc:by/4.0", "sources": [{"contributor": "/s/ex"}], "weight": relation / 2}
            text += f"/a/[/r/{kind}/,{head}/,{tail}/]\t/r/{kind}\t{head}\t{tail}\t{json.dumps(about)}\n"
    _write_parts(path, size, b"", text.encode(), b"", b"/baaaa", digits)


def _parquet(path: Path, size: int) -> None:
    import pyarrow
    import pyarrow.parquet
    from pyarrow import compute

    rows = [row for entity in entities() for row in _triples(entity)]
    part = [pyarrow.array(column) for column in zip(*rows, strict=True)]
    names = ["head", "relation", "tail"]
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none") as out:
        written, batches = 0, list[Any]()
        for number in range(10_000):
            changed = [compute.replace_substring(column, PART.decode(), f"1{number:04}") for column in part]
            batches.append(pyarrow.record_batch(changed, names))
            written += sum(column.nbytes for column in changed)
            if written >= size or len(batches) * len(rows) >= ROW_GROUP:
                out.write_table(pyarrow.Table.from_batches(batches), ROW_GROUP)
                batches = []
            if written >= size:
                break


class Dump(NamedTuple):
    """A kind of dump."""

    file: str
    write: Write
    needs: str = ""  # a library


def _tabs(entity: Entity) -> str:
    return "".join("\t".join(row) + "\n" for row in _triples(entity))


def _objects(entity: Entity) -> str:
    rows = _triples(entity)
    return "".join(json.dumps(dict(zip(("head", "relation", "tail"), row, strict=True))) + "\n" for row in rows)


DUMPS = {
    "N-Triples": Dump("dump.nt", _of_quads("N_TRIPLES", _plain), "pyoxigraph"),
    "N-Quads": Dump("dump.nq", _of_quads("N_QUADS", _plain), "pyoxigraph"),
    "Turtle": Dump("dump.ttl", _of_quads("TURTLE", _plain), "pyoxigraph"),
    "TriG": Dump("dump.trig", _of_quads("TRIG", _plain), "pyoxigraph"),
    "RDF/XML": Dump("dump.rdf", _of_quads("RDF_XML", _plain), "pyoxigraph"),
    "SKOS (Turtle)": Dump("skos.ttl", _of_quads("TURTLE", _skos), "pyoxigraph"),
    "OWL": Dump("dump.owl", _of_texts(_owl, OWL_START, OWL_END), "pyoxigraph"),
    "OBO": Dump("dump.obo", _of_texts(_obo, "format-version: 1.2\nontology: xx\n")),
    "Wikidata JSON": Dump("wikidata.json", _of_texts(_wikidata, "[\n", WIKIDATA_END)),
    "KGTK": Dump("dump.kgtk", _of_texts(_kgtk, "id\tnode1\tlabel\tnode2\n")),
    "Neo4j CSV (apoc)": Dump(
        "neo4j.csv", _of_texts(_csv_of(_apoc_csv, csv.QUOTE_ALL), '"_id","_labels","name","aliases","_start","_end","_type"\n')
    ),
    "Neo4j JSON (apoc)": Dump("neo4j.json", _of_texts(_apoc_json)),
    "TSV": Dump("dump.tsv", _of_texts(_tabs)),
    "CSV": Dump("dump.csv", _of_texts(_csv_of(_triples, csv.QUOTE_ALL), "head,relation,tail\n")),
    "JSON lines": Dump("dump.jsonl", _of_texts(_objects)),
    "Parquet": Dump("dump.parquet", _parquet, "pyarrow"),
    "GraphML": Dump("dump.graphml", _of_texts(_graphml, GRAPHML_START, "  </graph>\n</graphml>\n")),
    "ConceptNet": Dump("conceptnet.csv", _conceptnet),
}
