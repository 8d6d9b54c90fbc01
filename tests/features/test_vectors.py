"""Files of word vectors: all forms, and invalid files."""

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.features.sources.vectors import VectorFile, VectorSettings, VectorSource
from mhgrn.kg import KnowledgeGraph

NAMES = ["cat", "furniture_store", "store", "animal", "red_cat", "dog", "odd_thing"]
NUMBERBATCH = "/c/de/katze 9 9\n/c/en/cat 1 2\n/c/en/furniture_store 3 4\n/c/en/store/n 5 6\n/c/en/red 7 8\n"
GLOVE = "cat 1 2\nfurniture_store 3 4\n. . . 0 0\nstore 5 6\nred 7 8\n"
EXPECTED = {"cat": [1, 2], "furniture_store": [3, 4], "store": [5, 6], "red_cat": [4, 5]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts([(a, "RelatedTo", b) for a, b in pairwise(NAMES)])
    graph.save(tmp_path_factory.mktemp("graph") / "graph")
    return graph


def found(graph: KnowledgeGraph, path: Path, **options: object) -> dict[str, list[float]]:
    made = VectorSource(graph, VectorSettings(file=path, **options)).build(path.parent / "made")  # type: ignore[arg-type]
    assert made.missing == len(graph) - len(made.concepts)
    return {graph.name(int(c)): v.tolist() for c, v in zip(made.concepts, made.vectors, strict=True)}


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
@pytest.mark.parametrize(
    "text",
    [NUMBERBATCH, "5 2\n" + NUMBERBATCH, GLOVE, "5 2\n" + GLOVE, GLOVE.replace("\n", " \r\n"), GLOVE + "\n"],
    ids=["numberbatch", "numberbatch with header", "glove", "word2vec", "trailing spaces", "empty last line"],
)
def test_all_forms_give_the_same_vectors(graph: KnowledgeGraph, tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert found(graph, path) == EXPECTED
    assert found(graph, path, mean_of_words=False) == {k: v for k, v in EXPECTED.items() if k != "red_cat"}


@given(
    rows=st.dictionaries(
        st.sampled_from([*NAMES, "red", "furniture", "thing", "unheard"]),
        st.tuples(*[st.floats(-100, 100, width=16)] * 3),
        min_size=1,
    ),
    header=st.booleans(),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_name_is_preferred_to_its_words(
    graph: KnowledgeGraph, tmp_path: Path, rows: dict[str, tuple[float, ...]], header: bool
) -> None:
    path = tmp_path / "vectors.txt"
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()]
    path.write_text((f"{len(rows)} 3\n" if header else "") + "".join(lines), encoding="utf-8")
    expected = {}
    for name in NAMES:
        words = [rows[word] for word in name.split("_") if word in rows]
        if name in rows or words:
            expected[name] = rows[name] if name in rows else np.mean(words, axis=0)
    assume(expected)
    made = found(graph, path)
    assert made.keys() == expected.keys()
    for name, row in expected.items():
        np.testing.assert_allclose(made[name], row, rtol=2e-3, atol=1e-6)


def test_the_same_case_is_preferred_then_the_first_row(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("Cat 1\nDOG 2\nDog 3\ncat 4\ncat 5\nCAT 6\n", encoding="utf-8")
    assert found(graph, path, mean_of_words=False) == {"cat": [4], "dog": [2]}


def test_another_language_is_read_if_asked(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("/c/en/cat 1\n/c/fr/cat 2\n", encoding="utf-8")
    assert found(graph, path, language="fr", mean_of_words=False) == {"cat": [2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"vectors\.txt is empty"),
        (b"\n\ncat 1 2\n", r"vectors\.txt is empty"),
        (b"cat\ndog\n", r"vectors\.txt:1: not a row of word vectors"),
        (b"cat 1 2\ndog 1\n", r"vectors\.txt:2: 1 numbers after the word, separated by spaces, not 2 as in the first row"),
        (b"cat 1 2\ndog 1 2 3\n", r"vectors\.txt:2: 3 numbers .* not 2 as in the first row"),
        (b"2 3\ncat 1 2\ndog 1 2\n", r"vectors\.txt:2: 2 numbers .* not 3 as in the first line"),
        (b"cat 1 2\ndog 1 x\n", r"vectors\.txt:2: 'x' is not a number"),
        (b"cat 1 2\ndog 1  2\n", r"vectors\.txt:2: 3 numbers"),
        (b"cat 1 2\ndog nan 2\n", r"vectors\.txt:2: a number is infinite, not a number"),
        (b"cat 1 2\ndog -inf 2\n", r"vectors\.txt:2: a number is infinite"),
        (b"cat 1 2\ndog 70000 2\n", r"vectors\.txt:2: .*too large for 16-bit"),
        (b"cat 1 2\n\xe9t\xe9 1 2\n", r"vectors\.txt:2: not UTF-8 text"),
        (b"3 2\ncat 1 2\ndog 1 2\n", r"vectors\.txt:1 declares 3 rows, but there are 2; is the file complete\?"),
        (b"PK\x03\x04 whatever\n", r"vectors\.txt is a zip archive"),
        (b"zxqv 1 2\n", r"vectors\.txt has no vector for any of the 7 concepts"),
    ],
)
def test_problems_are_reported_with_their_line(graph: KnowledgeGraph, tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(text)
    with pytest.raises(UserError, match=message):
        VectorSource(graph, VectorSettings(file=path)).build(tmp_path / "made")
    assert [p.name for p in tmp_path.iterdir()] == ["vectors.txt"]


def test_damaged_gzip_files_are_reported(graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere does not exist"):
        VectorFile(tmp_path / "nowhere")
    path = tmp_path / "vectors.txt.gz"
    dice = np.random.default_rng(0)
    packed = gzip.compress("".join(f"w{i} {dice.random()} {dice.random()}\n" for i in range(20_000)).encode())
    spoilt = bytearray(packed)
    spoilt[len(packed) // 2] ^= 255
    for text in (packed[: len(packed) // 2], bytes(spoilt), b"cat 1 2\n", packed[:15]):
        path.write_bytes(text)
        with pytest.raises(UserError, match=r"vectors\.txt\.gz(:\d+: | cannot be unpacked)"):
            VectorSource(graph, VectorSettings(file=path)).build(tmp_path / "made")
