"""Features from triples against their definition; interrupted builds resume to identical bytes."""

import json
import os
import random
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import contents

from mhgrn.errors import UserError
from mhgrn.features import BuiltFeatures, FeatureFolder, NameFeatures
from mhgrn.features.accumulate import Accumulator
from mhgrn.features.encoded import ResumableBuild, feature_encoder
from mhgrn.features.sources.names import NameSource
from mhgrn.features.sources.triples import Occurrences, TripleSettings, TripleSource
from mhgrn.features.verbalize import BATCH, span_sums, verbalize
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.tensors import save_tensors
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import prepare
from mhgrn.text.encoder import TextEncoder
from tiny_encoder import letter_encoder

FACTS = [
    ("cat", "IsA", "animal"),
    ("dog", "IsA", "animal"),
    ("dog", "Desires", "bone"),
    ("office_desk", "AtLocation", "office"),
    ("cat", "RelatedTo", "dog"),
    ("animal", "CapableOf", "eat_a_bone"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return feature_encoder(str(letter_encoder(tmp_path_factory.mktemp("encoder"))))


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts(FACTS)
    graph.save(tmp_path / "graph")
    return graph


@pytest.fixture(scope="module")
def many_facts(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    dice = random.Random(0)
    words = ["".join(dice.choices("abcdefg", k=dice.randint(1, 9))) for _ in range(50)]
    names = [*words, *(f"{a}_{b}" for a, b in zip(words, reversed(words), strict=True))]
    facts = {(dice.choice(names), dice.choice(["IsA", "AtLocation"]), dice.choice(names)) for _ in range(320)}
    graph = KnowledgeGraph.from_facts(sorted(f for f in facts if f[0] != f[2]))
    graph.save(tmp_path_factory.mktemp("many") / "graph")
    return graph


def naive(graph: KnowledgeGraph, encoder: TextEncoder, most: int | None = None) -> dict[int, np.ndarray]:
    """The paper's appendix C, one triple at a time; ``most`` as the documentation has it."""
    order = sorted(range(graph.fact_count), key=lambda fact: fact * 0x9E3779B97F4A7C15 % 2**64)
    heads = graph.heads()
    tokens: dict[int, list[tuple[torch.Tensor, int]]] = defaultdict(list)
    for fact in order:
        head, tail = int(heads[fact]), int(graph.tail[fact])
        sentence = verbalize(graph.name(head), graph.schema.relations[graph.relation[fact]], graph.name(tail))
        sums, counts = span_sums(encoder, [sentence])
        for side, concept in enumerate((head, tail)):
            if most is None or len(tokens[concept]) < most:
                tokens[concept].append((sums[0, side].double(), int(counts[0, side])))
    return {c: (sum(s for s, _ in found) / sum(n for _, n in found)).numpy() for c, found in tokens.items()}


def assert_equals(made: FeatureFolder, expected: dict[int, np.ndarray]) -> None:
    assert made.concepts.tolist() == sorted(expected)
    assert made.vectors.dtype == np.float16
    np.testing.assert_allclose(made.vectors.astype(np.float64), [expected[c] for c in sorted(expected)], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("most", [None, 1, 3])
def test_a_concepts_vector_is_the_mean_over_its_tokens_in_its_triples(
    most: int | None, many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mhgrn.features.encoded.STEP", 40)
    made = TripleSource(many_facts, TripleSettings(max_triples_per_concept=most), encoder).plan().build(tmp_path / "made")
    assert_equals(made, naive(many_facts, encoder, most))
    assert made.missing == len(many_facts) - len(made.concepts)


def test_batches_and_steps_of_any_size_agree(
    many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [TripleSource(many_facts, None, encoder).plan().build(tmp_path / "64")]
    monkeypatch.setattr("mhgrn.features.sources.triples.span_sums", lambda encoder, sentences: span_sums(encoder, sentences, 7))
    monkeypatch.setattr("mhgrn.features.encoded.STEP", 33)
    made.append(TripleSource(many_facts, None, encoder).plan().build(tmp_path / "7"))
    np.testing.assert_allclose(*(m.vectors.astype(np.float32) for m in made), atol=1e-3, rtol=1e-3)


def test_the_built_in_encoder_on_real_names(graph: KnowledgeGraph, tmp_path: Path) -> None:
    minilm = feature_encoder()
    made = TripleSource(graph, None, minilm).plan().build(None)
    assert_equals(made, naive(graph, minilm))
    assert made.folder.parent == tmp_path / "graph" / "features"
    cat, dog, office = (made.vectors[graph.id(name)].astype(np.float32) for name in ("cat", "dog", "office"))
    assert cat @ dog > cat @ office


def test_only_what_prepared_data_reaches_is_built_and_is_the_same(
    many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path
) -> None:
    row = {"question": f"{many_facts.name(0)} and {many_facts.name(9)}?", "choices": [many_facts.name(5), many_facts.name(7)]}
    (tmp_path / "q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    data = prepare(tmp_path / "q.jsonl", many_facts, tmp_path / "data")
    assert 2 < len(data.used) < len(many_facts) / 2
    some = TripleSource(many_facts, None, encoder).plan([data.folder])
    everything = TripleSource(many_facts, None, encoder).plan()
    assert some.items < everything.items == many_facts.fact_count
    few, all_of_them = some.build(tmp_path / "some"), everything.build(tmp_path / "all")
    np.testing.assert_array_equal(few.concepts, data.used)
    expected = all_of_them.vectors[np.searchsorted(all_of_them.concepts, few.concepts)]
    np.testing.assert_allclose(few.vectors.astype(np.float32), expected.astype(np.float32), atol=1e-3, rtol=1e-3)
    capped = TripleSource(many_facts, TripleSettings(max_triples_per_concept=2), encoder).plan([data.folder])
    assert capped.items < some.items
    both = TripleSource(many_facts, TripleSettings(max_triples_per_concept=2), encoder).plan().build(tmp_path / "capped")
    np.testing.assert_allclose(
        capped.build(tmp_path / "few").vectors.astype(np.float32),
        both.vectors[np.searchsorted(both.concepts, few.concepts)].astype(np.float32),
        atol=1e-3,
        rtol=1e-3,
    )


@pytest.mark.parametrize("most", [None, 1, 2, 5])
def test_occurrences_equal_their_definition(most: int | None, many_facts: KnowledgeGraph) -> None:
    asked = np.arange(0, len(many_facts), 3)
    chosen = Occurrences.of(many_facts, asked, most)
    ends = np.stack([many_facts.heads(), many_facts.tail], axis=1)
    found = np.bincount(chosen.ends[chosen.ends >= 0], minlength=len(asked))
    degree = np.bincount(ends.reshape(-1), minlength=len(many_facts))[asked]
    np.testing.assert_array_equal(found, degree if most is None else np.minimum(degree, most))
    named = np.where(chosen.ends >= 0, asked[chosen.ends], -1)
    assert ((named == ends[chosen.facts]) | (named == -1)).all()
    assert len(set(chosen.facts.tolist())) == len(chosen)


def test_built_names_equal_name_features(graph: KnowledgeGraph, encoder: TextEncoder) -> None:
    made = NameSource(graph, None, encoder).plan().build(None)
    everything = torch.arange(len(graph))
    expected = NameFeatures(graph, encoder).rows(everything)
    torch.testing.assert_close(BuiltFeatures(graph, made.folder, encoder).rows(everything), expected, atol=1e-3, rtol=1e-3)


def test_a_finished_folder_is_not_built_again(graph: KnowledgeGraph, encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TripleSource(graph, None, encoder).plan().build(None)
    before = contents(made.folder)
    monkeypatch.setattr("mhgrn.features.sources.triples.span_sums", lambda *_: pytest.fail("made again"))
    assert TripleSource(graph, None, encoder).plan().build(None).folder == made.folder
    assert contents(made.folder) == before
    with pytest.raises(pytest.fail.Exception):
        TripleSource(graph, TripleSettings(max_triples_per_concept=1), encoder).plan().build(None)


class Stopped(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.parametrize("where", ["sources.triples.span_sums", "accumulate.save_tensors", "accumulate.Accumulator._put"])
def test_a_build_stopped_anywhere_resumes_to_the_same_bytes(
    where: str, many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mhgrn.features.encoded.STEP", 40)
    whole = contents(TripleSource(many_facts, None, encoder).plan().build(tmp_path / "whole").folder)
    put = Accumulator._put
    true = {"sources.triples.span_sums": span_sums, "accumulate.save_tensors": save_tensors, "accumulate.Accumulator._put": put}
    calls = 0

    def every_third_stops(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Stopped
        return true[where](*args)  # type: ignore[operator]

    monkeypatch.setattr(f"mhgrn.features.{where}", every_third_stops)
    stops = 0
    while not (tmp_path / "made").exists():
        try:
            TripleSource(many_facts, None, encoder).plan().build(tmp_path / "made")
        except Stopped:
            stops += 1
            assert not (tmp_path / "made").exists()
    assert stops > 2
    assert contents(tmp_path / "made") == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "whole"]


@pytest.mark.parametrize("kills", [pytest.param(6, id="6 kills"), pytest.param(60, id="60 kills", marks=pytest.mark.long)])
def test_a_killed_build_resumes_to_the_same_bytes(
    kills: int, many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each build dies at a random one of its next renames of files: while it writes, or after a step or two."""
    monkeypatch.setattr("mhgrn.features.encoded.STEP", 5)
    dice, replace = random.Random(kills), os.replace
    whole = contents(TripleSource(many_facts, None, encoder).plan().build(tmp_path / "whole").folder)
    for _ in range(kills):
        left = dice.randrange(1, 4)
        child = os.fork()
        if child == 0:

            def dying(*args: Any, **options: Any) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                replace(*args, **options)

            os.replace = dying
            TripleSource(many_facts, None, encoder).plan().build(tmp_path / "made")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert contents(TripleSource(many_facts, None, encoder).plan().build(tmp_path / "made").folder) == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "whole"]


@pytest.fixture
def begun(
    many_facts: KnowledgeGraph,
    encoder: TextEncoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[ResumableBuild, Path]:
    """A build that was interrupted after its third step."""
    monkeypatch.setattr("mhgrn.features.encoded.STEP", 40)
    work = TripleSource(many_facts, None, encoder).plan()
    steps = 0

    def encode(numbers: np.ndarray) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return work.encode(numbers)

    with pytest.raises(KeyboardInterrupt):
        ResumableBuild(work.request, work.items, work.dim, encode).build(tmp_path / "made")
    assert f"stopped after 120 of {work.items} triples; the same command resumes" in capsys.readouterr().err
    return work, tmp_path / "made"


def test_a_resumed_build_does_only_the_rest(begun: tuple[ResumableBuild, Path], capsys: pytest.CaptureFixture[str]) -> None:
    work, place = begun
    asked: list[np.ndarray] = []

    def encode(numbers: np.ndarray) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
        asked.append(numbers)
        return work.encode(numbers)

    ResumableBuild(work.request, work.items, work.dim, encode).build(place)
    np.testing.assert_array_equal(np.concatenate(asked), np.arange(120, work.items))
    assert f"resuming after 120 of {work.items} triples" in capsys.readouterr().err


def test_an_unfinished_build_with_other_settings_is_refused(
    begun: tuple[ResumableBuild, Path], many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path
) -> None:
    other = feature_encoder(str(letter_encoder(tmp_path / "other", seed=1)))
    for work in (TripleSource(many_facts, None, other).plan(), NameSource(many_facts, None, encoder).plan()):
        with pytest.raises(UserError, match=r"\.made\.unfinished was started with other settings"):
            work.build(begun[1])
    begun[0].build(begun[1])


def test_two_at_once_are_refused(begun: tuple[ResumableBuild, Path]) -> None:
    work, place = begun
    other = Accumulator(place, fingerprint(work.request.key, 40, BATCH), len(work.request.concepts), work.dim)
    with other, pytest.raises(UserError, match="another process is building"):
        work.build(place)
    work.build(place)


@pytest.mark.parametrize("name", ["sums.npy", "counts.npy", "step.safetensors", "unfinished.json"])
def test_a_damaged_unfinished_build_is_reported(name: str, begun: tuple[ResumableBuild, Path]) -> None:
    work, place = begun
    file = place.parent / f".{place.name}.unfinished" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UserError, match=f"{name} is damaged"):
        work.build(place)


def test_long_builds_print_an_estimate(
    many_facts: KnowledgeGraph, encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    work = TripleSource(many_facts, None, encoder).plan()
    expected = work.estimate()
    assert expected.items == work.items == many_facts.fact_count
    assert expected.seconds == pytest.approx(work.items / expected.rate)
    assert expected.bytes > len(many_facts) * work.dim * 4
    work.build(tmp_path / "short")
    assert "to encode at" not in capsys.readouterr().err
    monkeypatch.setattr("mhgrn.features.encoded.LONG", work.items)
    work.build(tmp_path / "long")
    assert f"{work.items} to encode at" in capsys.readouterr().err
    assert contents(tmp_path / "long") == contents(tmp_path / "short")


def test_a_graph_without_triples_is_refused(encoder: TextEncoder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no triples to encode"):
        TripleSource(KnowledgeGraph.from_facts([]), None, encoder).plan()
    with pytest.raises(UserError, match="name a folder"):
        TripleSource(KnowledgeGraph.from_facts(FACTS), None, encoder).plan().build(None)
    TripleSource(KnowledgeGraph.from_facts(FACTS), None, encoder).plan().build(tmp_path / "made")
