"""Where facts come from, against a plain reading of the files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import unseal
from mhgrn.errors import UserError
from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, Schema, build
from mhgrn.kg.merge import merge
from mhgrn.kg.provenance import MOST_SOURCES, Provenance
from mhgrn.kg.stated import stated
from mhgrn.starter import FACTS

KEPT = ImportOptions(provenance=True)
NAMES = ["cat", "dog", "furniture_store", "naïve", "desk"]
rows = st.lists(st.tuples(*map(st.sampled_from, (NAMES, ["IsA", "eats", "Antonym"], NAMES))), min_size=1, max_size=30)
SCHEMA = Schema.from_dict(
    {
        "name": "mine",
        "relations": [
            {"name": "IsA", "members": ["IsA"]},
            {"name": "eats", "members": ["*eats"]},
            {"name": "Antonym", "members": ["Antonym"], "symmetric": True},
        ],
    }
)


def write(path: Path, facts: list[tuple[str, str, str]]) -> Path:
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return path


def expected(files: dict[str, list[tuple[str, str, str]]]) -> dict[Fact, tuple[str, int]]:
    """The first row of every fact of the schema's graph."""
    found: dict[Fact, tuple[str, int]] = {}
    for name, facts in files.items():
        for row, (head, relation, tail) in enumerate(facts, start=1):
            if head == tail:
                continue
            if relation == "eats":
                head, tail = tail, head  # noqa: PLW2901
            found.setdefault(Fact(head, relation, tail), (name, row))
            if relation == "Antonym":
                found.setdefault(Fact(tail, relation, head), (name, row))
    return found


@settings(max_examples=10, deadline=None)
@given(rows, rows)
def test_every_fact_has_its_first_row_also_after_saving(
    tmp_path_factory: pytest.TempPathFactory, one: list[tuple[str, str, str]], two: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    files = [write(folder / "one.tsv", one), write(folder / "two.tsv", two)]
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml(), encoding="utf-8")
    graph, _ = build(files, str(folder / "schema.yaml"), KEPT)
    graph.save(folder / "graph")
    facts = expected({"one.tsv": one, "two.tsv": two})
    for version in (graph, KnowledgeGraph.load(folder / "graph")):
        assert set(version.facts()) == facts.keys()
        assert {fact: version.provenance(fact) for fact in version.facts()} == {f: Provenance(*at) for f, at in facts.items()}
        assert [version.number(fact) for fact in version.facts()] == list(range(version.fact_count))
        assert [version.fact(number) for number in range(version.fact_count)] == list(version.facts())


def test_a_graph_is_the_same_without_it(tmp_path: Path) -> None:
    plain, _ = build(FACTS, "conceptnet")
    kept, _ = build(FACTS, "conceptnet", KEPT)
    plain.save(tmp_path / "plain")
    kept.save(tmp_path / "kept")
    assert plain.fingerprint == kept.fingerprint
    names = {path.name for path in (tmp_path / "plain").iterdir()}
    assert not any(name.startswith(("provenance", "origin")) for name in names)
    assert "provenance" not in (tmp_path / "plain" / "graph.json").read_text()
    for name in names:
        if name.endswith(".npy"):
            assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "kept" / name).read_bytes()
    loaded = KnowledgeGraph.load(tmp_path / "plain")
    assert not loaded.has_provenance
    assert loaded.provenance(next(loaded.facts())) is None
    lines = FACTS.read_text(encoding="utf-8").splitlines()
    for fact in list(kept.facts())[::500]:
        found = kept.provenance(fact)
        assert found is not None
        assert {fact.head, fact.tail} <= {name.replace(" ", "_") for name in lines[found.row - 1].lower().split("\t")}


def conceptnet_row(head: str, relation: str, tail: str, **details: object) -> str:
    ends = f"/r/{relation}\t/c/en/{head}\t/c/en/{tail}"
    return f"/a/[x]\t{ends}\t{json.dumps({**details, 'weight': 1.0})}\n"


def test_conceptnet_names_datasets_and_sources(tmp_path: Path) -> None:
    many = [{"contributor": f"/s/{i}", "process": "/p"} for i in range(MOST_SOURCES + 4)]
    text = conceptnet_row("cat", "IsA", "animal", dataset="/d/wordnet", sources=[{"contributor": "/s/wordnet"}])
    text += conceptnet_row("cat", "IsA", "animal", dataset="/d/other")  # a repeated fact keeps its first row
    text += conceptnet_row("chat", "xx", "animal", dataset="/d/skipped")
    text += conceptnet_row("dog", "IsA", "animal", dataset="/d/omcs", sources=many, surfaceText="[[a dog]] is [[an animal]]")
    text += conceptnet_row("dog", "Antonym", "cat", sources="/s/odd", dataset=7)
    text += conceptnet_row("näive", "IsA", "animal", dataset="/d/ünïcode")  # a row that Python parses
    with gzip.open(tmp_path / "assertions.csv.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    graph, report = build(tmp_path / "assertions.csv.gz", options=KEPT)
    assert report.duplicates == 1

    def found(*fact: str) -> Provenance | None:
        return graph.provenance(Fact(*fact))

    name = "assertions.csv.gz"
    assert found("cat", "IsA", "animal") == Provenance(name, 1, "/d/wordnet", ("/s/wordnet",))
    assert found("dog", "IsA", "animal") == Provenance(name, 4, "/d/omcs", tuple(f"/s/{i}, /p" for i in range(MOST_SOURCES)))
    assert found("dog", "Antonym", "cat") == Provenance(name, 5)
    assert found("näive", "IsA", "animal") == Provenance(name, 6, "/d/ünïcode")
    assert str(found("cat", "IsA", "animal")) == f"{name}:1, /d/wordnet, /s/wordnet"


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(write(tmp_path / folder / "facts.tsv", [(folder, "IsA", "letter")]))
    graph, _ = build(files, options=KEPT)
    found = [graph.provenance(fact) for fact in graph.facts()]
    assert found == [Provenance(str(file), 1) for file in files]


def test_rows_left_out_by_weight_do_not_shift_others(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("cat\tIsA\tanimal\t0.5\n\ndog\tIsA\tanimal\t2\nant\tIsA\tanimal\t3\n")
    graph, _ = build(tmp_path / "facts.tsv", options=ImportOptions(provenance=True, min_weight=1))
    assert [graph.provenance(Fact(name, "IsA", "animal")) for name in ("dog", "ant")] == [
        Provenance("facts.tsv", 3),
        Provenance("facts.tsv", 4),
    ]


def test_merged_graphs_keep_the_provenance_of_the_first_that_has_a_fact(tmp_path: Path) -> None:
    one, _ = build(write(tmp_path / "one.tsv", [("cat", "IsA", "animal"), ("dog", "IsA", "animal")]), options=KEPT)
    two, _ = build(write(tmp_path / "two.tsv", [("ant", "IsA", "insect"), ("cat", "IsA", "animal")]), options=KEPT)
    without = KnowledgeGraph.from_facts([("fish", "IsA", "animal"), ("ant", "IsA", "insect")])
    both = merge([one, without, two])
    both.save(tmp_path / "both")
    loaded = KnowledgeGraph.load(tmp_path / "both")
    found = {fact.head: loaded.provenance(fact) for fact in loaded.facts()}
    assert found == {"cat": Provenance("one.tsv", 1), "dog": Provenance("one.tsv", 2), "fish": None, "ant": None}
    assert loaded.fingerprint == merge([graph.with_facts([]) for graph in (one, without, two)]).fingerprint


def test_added_facts_have_none_and_the_others_keep_theirs(tmp_path: Path) -> None:
    graph, _ = build(write(tmp_path / "facts.tsv", [("dog", "IsA", "animal"), ("emu", "IsA", "animal")]), options=KEPT)
    more = graph.with_facts([("ant", "IsA", "animal"), ("dog", "IsA", "pet")])
    for fact in graph.facts():
        assert more.provenance(fact) == graph.provenance(fact)
        assert stated(more, fact) == stated(graph, fact)
    added = Fact("dog", "IsA", "pet")
    assert more.provenance(added) is None
    assert stated(more, added)["number"] is None


def test_ids_belong_to_facts_not_to_graphs() -> None:
    facts = [("dog", "IsA", "animal"), ("cat", "IsA", "animal"), ("animal", "IsA", "dog"), ("dog", "eats", "animal")]
    one, two = KnowledgeGraph.from_facts(facts), KnowledgeGraph.from_facts(facts[::-1])
    assert {fact.id for fact in one.facts()} == {fact.id for fact in two.facts()}
    assert len({fact.id for fact in one.facts()}) == len(facts)
    assert Fact("dog", "IsA", "animal").id == "c231b48ed760b8b1"


def test_unknown_facts_and_numbers_are_refused() -> None:
    graph = KnowledgeGraph.from_facts([("dog", "IsA", "animal")])
    for fact in (("dog", "IsA", "cat"), ("dog", "eats", "animal"), ("animal", "IsA", "dog")):
        with pytest.raises(UserError, match="is not in the graph"):
            graph.number(fact)
    for number in (-1, 1):
        with pytest.raises(UserError, match="there is no fact"):
            graph.fact(number)


def test_damage_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    build(FACTS, "conceptnet", KEPT)[0].save(folder)
    for name in ("provenance_row", "provenance_origin", "origin_bytes"):
        path = folder / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(UserError, match=f"{name}.npy is damaged"):
            KnowledgeGraph.load(folder)
        path.write_bytes(content)
    KnowledgeGraph.load(folder)


def test_origins_out_of_range_are_found_unseal(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    build(FACTS, "conceptnet", KEPT)[0].save(folder)
    unseal(folder)
    origins = np.load(folder / "provenance_origin.npy")
    origins[3] = 9
    np.save(folder / "provenance_origin.npy", origins)
    with pytest.raises(UserError, match="has the value 9"):
        KnowledgeGraph.load(folder)
