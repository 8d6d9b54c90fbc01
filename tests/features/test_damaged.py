"""Features folders, files and caches: whatever they hold, one message or the right vectors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from damage import unseal
from mhgrn.errors import UserError
from mhgrn.features import BuiltFeatures, FeatureFolder, FileFeatures, NameFeatures, open_features
from mhgrn.features.accumulate import Accumulator
from mhgrn.features.source import FeatureSource, SourceFeatures
from mhgrn.features.sources.random import RandomSource
from mhgrn.io import stored as stored_module
from mhgrn.io.checksums import BLOCK, verify
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg import KnowledgeGraph
from mhgrn.text.cache import SentenceVectors, TokenStates
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from tiny_encoder import letter_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_text_encoder(TextEncoderSettings(encoder=str(letter_encoder(tmp_path_factory.mktemp("encoder")))))


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    made = KnowledgeGraph.from_facts([(f"c{i}", "IsA", f"c{i + 1}") for i in range(30)])
    made.save(tmp_path / "graph")
    return KnowledgeGraph.load(tmp_path / "graph")


@pytest.fixture
def folder(graph: KnowledgeGraph, tmp_path: Path) -> Path:
    return RandomSource(graph).build(tmp_path / "features").folder


def refused(use: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        use()
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


ABOUT: dict[str, Callable[[dict[str, Any]], object]] = {
    "covered": lambda a: a.update(covered=7),
    "negative": lambda a: a.update(covered=-1),
    "huge": lambda a: a.update(covered=10**18, asked=10**18, concepts=10**18),
    "more than the graph": lambda a: a.update(concepts=32),
    "width": lambda a: a.update(dim=31),
    "no width": lambda a: a.update(dim=0),
    "width is true": lambda a: a.update(dim=True),
    "encoder": lambda a: a.update(encoder={"name": 5}),
    "source": lambda a: a.update(source={}),
    "source is text": lambda a: a.update(source="random"),
    "relations": lambda a: a.update(relations=True),
    "relations are text": lambda a: a.update(relations="yes"),
    "key": lambda a: a.update(key=None),
    "missing": lambda a: a.pop("asked"),
}


@pytest.mark.parametrize("name", ABOUT)
def test_whatever_features_json_holds(folder: Path, graph: KnowledgeGraph, name: str) -> None:
    about = json.loads((folder / "features.json").read_text(encoding="utf-8"))
    ABOUT[name](about)
    (folder / "features.json").write_text(json.dumps(about), encoding="utf-8")
    assert "features.json is damaged" in refused(lambda: FeatureFolder.load(folder, graph))  # by its checksum
    unseal(folder)
    assert str(folder) in refused(lambda: FeatureFolder.load(folder, graph))


ARRAYS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "concept beyond the graph": ("concepts", lambda a: np.append(a[:-1], 10**12)),
    "negative concept": ("concepts", lambda a: np.append(-1, a[1:])),
    "concepts of another type": ("concepts", lambda a: a.astype(np.float64)),
    "concept twice": ("concepts", lambda a: np.append(a[:-1], a[-2])),
    "concepts not sorted": ("concepts", lambda a: a[::-1].copy()),
    "too few": ("concepts", lambda a: a[:-1]),
    "vectors of another type": ("vectors", lambda a: a.astype(np.int16)),
    "vectors of another width": ("vectors", lambda a: a[:, :-1].copy()),
    "vectors of one dimension": ("vectors", lambda a: a[:, 0].copy()),
    "NaN": ("vectors", lambda a: np.where(np.arange(len(a))[:, None] == 3, np.float16(np.nan), a)),
    "infinite": ("vectors", lambda a: np.where(np.arange(len(a))[:, None] == 3, np.float16(np.inf), a)),
    "mean is NaN": ("mean", lambda a: a * np.float32(np.nan)),
    "mean of another type": ("mean", lambda a: a.astype(np.float64)),
    "objects": ("mean", lambda a: np.array([{}] * len(a), dtype=object)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_other_contents(folder: Path, graph: KnowledgeGraph, name: str) -> None:
    file, change = ARRAYS[name]
    np.save(folder / f"{file}.npy", change(np.load(folder / f"{file}.npy")), allow_pickle=True)
    unseal(folder)  # as if an earlier version had written it
    assert f"{file}.npy" in refused(lambda: FeatureFolder.load(folder, graph))


def test_a_large_table_is_checked_when_it_is_used(
    graph: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_module, "EAGER", 0)
    wide = RandomSource(graph, RandomSource.Settings(dim=65_536)).build(tmp_path / "wide").folder  # type: ignore[call-arg]
    assert not any(why for _, why in verify(wide))
    content = bytearray((wide / "vectors.npy").read_bytes())
    content[2 * BLOCK + 9] ^= 1
    (wide / "vectors.npy").write_bytes(content)
    features = BuiltFeatures(graph, wide, encoder)
    rows = features.rows(torch.arange(5))
    assert torch.isfinite(rows).all()
    assert "have another checksum" in refused(lambda: features.rows(torch.tensor([2 * BLOCK // (2 * 65_536)])))
    assert [path.name for path, why in verify(wide) if why] == ["vectors.npy"]


def test_a_file_of_features_with_values_that_are_not_finite(graph: KnowledgeGraph, tmp_path: Path) -> None:
    rows = np.ones((len(graph), 4))
    rows[5, 2], rows[7, 1] = np.nan, 1e300  # the second is infinite in single precision
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "rows.txt").write_text("".join(f"{graph.name(i)}\n" for i in range(len(graph))), encoding="utf-8")
    features = FileFeatures(graph, tmp_path / "rows.npy")
    assert torch.equal(features.rows(torch.arange(5)), torch.ones(5, 4))
    for concept in (5, 7):
        assert f"the row of '{graph.name(concept)}'" in refused(lambda concept=concept: features.rows(torch.tensor([concept])))
    for content in (b"\x93NUMPY\x01\x00\x10\x00{'descr': '((((((", b"\x93NUMPY\x01\x00", b"", b"\x93NUMPY\x01\x00\x03\x00\\\n\\"):
        (tmp_path / "rows.npy").write_bytes(content)
        assert "rows.npy is damaged" in refused(lambda: FileFeatures(graph, tmp_path / "rows.npy"))


@pytest.mark.parametrize("name", ["x" * 10_000, "a\0b", "/", ""])
def test_odd_names_of_features(graph: KnowledgeGraph, encoder: TextEncoder, name: str) -> None:
    refused(lambda: open_features(name, graph, encoder))


def test_a_source_of_another_package_with_wrong_vectors(graph: KnowledgeGraph, tmp_path: Path) -> None:
    class Wrong(FeatureSource):
        name, summary, dim = "wrong", "Wrong.", 3
        value: Any = None

        def vectors(self, concepts: np.ndarray) -> np.ndarray:
            return np.array([self.value] * len(concepts))

    for value, says in (([1.0, 2.0], "of shape"), ([1.0, np.nan, 0.0], "not finite"), ([1.0, np.inf, 0.0], "not finite")):
        Wrong.value = value
        assert says in refused(lambda: SourceFeatures(Wrong(graph)).rows(torch.arange(2)))
        assert says in refused(lambda: Wrong(graph).build(tmp_path / "wrong"))


CACHED: dict[str, Callable[[dict[str, torch.Tensor]], object]] = {
    "no concepts": lambda t: t.pop("concepts"),
    "no vectors": lambda t: t.pop("vectors"),
    "negative": lambda t: t["concepts"].__setitem__(0, -1),
    "beyond the graph": lambda t: t["concepts"].__setitem__(-1, 2**40),
    "twice": lambda t: t["concepts"].__setitem__(1, int(t["concepts"][0])),
    "narrow": lambda t: t.update(vectors=t["vectors"][:, 1:].contiguous()),
    "integers": lambda t: t.update(vectors=t["vectors"].long()),
    "NaN": lambda t: t["vectors"].fill_(torch.nan),
    "concepts are floats": lambda t: t.update(concepts=t["concepts"].float()),
    "scalar": lambda t: t.update(concepts=torch.tensor(3)),
}


@pytest.mark.parametrize("name", CACHED)
def test_the_cache_of_name_vectors(graph: KnowledgeGraph, encoder: TextEncoder, name: str) -> None:
    features = NameFeatures(graph, encoder)
    features.require_and_keep(np.arange(4))
    assert features._cache is not None
    tensors = load_tensors(features._cache)
    CACHED[name](tensors)
    save_tensors(features._cache, tensors)
    assert str(features._cache) in refused(lambda: NameFeatures(graph, encoder))


PAIRS = [("a desk", "school"), ("a lamp", "home"), ("a desk", "home")]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("vectors"),
        lambda t: t.update(vectors=t["vectors"][1:].contiguous()),
        lambda t: t.update(vectors=t["vectors"].half()),
        lambda t: t["vectors"].fill_(torch.inf),
    ],
    ids=["missing", "short", "half", "infinite"],
)
def test_the_cache_of_sentence_vectors(encoder: TextEncoder, tmp_path: Path, change: Callable[[Any], object]) -> None:
    cache = tmp_path / "text.safetensors"
    made = SentenceVectors.compute(encoder, PAIRS, cache)
    statements = torch.arange(3)
    assert torch.equal(SentenceVectors.compute(encoder, PAIRS, cache)(statements), made(statements))
    tensors = load_tensors(cache)
    change(tensors)
    save_tensors(cache, tensors)
    assert str(cache) in refused(lambda: SentenceVectors.compute(encoder, PAIRS, cache))


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("pointer", lambda a: np.append(a[:-1], a[-1] + 1)),
        ("pointer", lambda a: np.append(a[:1], a[:-1])),
        ("pointer", lambda a: np.concatenate([a[:1], [10**12], a[2:]])),
        ("pointer", lambda a: np.concatenate([a[:1], [-5], a[2:]])),
        ("pointer", lambda a: a.astype(np.int32)),
        ("states", lambda a: a[:-1]),
        ("states", lambda a: a.astype(np.float32)),
        ("states", lambda a: a * np.float16(np.nan)),
    ],
)
def test_the_cache_of_token_states(
    encoder: TextEncoder, tmp_path: Path, file: str, change: Callable[[np.ndarray], np.ndarray], sealed: bool
) -> None:
    folder = tmp_path / "tokens"
    made = TokenStates.compute(encoder, PAIRS, folder)(torch.arange(3))
    again = TokenStates.compute(encoder, PAIRS, folder)(torch.arange(3))
    assert torch.equal(made.states, again.states)
    np.save(folder / f"{file}.npy", change(np.load(folder / f"{file}.npy")))
    if not sealed:
        unseal(folder)
    assert str(folder) in refused(lambda: TokenStates.compute(encoder, PAIRS, folder)(torch.arange(3)))


def test_an_interrupted_build_is_checked_before_it_resumes(tmp_path: Path) -> None:
    def table() -> Accumulator:
        return Accumulator(tmp_path / "features", "key", rows=4, dim=2)

    with table() as begun:
        begun.add(np.array([1, 3]), torch.ones(2, 2), torch.ones(2, dtype=torch.int64))
        record, folder = begun._record, begun.folder
    good = load_tensors(record)
    attacks: list[dict[str, Any]] = [
        {"rows": torch.tensor([1, 9])},
        {"rows": torch.tensor([-1, 3])},
        {"rows": torch.tensor([1.0, 3.0])},
        {"rows": torch.tensor(3)},
        {"sums": torch.ones(2, 3)},
        {"counts": torch.ones(3, dtype=torch.int64)},
        {"number": torch.tensor(-4)},
        {"more": torch.ones(1)},
    ]
    for changed in attacks:
        save_tensors(record, good | changed)
        assert "step.safetensors is damaged" in refused(lambda: table().__enter__())
    save_tensors(record, good)
    for name, values in (("sums", np.zeros((4, 2))), ("counts", np.full(4, -1)), ("sums", np.zeros((3, 2), np.float32))):
        before = (folder / f"{name}.npy").read_bytes()
        np.save(folder / f"{name}.npy", values)
        if name == "counts":
            record.unlink()
        assert f"{name}.npy is damaged" in refused(lambda: table().__enter__())
        (folder / f"{name}.npy").write_bytes(before)
