"""Crafted and damaged graph folders: one clear error or the right answer, whatever their arrays and their description hold."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damage import unseal
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.io.arrays import save_array
from mhgrn.io.checksums import CHECKSUMS
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
from mhgrn.io.stored import read_folder
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.graph import ARRAYS
from mhgrn.kg.labels import ARRAYS as LABELS
from mhgrn.kg.paths import find_paths
from mhgrn.kg.statistics import Statistics
from mhgrn.kg.strings import StringIndex, stored_texts

Attack = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]

FACTS = [
    ("desks", "AtLocation", "furniture_store"),
    ("child", "Likes", "colours"),
    ("child", "Likes", "desks"),
    ("café", "IsA", "furniture_store"),
]
TEXT = "Children like a colur on desks in a furniture store, a café"


def used(folder: Path) -> object:
    """What a graph says, read in every way that there is."""
    graph = KnowledgeGraph.load(folder)
    names = list(graph.names)
    return (
        names,
        [graph.find(name) for name in (*names, "nothing")],
        [graph.facts_of(name) for name in names],
        [graph.provenance(fact) for fact in graph.facts()],
        [graph.neighbors(concept).tolist() for concept in range(len(graph))],
        [str(find_paths(graph, "child", name)) for name in ("desks", "furniture_store", "café")],
        Statistics.of(graph).to_dict(),
        graph.with_facts([("quokka", "Likes", "child")]).facts_of("child"),
        Grounder(graph).concepts(TEXT),
    )


@pytest.fixture(params=["checked at once", "checked when used"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph without checksums, as an attacker makes one."""
    rows = "".join("\t".join(fact) + "\n" for fact in FACTS)
    (tmp_path / "facts.tsv").write_text(rows, encoding="utf-8")
    graph, _ = build(tmp_path / "facts.tsv", options=ImportOptions(provenance=True))
    graph.save(tmp_path / "graph")
    ConceptIndex.of(graph)
    for file in list(tmp_path.rglob(CHECKSUMS)):
        unseal(file.parent)
    if request.param == "checked when used":
        monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    return tmp_path / "graph"


def changed(index: int, value: int) -> Attack:
    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        array[index] = array.dtype.type(value)
        return array

    return change


def another_type(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float32 if array.dtype.kind != "f" else np.int16)


ALWAYS: dict[str, Attack] = {  # for every array an error
    "another type": another_type,
    "objects as text": lambda array: array.astype("U3"),
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder(">")) if array.itemsize > 1 else array.astype(">u2"),
    "two dimensions": lambda array: array.reshape(1, -1),
    "no dimensions": lambda array: array[:1].reshape(()),
    "truncated": lambda array: array[:-1],
    "empty": lambda array: array[:0],
    "longer": lambda array: np.concatenate([array, array]),
}
BY_ARRAY: dict[str, dict[str, Attack]] = {
    "head_ptr": {"decreases": changed(2, 0), "negative": changed(1, -5), "huge": changed(1, 2**62), "end": changed(-1, 2)},
    "neighbour_ptr": {"decreases": changed(2, 0), "negative": changed(1, -5), "huge": changed(1, 2**62), "end": changed(-1, 2)},
    "tail": {
        "negative": changed(1, -1),
        "too large": changed(0, 5),
        "huge": changed(-1, 2**31 - 1),
        "not sorted": lambda array: array[::-1],
    },
    "neighbour": {"negative": changed(1, -1), "too large": changed(0, 5), "huge": changed(-1, 2**31 - 1)},
    "relation": {"too large": changed(0, 3), "huge": changed(-1, 255)},
    "name_ptr": {"decreases": changed(2, 0), "negative": changed(1, -5), "huge": changed(1, 2**62), "end": changed(-1, 2)},
    "name_bytes": {"no UTF-8": changed(0, 255)},
    "name_slots": {
        "full": lambda array: np.full_like(array, 7 << 32 | 3),
        "free": np.zeros_like,
        "numbers": lambda array: np.where(array > 0, array | np.uint64(0xFFFFFFFF), array),
        "full of large numbers": lambda array: np.where(array > 0, array, array.max()) | np.uint64(0xFFFFFFF0),
    },
}


def attack(folder: Path, name: str, change: Attack) -> None:
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))


@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in ("weight", *LABELS)])
def test_an_array_of_another_type_or_shape_is_refused(folder: Path, name: str) -> None:
    whole = (folder / f"{name}.npy").read_bytes()
    for change in ALWAYS.values():
        attack(folder, name, change)
        with pytest.raises(UserError, match=r"\.npy (is damaged|has \d+ entries)"):
            used(folder)
        (folder / f"{name}.npy").write_bytes(whole)
    for content in (b"", whole[:20], whole[:70], b"\x93NUMPY" * 100, whole.replace(b"(", b"(9" * 5000, 1), b"\0" + whole[1:]):
        (folder / f"{name}.npy").write_bytes(content)
        with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
            used(folder)
    (folder / f"{name}.npy").write_bytes(whole)
    assert used(folder)


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, attacks in BY_ARRAY.items() for what in attacks])
def test_values_out_of_range_are_refused(folder: Path, name: str, what: str) -> None:
    attack(folder, name, BY_ARRAY[name][what])
    if what == "free":  # a table that is checked when it is used is not counted: it finds nothing
        with pytest.raises(UserError):
            used(folder)
        return
    with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
        used(folder)


def described(**values: object) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        about = json.loads((folder / "graph.json").read_text())
        (folder / "graph.json").write_text(json.dumps(about | values))

    return write


@pytest.mark.parametrize(
    "values",
    [
        {"concepts": -1},
        {"concepts": 0},
        {"concepts": 6},
        {"concepts": 10**40},
        {"concepts": True},
        {"concepts": "5"},
        {"facts": -1},
        {"facts": 3},
        {"facts": 2**63},
        {"facts": None},
        {"schema": None},
        {"schema": {}},
        {"schema": {"name": "x", "relations": 7}},
        {"schema": {"name": "x", "relations": [{"name": "a"}]}},
        {"arrays": None},
        {"arrays": {}},
        {"arrays": {"../../etc/passwd": 3}},
        {"fingerprint": None},
        {"names": 3},
        {"format": 99},
        {"format": [[]]},
    ],
    ids=str,
)
def test_a_wrong_description_is_refused(folder: Path, values: dict[str, object]) -> None:
    described(**values)(folder)
    with pytest.raises(UserError, match=r"graph\.json|\.npy"):
        used(folder)


def test_a_description_opens_no_other_file(folder: Path, tmp_path: Path) -> None:
    about = json.loads((folder / "graph.json").read_text())
    expected = used(folder)
    described(arrays=about["arrays"] | {"../outside": 1, "/etc/passwd": 1})(folder)
    assert used(folder) == expected
    np.save(tmp_path / "outside.npy", np.zeros(1))
    (folder / "tail.npy").unlink()
    (folder / "tail.npy").symlink_to(tmp_path / "outside.npy")
    with pytest.raises(UserError, match=r"tail\.npy is damaged \(not a file\)"):
        used(folder)


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"{", b"[" * 100_000, b'{"format": 2}', b'{"format": 2, "graph": NaN}', b"\xff"]
)
def test_a_damaged_description_is_refused(folder: Path, content: bytes) -> None:
    (folder / "graph.json").write_bytes(content)
    with pytest.raises(UserError, match=r"graph\.json"):
        used(folder)


def test_a_flipped_bit_is_reported_when_its_block_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KnowledgeGraph.from_facts(FACTS).save(tmp_path / "graph")
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    for name in ARRAYS:
        path = tmp_path / "graph" / f"{name}.npy"
        if not path.exists():
            continue
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
            used(tmp_path / "graph")
        path.write_bytes(whole)


INDEX_ATTACKS: list[tuple[str, Attack]] = [
    *((name, change) for name in ("word_lemma", "pattern_concept", "pattern_ptr", "word_slots") for change in ALWAYS.values()),
    *((f"{kind}_slots", lambda array: np.full_like(array, 7 << 32 | 3)) for kind in ("pattern", "word", "lemma", "beginning")),
    *((f"{kind}_ptr", change) for kind in ("pattern", "word", "lemma") for change in BY_ARRAY["name_ptr"].values()),
    ("pattern_concept_ptr", changed(1, 2**62)),
    ("pattern_concept_ptr", changed(1, -3)),
    ("pattern_concept", changed(0, -1)),
    ("pattern_concept", changed(0, 99)),
    ("word_lemma", changed(0, -2)),
    ("word_lemma", changed(0, 10**6)),
]


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts(FACTS)
    graph.save(tmp_path / "graph")
    index = ConceptIndex.of(graph)
    unseal(tmp_path / "graph" / "index")
    shutil.copytree(tmp_path / "graph" / "index", tmp_path / "whole")
    expected = Grounder(graph).concepts(TEXT)
    for name, change in INDEX_ATTACKS:
        shutil.rmtree(tmp_path / "graph" / "index")
        shutil.copytree(tmp_path / "whole", tmp_path / "graph" / "index")
        attack(tmp_path / "graph" / "index", name, change)
        opened = KnowledgeGraph.load(tmp_path / "graph")
        with pytest.raises(UserError):
            ConceptIndex.load(tmp_path / "graph" / "index", opened)
        assert Grounder(opened).concepts(TEXT) == expected
        assert ConceptIndex.load(tmp_path / "graph" / "index", opened).fingerprint == index.fingerprint


def test_no_index_crashes_when_it_is_checked_as_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = KnowledgeGraph.from_facts(FACTS)
    graph.save(tmp_path / "graph")
    ConceptIndex.of(graph)
    unseal(tmp_path / "graph" / "index")
    expected = Grounder(graph).concepts(TEXT)
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    for name, change in INDEX_ATTACKS:
        path = tmp_path / "graph" / "index" / f"{name}.npy"
        whole = path.read_bytes()
        attack(path.parent, name, change)
        opened = KnowledgeGraph.load(tmp_path / "graph")
        with suppress(UserError):
            found = Grounder(opened, index=ConceptIndex.load(path.parent, opened)).concepts(TEXT)
            assert set(found) <= set(opened.names)
        path.write_bytes(whole)
    opened = KnowledgeGraph.load(tmp_path / "graph")
    assert Grounder(opened, index=ConceptIndex.load(tmp_path / "graph" / "index", opened)).concepts(TEXT) == expected


def test_an_index_is_not_stored_with_another_graph(tmp_path: Path) -> None:
    KnowledgeGraph.from_facts(FACTS).save(tmp_path / "graph")
    opened = KnowledgeGraph.load(tmp_path / "graph")
    KnowledgeGraph.from_facts([("cat", "IsA", "animal")]).save(tmp_path / "graph")
    assert Grounder(opened).concepts("children and desks") == ["child", "desks"]
    assert not (tmp_path / "graph" / "index").exists()


def test_texts_that_are_checked_when_used_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {number}" for number in range(2000)]
    with new_folder(tmp_path / "texts", "texts.json") as partial:
        for name, array in StringIndex.of(texts).to_arrays("text").items():
            save_array(partial / f"{name}.npy", array)
        write_json(partial / "texts.json", {"format": 1})
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    arrays = read_folder(tmp_path / "texts", "texts.json", "texts", 1, lambda stored: stored_texts(stored, "text"))
    index = StringIndex.from_arrays("text", arrays)
    assert [index.find(text) for text in texts] == list(range(2000))
    assert index.find("nothing") is None
    assert [index[number] for number in (0, 1999)] == [texts[0], texts[1999]]
    assert list(index) == texts
    assert index.longest is None  # only known after reading all
