"""GraphML: read as other programs write it, and safe from hostile XML."""

import gzip
from pathlib import Path

import networkx
import pytest

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.readers import find_reader

START = '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
KEYS = '<key id="d0" for="edge" attr.name="relation" attr.type="string"/><key id="d1" for="node" attr.name="Name"/>'


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def document(body: str, direction: str = "directed") -> str:
    return f'{START}{KEYS}<graph edgedefault="{direction}">\n{body}\n</graph></graphml>'


def facts(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return {tuple(fact) for fact in graph.facts()}


def edge(source: str, relation: str, target: str, more: str = "") -> str:
    return f'<edge source="{source}" target="{target}" {more}><data key="d0">{relation}</data></edge>'


NODES = '<node id="n0"><data key="d1">Black Cat</data></node><node id="n1"><data key="d1">Ä &amp; B</data></node><node id="x"/>'


@pytest.mark.parametrize("name", ["a.graphml", "a.xml", "a.graphml.gz"])
def test_nodes_are_named_by_an_attribute_or_their_identifier(tmp_path: Path, name: str) -> None:
    text = document(NODES + edge("n0", "IsA", "n1") + edge("n1", "Likes", "x")).encode()
    path = written(tmp_path / name, gzip.compress(text) if name.endswith(".gz") else text)
    assert find_reader(path).name == "graphml"
    assert facts(build(path)[0]) == {("black_cat", "IsA", "ä_&_b"), ("ä_&_b", "Likes", "x")}


def test_networkx_writes_what_is_read(tmp_path: Path) -> None:
    graph = networkx.MultiDiGraph()
    graph.add_edge("cat", "animal", relation="IsA", weight=2.5)
    graph.add_edge("cat", "animal", relation="Likes", weight=1.0)
    networkx.write_graphml(graph, tmp_path / "a.graphml")
    read, _ = build(tmp_path / "a.graphml", options=ImportOptions(weights=True))
    assert facts(read) == {("cat", "IsA", "animal"), ("cat", "Likes", "animal")}
    assert read.weight is not None
    assert sorted(read.weight.tolist()) == [1, 2.5]


def test_an_undirected_edge_is_a_fact_in_each_direction(tmp_path: Path) -> None:
    body = NODES + edge("n0", "Near", "x") + edge("n1", "IsA", "x", 'directed="true"')
    path = written(tmp_path / "a.graphml", document(body, "undirected"))
    assert facts(build(path)[0]) == {("black_cat", "Near", "x"), ("x", "Near", "black_cat"), ("ä_&_b", "IsA", "x")}


def test_an_edge_may_come_before_its_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.graphml", document(edge("n0", "IsA", "x") + NODES))
    assert facts(build(path)[0]) == {("black_cat", "IsA", "x")}


def test_nested_graphs_and_the_labels_of_yed(tmp_path: Path) -> None:
    label = '<data key="d9"><y:ShapeNode xmlns:y="urn:y"><y:Fill/><y:NodeLabel>Big Dog<y:Model/></y:NodeLabel></y:ShapeNode></data>'
    inner = f'<graph edgedefault="directed"><node id="n5">{label}</node></graph>'
    body = f'<node id="n4"><data key="d1">Outer</data>{inner}</node>' + edge("n4", "Has", "n5")
    assert facts(build(written(tmp_path / "a.graphml", document(body)))[0]) == {("outer", "Has", "big_dog")}


def test_named_attributes(tmp_path: Path) -> None:
    text = document(NODES + edge("n0", "IsA", "x")).replace('"relation"', '"kindOfEdge"')
    path = written(tmp_path / "a.graphml", text)
    with pytest.raises(
        UserError, match=r"a\.graphml:4: no attribute with the relation; attributes: kindOfEdge; name it \(--columns"
    ):
        build(path)
    assert facts(build(path, options=ImportOptions(columns={"relation": "kindOfEdge"}))[0]) == {("black_cat", "IsA", "x")}
    columns = {"relation": "kindOfEdge", "name": "no such"}
    assert facts(build(path, options=ImportOptions(columns=columns))[0]) == {("n0", "IsA", "x")}
    with pytest.raises(UserError, match="--columns head has no meaning for GraphML"):
        build(path, options=ImportOptions(columns={"head": 1, "relation": 2, "tail": 3}))


def test_nodes_of_one_name_are_noted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.graphml", document(NODES.replace("Ä &amp; B", "Black Cat") + edge("n0", "IsA", "x")))
    assert build(path)[1].notes == [f"{path}: 1 nodes have the name of another node and become one concept with it."]


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (START.replace("<graphml", f"{BOMB}<graphml") + "&i;</graphml>", ":2: a document type declaration"),
        (START.replace("<graphml", '<!DOCTYPE x SYSTEM "file:///etc/passwd"><graphml'), ":2: a document type declaration"),
        (START.replace("<graphml", '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><graphml'), ":2: a document type"),
        (document("&unknown;"), ":4: not XML"),
        (document("<node id='a'>"), ": not XML"),
        (START, ": not XML"),
        ("<?xml version='1.0'?><gexf/>", ":1: the outermost element is 'gexf', not graphml"),
        (document("<a>" * 1000), ":4: more than 100 elements inside each other"),
        (document(f'<node id="{"a" * 3_000_000}"/>'), ": a tag of more than a million characters"),
        (document(f'<node id="a"><data key="d1">{"a" * 2_000_000}</data></node>'), ":4: a text of more than a million characters"),
        (document("<hyperedge/>"), ":4: a hyperedge"),
        (document(edge("a", "r", "b")), ":4: the edge names the node 'a', which does not exist"),
        (document("<data key='d0'>x</data>"), "no row was usable"),
    ],
)
def test_hostile_and_damaged_files_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        build(written(tmp_path / "a.graphml", text))
    assert says in str(refused.value)
    assert len(str(refused.value)) < 1000
