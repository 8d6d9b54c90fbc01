"""Threads that share one graph, one concept index and one grounder get what one thread alone gets."""

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from mhgrn.grounding import index as index_module
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.lemmas import dictionary, inflected
from mhgrn.grounding.patterns import known_words
from mhgrn.kg import KnowledgeGraph

THREADS = 8
WORDS = """dog cats bowl dogs ride a bike the salt shaker insturment instrument tyre colour store furniture zorb quokkas 😀 café
    x-ray""".split()
NAMES = "dog cat dog_bowl ride_bike saltshaker instrument tire color furniture_store zorb cafe x-ray bowl bike store".split()
FACTS = [("quokka", "RelatedTo", "dog"), ("salt_bike", "RelatedTo", "zorbs"), ("zorb_quokka", "RelatedTo", "dogstore")]


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_facts([(name, "RelatedTo", "zebra") for name in NAMES])


def texts(seed: int, count: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    made = [[*rng.choices(WORDS, k=rng.randint(1, 12)), f"new{seed}x{number % 7}"] for number in range(count)]
    return [(" ".join(words), " ".join(rng.sample(words, min(2, len(words))))) for words in made]


def in_threads(work: Callable[[int], object]) -> list[object]:
    """The results of ``work(0)``, ``work(1)``, …, all begun at the same time."""
    barrier = Barrier(THREADS)

    def begin(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(begin, range(THREADS)))


@pytest.mark.parametrize("facts", [[], FACTS], ids=["graph", "more facts"])
@pytest.mark.parametrize("published", [False, True])
def test_threads_find_what_one_thread_finds(facts: list[tuple[str, str, str]], published: bool) -> None:
    known = graph().with_facts(facts) if facts else graph()
    asked = [texts(seed, 60) for seed in range(THREADS)]
    alone = Grounder(known, published)
    expected = [[(alone.mentions(*each), alone.concepts(*each)) for each in some] for some in asked]
    shared = Grounder(known, published)
    for _ in ("cold", "warm"):
        assert in_threads(lambda n: [(shared.mentions(*each), shared.concepts(*each)) for each in asked[n]]) == expected
    assert [[(shared.mentions(*each), shared.concepts(*each)) for each in some] for some in asked] == expected


def test_threads_find_the_same_while_caches_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    known = graph()
    asked = [texts(seed, 20) for seed in range(THREADS)]
    expected = [[Grounder(known).mentions(*each) for each in some] for some in asked]
    shared = Grounder(known)
    monkeypatch.setattr("mhgrn.grounding.grounder.CACHED", 1 << 20)
    assert in_threads(lambda n: [shared.mentions(*each) for each in asked[n]]) == expected


def test_an_index_and_its_dictionary_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph().save(tmp_path / "graph")
    loaded = KnowledgeGraph.load(tmp_path / "graph")
    built: list[KnowledgeGraph] = []
    build = ConceptIndex.build
    monkeypatch.setattr(ConceptIndex, "build", lambda graph: (built.append(graph), build(graph))[1])
    for cached in (known_words, dictionary):
        cached.cache_clear()
    indexes = in_threads(lambda _: ConceptIndex.of(loaded))
    assert len(built) == 1
    assert len(set(map(id, indexes))) == 1
    assert len({id(words) for words in in_threads(lambda _: inflected("dog"))}) == 1


def test_graphs_of_one_folder_that_are_indexed_at_once_have_equal_indexes(tmp_path: Path) -> None:
    graph().save(tmp_path / "graph")
    loaded = [KnowledgeGraph.load(tmp_path / "graph") for _ in range(THREADS)]
    assert len({index.fingerprint for index in in_threads(lambda n: ConceptIndex.of(loaded[n]))}) == 1  # type: ignore[attr-defined]
    assert ConceptIndex.load(tmp_path / "graph" / "index", loaded[0]).fingerprint == ConceptIndex.of(graph()).fingerprint


def test_an_index_that_cannot_be_stored_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph().save(tmp_path / "graph")
    loaded = KnowledgeGraph.load(tmp_path / "graph")
    tried: list[Path] = []

    def save(_: ConceptIndex, folder: Path) -> None:
        tried.append(folder)
        raise PermissionError

    monkeypatch.setattr(index_module.ConceptIndex, "save", save)
    first = ConceptIndex.of(loaded)
    assert ConceptIndex.of(loaded) is first
    assert len(tried) == 1
