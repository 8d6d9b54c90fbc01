"""Node features: every concept gets its own row, in any order of requests."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from mhgrn.errors import UserError
from mhgrn.features import BuiltFeatures, FileFeatures, NameFeatures, RandomFeatures, open_features
from mhgrn.features.encoded import EncodedSource
from mhgrn.features.folder import Request
from mhgrn.features.sources.names import NameSource
from mhgrn.features.sources.triples import TripleSource
from mhgrn.io.checksums import seal
from mhgrn.io.tensors import load_tensors
from mhgrn.kg import KnowledgeGraph
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings

NAMES = ["cat", "animal", "furniture_store", "desk", "shop", "dog"]


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts([(a, "RelatedTo", b) for a, b in pairwise(NAMES)])
    graph.save(tmp_path / "graph")
    return graph


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return load_text_encoder(TextEncoderSettings())  # type: ignore[call-arg]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "features.npy"
    np.save(path, np.random.default_rng(0).standard_normal((len(NAMES), 4)).astype(np.float16))
    path.with_suffix(".txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")
    return path


def test_a_files_rows_are_given_in_any_order(graph: KnowledgeGraph, table: Path) -> None:
    features = FileFeatures(graph, table)
    stored = np.load(table).astype(np.float32)
    for asked in ([4, 1, 4], [0], [], [5, 4, 3, 2, 1, 0]):
        found = features.rows(torch.tensor(asked, dtype=torch.long))
        assert found.dtype == torch.float32
        np.testing.assert_array_equal(found.numpy(), stored[np.array(asked, dtype=int)])


def test_a_file_must_be_a_matrix_of_floats(graph: KnowledgeGraph, table: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.npy is missing"):
        FileFeatures(graph, tmp_path / "nowhere.npy")
    for wrong in (np.zeros(6), np.zeros((6, 4), dtype=int), np.zeros((6, 2, 2)), np.float32(3)):
        np.save(table, wrong)
        with pytest.raises(UserError, match=r"expected floats with one row per concept|not an array with rows"):
            FileFeatures(graph, table)
    table.write_bytes(b"not an array")
    with pytest.raises(UserError, match="damaged"):
        FileFeatures(graph, table)


def test_a_files_vocabulary_must_be_the_graphs(graph: KnowledgeGraph, table: Path) -> None:
    vocabulary = table.with_suffix(".txt")
    for names, message in (
        (NAMES[:-1], r"6 rows, features\.txt 5 names, the graph 6 concepts"),
        ([*NAMES, "more"], r"6 rows, features\.txt 7 names, the graph 6 concepts"),
        ([*NAMES[:4], "dog", "shop"], r"features\.txt:5: 'dog', but the graph has 'shop' here"),
        ([*NAMES[:2], "furniture store", *NAMES[3:]], r"features\.txt:3: 'furniture store', but the graph"),
    ):
        vocabulary.write_text("\n".join(names), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            FileFeatures(graph, table)
    vocabulary.write_text("\n".join(NAMES), encoding="utf-8")
    np.save(table, np.zeros((5, 4)))
    with pytest.raises(UserError, match=r"has 5 rows, features\.txt 6 names"):
        FileFeatures(graph, table)
    vocabulary.unlink()
    with pytest.raises(UserError, match=r"features\.txt is missing"):
        FileFeatures(graph, table)


def test_a_vocabulary_that_is_not_utf8_is_a_user_error(graph: KnowledgeGraph, table: Path) -> None:
    table.with_suffix(".txt").write_bytes(b"caf\xe9\n" * len(NAMES))
    with pytest.raises(UserError, match=r"features\.txt"):
        FileFeatures(graph, table)


def test_random_features_depend_on_the_concept_alone() -> None:
    features = RandomFeatures()
    together = features.rows(torch.arange(50))
    assert together.shape == (50, features.dim)
    assert torch.equal(RandomFeatures(features.dim).rows(torch.tensor([30, 3])), together[[30, 3]])
    assert len(torch.unique(together, dim=0)) == 50
    assert abs(float(together.mean())) < 0.1
    assert abs(float(together.std()) - 1) < 0.1


def test_a_names_vector_is_that_of_its_words(graph: KnowledgeGraph, encoder: TextEncoder) -> None:
    features = NameFeatures(graph, encoder)
    store, cat, shop = features.rows(torch.tensor([2, 0, 4]))
    with torch.inference_mode():
        expected = encoder.embed(["furniture store"])[0]
    torch.testing.assert_close(store, expected, rtol=1e-2, atol=1e-2)
    assert torch.cosine_similarity(store, shop, dim=0) > torch.cosine_similarity(store, cat, dim=0)


def test_a_setting_names_its_source(graph: KnowledgeGraph, table: Path, encoder: TextEncoder) -> None:
    for source, kind, dim in (
        ("names", NameFeatures, encoder.width),
        ("random", RandomFeatures, 32),
        (str(table), FileFeatures, 4),
    ):
        features = open_features(source, graph, encoder)
        assert (type(features), features.dim) == (kind, dim)
    with pytest.raises(UserError, match=r"features=nams does not exist; give names, random, another installed source"):
        open_features("nams", graph, encoder)
    assert graph.folder is not None
    with pytest.raises(UserError, match=r"graph is not a features folder: it holds no features\.json"):
        open_features(str(graph.folder), graph, encoder)


@pytest.fixture
def built(graph: KnowledgeGraph, tmp_path: Path) -> Path:
    """Vectors of four concepts, the others without."""
    request = Request(graph, np.arange(len(graph)), {"from": "vectors"})
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    return request.write(tmp_path / "built", np.array([0, 2, 3, 5]), [rows[:3], rows[3:]], 3).folder


def test_a_built_folders_rows_are_given_in_any_order(graph: KnowledgeGraph, built: Path, encoder: TextEncoder) -> None:
    features = open_features(str(built), graph, encoder)
    assert isinstance(features, BuiltFeatures)
    assert (features.dim, features.relations) == (3, None)
    for asked, rows in (([5, 0, 5], [3, 0, 3]), ([3], [2]), ([2, 3], [1, 2])):
        assert features.rows(torch.tensor(asked)).tolist() == [[3.0 * r, 3.0 * r + 1, 3.0 * r + 2] for r in rows]


def test_concepts_without_a_vector_get_a_mean_and_are_counted(
    graph: KnowledgeGraph, built: Path, encoder: TextEncoder, capsys: pytest.CaptureFixture[str]
) -> None:
    features = BuiltFeatures(graph, built, encoder)
    animal = features.rows(torch.tensor([1]))[0]
    assert animal.tolist() == [4.5, 5.5, 6.5]  # none of its words is known
    assert capsys.readouterr().err == ""
    features.require(np.array([0, 1, 4, 4, 2]))
    assert "no vector for 2 of 4 concepts; using means of their words' vectors" in capsys.readouterr().err
    features.require(np.array([0, 2, 3]))
    assert capsys.readouterr().err == ""


def test_vectors_of_another_graph_or_damaged_are_refused(graph: KnowledgeGraph, built: Path, encoder: TextEncoder) -> None:
    other = KnowledgeGraph.from_facts([("sun", "RelatedTo", "moon")])
    with pytest.raises(UserError, match=r"built has the features of another graph than GRAPH.*mhgrn features build GRAPH"):
        BuiltFeatures(other, built, encoder)
    np.save(built / "vectors.npy", np.zeros((3, 3), dtype=np.float16))
    with pytest.raises(UserError, match=r"vectors\.npy has 3 entries, not 4; build its folder again"):
        BuiltFeatures(graph, built, encoder)
    (built / "vectors.npy").unlink()
    with pytest.raises(UserError, match=r"vectors\.npy is missing"):
        BuiltFeatures(graph, built, encoder)
    (built / "features.json").write_text('{"format": 1}', encoding="utf-8")
    seal(built)
    with pytest.raises(UserError, match=r"features\.json is damaged \(no key\)"):
        BuiltFeatures(graph, built, encoder)


CRAFTED = {
    "concepts": [np.array([0, 2, 1, 3]), np.array([0, 1, 1, 3]), np.array([-1, 1, 2, 3]), np.array([0, 1, 2, 6])],
    "vectors": [np.full((4, 3), np.nan, np.float16), np.zeros((4, 3), np.float32), np.zeros((4, 4), np.float16)],
    "mean": [np.full(3, np.inf, np.float32), np.zeros(4, np.float32), np.zeros((3, 1), np.float32)],
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_arrays_are_refused(name: str, graph: KnowledgeGraph, built: Path, encoder: TextEncoder) -> None:
    for array in CRAFTED[name]:
        np.save(built / f"{name}.npy", array)
        seal(built)
        with pytest.raises(UserError, match=rf"{name}\.npy (is damaged|has \d+ entries)"):
            BuiltFeatures(graph, built, encoder)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e6])
def test_vectors_that_are_not_finite_are_refused(graph: KnowledgeGraph, tmp_path: Path, wrong: float) -> None:
    request = Request(graph, np.arange(3), {"from": "vectors"})
    rows = np.zeros((3, 2), dtype=np.float32)
    rows[1, 0] = wrong
    with pytest.raises(UserError, match="the vector of 'animal' has values that are not finite or too large"):
        request.write(tmp_path / "made", np.arange(3), [rows], 2)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("make", [TripleSource, NameSource])
def test_a_missing_concepts_vector_is_the_encoders_of_its_name(
    make: type[EncodedSource], graph: KnowledgeGraph, encoder: TextEncoder, capsys: pytest.CaptureFixture[str]
) -> None:
    work = make(graph, None, encoder).plan()
    some = work.request.write(graph.folder / "some", np.array([0, 3]), [np.zeros((2, encoder.width))], encoder.width)
    features = BuiltFeatures(graph, some.folder, encoder)
    features.require(np.arange(6))
    assert "no vector for 4 of 6 concepts; using vectors of their names" in capsys.readouterr().err
    with torch.inference_mode():
        inputs = encoder.tokenizer("furniture store", return_tensors="pt")
        of_tokens = encoder.model(**inputs).last_hidden_state[0, 1:-1].mean(0)
        expected = encoder.embed(["furniture store"])[0] if make is NameSource else of_tokens
    torch.testing.assert_close(features.rows(torch.tensor([2]))[0], expected, atol=1e-4, rtol=1e-4)
    other = load_text_encoder(TextEncoderSettings())  # type: ignore[call-arg]
    with torch.no_grad():
        next(other.model.parameters()).add_(1)
    assert BuiltFeatures(graph, some.folder, other).rows(torch.tensor([2]))[0].tolist() == [0.0] * encoder.width


def test_an_added_concept_gets_the_vector_of_its_current_name(
    graph: KnowledgeGraph, table: Path, built: Path, encoder: TextEncoder
) -> None:
    first, then = (
        graph.with_facts([(a, graph.schema.relations[0].name, b)]) for a, b in (("desk_dog", "zebra"), ("zebra", "desk_dog"))
    )
    rows = np.load(table).astype(np.float32)
    for source, desk_dog, nothing_known in (
        (str(table), (rows[3] + rows[5]) / 2, rows.mean(0)),
        (str(built), [7.5, 8.5, 9.5], [4.5, 5.5, 6.5]),
        ("names", encoder.embed_all(["desk dog"], "")[0], encoder.embed_all(["zebra"], "")[0]),
    ):
        features = open_features(source, graph, encoder)
        alone = features.rows(torch.tensor([3]))
        asked = torch.tensor([7, 3, 6])
        zebra, desk, both = features.rows(asked, first)
        expected = torch.tensor(np.array([nothing_known, desk_dog], dtype=np.float32))
        torch.testing.assert_close(torch.stack([zebra, both]), expected, atol=2e-3, rtol=2e-3)
        assert torch.equal(desk, alone[0])
        torch.testing.assert_close(features.rows(asked, then), torch.stack([both, desk, zebra]), atol=1e-5, rtol=1e-5)


def test_cached_vectors_equal_new_ones_and_are_not_computed_again(
    graph: KnowledgeGraph, encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = np.arange(len(NAMES))
    fresh = NameFeatures(graph, encoder)
    fresh.require(everything)
    assert graph.folder is not None
    assert not (graph.folder / "features").exists()
    kept = NameFeatures(graph, encoder)
    kept.require_and_keep(everything)
    monkeypatch.setattr(encoder, "embed_all", lambda *_: pytest.fail("computed again"))
    cached = NameFeatures(graph, encoder)
    asked = torch.tensor([5, 0, 2, 2])
    assert torch.equal(cached.rows(asked), fresh.rows(asked))
    assert torch.equal(cached.rows(asked), kept.rows(asked))


def test_an_interrupted_computation_resumes(graph: KnowledgeGraph, encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.features.sources.names.CHUNK", 2)
    embed_all = encoder.embed_all
    asked: list[str] = []

    def failing(texts: list[str], label: str) -> torch.Tensor:
        if len(asked) >= 4:
            raise KeyboardInterrupt
        asked.extend(texts)
        return embed_all(texts, label)

    monkeypatch.setattr(encoder, "embed_all", failing)
    with pytest.raises(KeyboardInterrupt):
        NameFeatures(graph, encoder).require_and_keep(np.arange(len(NAMES)))
    assert asked == ["cat", "animal", "furniture store", "desk"]
    asked.clear()
    NameFeatures(graph, encoder).require_and_keep(np.arange(len(NAMES)))
    assert asked == ["shop", "dog"]


def test_a_cache_of_another_graph_is_ignored_and_damage_is_reported(graph: KnowledgeGraph, encoder: TextEncoder) -> None:
    NameFeatures(graph, encoder).require_and_keep(np.arange(2))
    assert graph.folder is not None
    [cache] = (graph.folder / "features").iterdir()
    assert load_tensors(cache)["vectors"].dtype == torch.float16
    other = KnowledgeGraph.from_facts([("sun", "RelatedTo", "moon")])
    other.folder = graph.folder
    assert not torch.equal(
        NameFeatures(other, encoder).rows(torch.tensor([0])), NameFeatures(graph, encoder).rows(torch.tensor([0]))
    )
    cache.write_bytes(cache.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"damaged .*; delete it"):
        NameFeatures(graph, encoder)


def test_a_graph_in_memory_needs_no_cache(encoder: TextEncoder) -> None:
    features = NameFeatures(KnowledgeGraph.from_facts([("sun", "RelatedTo", "moon")]), encoder)
    features.require_and_keep(np.arange(2))
    assert features.rows(torch.tensor([1])).shape == (1, encoder.width)


def test_a_questions_vectors_do_not_depend_on_earlier_questions(starter_graph: KnowledgeGraph, encoder: TextEncoder) -> None:
    """Text encoders give a text another last digit in another batch; an answer must not depend on what was asked before."""
    asked = np.random.default_rng(0).choice(len(starter_graph), 40, replace=False)
    in_memory = KnowledgeGraph(None, starter_graph.about, starter_graph._arrays)
    together = NameFeatures(in_memory, encoder).rows(torch.from_numpy(asked))
    several = NameFeatures(in_memory, encoder)
    for part in np.split(asked[::-1], [1, 4, 9, 30]):
        several.rows(torch.from_numpy(part.copy()))
    assert torch.equal(several.rows(torch.from_numpy(asked)), together)


def test_a_new_concept_seldom_copies_the_table() -> None:
    features = RandomFeatures()
    tables = set()
    for concept in range(1000):
        features.rows(torch.tensor([concept]))
        tables.add(features._known().rows.data_ptr())
    assert len(tables) <= 12


def test_vectors_of_questions_are_bounded_in_bytes_and_those_of_a_training_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.features.node_features.KEPT", 100 * 32 * 4)
    features, exact = RandomFeatures(), RandomFeatures()
    features.require(np.arange(0, 50, 2))
    needed = features.rows(torch.arange(0, 50, 2))
    largest = 0
    for start in range(0, 3000, 10):
        asked = torch.arange(start, start + 10)
        assert torch.equal(features.rows(asked), exact.compute(asked.numpy()))
        largest = max(largest, features._known().count)
    assert largest <= 25 + 100 + 10
    monkeypatch.setattr(features, "compute", lambda _: pytest.fail("computed again"))
    assert torch.equal(features.rows(torch.arange(0, 50, 2)), needed)


def test_threads_get_the_rows_they_ask_for(monkeypatch: pytest.MonkeyPatch, eager_switching: None) -> None:
    monkeypatch.setattr("mhgrn.features.node_features.KEPT", 300 * 8 * 4)
    features, exact = RandomFeatures(8), RandomFeatures(8).compute(np.arange(1000))

    def ask(thread: int) -> bool:
        rng = np.random.default_rng(thread)
        asked = [torch.from_numpy(rng.integers(0, 1000, 20)) for _ in range(60)]
        return all(torch.equal(features.rows(concepts), exact[concepts]) for concepts in asked)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_another_thread_may_add_what_is_missing(
    graph: KnowledgeGraph, encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, exact = NameFeatures(graph, encoder), NameFeatures(graph, encoder).rows(torch.tensor([3, 1]))

    @contextmanager
    def after_another_thread() -> Iterator[None]:
        features._known().add(np.array([1, 3]), exact[[1, 0]])
        yield

    monkeypatch.setattr(features, "_lock", after_another_thread())
    assert torch.equal(features.rows(torch.tensor([3, 1])), exact)
