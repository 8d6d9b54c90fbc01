"""Making questions from a graph, and writing them to a folder."""

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from mhgrn.errors import UserError
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_json
from mhgrn.io.remote import place_of
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar
from mhgrn.synthesis.kernels import Drawn, Material, draw, support
from mhgrn.synthesis.material import material
from mhgrn.synthesis.options import STRATEGIES, SynthesisOptions
from mhgrn.synthesis.wording import Plan, Writer

MARKER = "synthesis.json"
HOLDS = ("train.jsonl", "dev.jsonl", "test.jsonl")
FORMAT = 1
CHUNK = 256  # questions that a thread draws at once


@dataclass(frozen=True)
class Synthesis:
    """A folder of questions made from a graph.

    Args:
        folder: The folder.
        about: The contents of ``synthesis.json``: the options, the graph's fingerprint and counts.
    """

    folder: Path
    about: dict[str, Any]


def synthesize(
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    options: SynthesisOptions = SynthesisOptions(),
    **changes: Any,
) -> Synthesis:
    """Make multiple-choice questions from the facts of a graph, and write them to ``folder`` for :func:`mhgrn.prepare`.

    Args:
        graph: A graph, or its folder.
        folder: The folder to write: ``train.jsonl``, ``dev.jsonl``, ``test.jsonl`` and ``synthesis.json``. Questions that were made
            there before are replaced.
        options: See :class:`SynthesisOptions`.
        changes: Fields of ``options`` with other values, for example ``count=1_000``.

    >>> from tempfile import mkdtemp
    >>> places = {"milk": ["fridge", "shop"], "cheese": ["fridge", "shop"], "bed": ["hotel", "house"], "desk": ["hotel", "house"]}
    >>> graph = KnowledgeGraph.from_facts([(thing, "AtLocation", place) for thing in places for place in places[thing]])
    >>> made = synthesize(graph, Path(mkdtemp()) / "made", count=1, choices=2, hops=[1], split=(1, 0, 0), distractors="random")
    >>> made.about["splits"]
    {'train': 1}
    """
    if not isinstance(options, SynthesisOptions):
        raise TypeError(f"options should be SynthesisOptions, not {type(options).__name__}.")
    options = replace(options, **changes)
    target = Path(folder)
    check_replaceable(target, MARKER, HOLDS)
    sizes = options.sizes()
    if not isinstance(graph, KnowledgeGraph):
        graph = KnowledgeGraph.load(graph)
    found, facts = material(graph, options)
    if not len(found.head):
        raise UserError(
            f"{graph.folder or 'the graph'} has no facts to ask about: the concepts of a fact need {options.min_degree} neighbors"
            f" (min_degree), {options.max_words} words at most (max_words), and no common word."
        )
    writer = Writer(graph, found, options)
    division = _Division(sizes, Random(options.seed))
    counts: dict[str, Counter[str]] = {"kinds": Counter(), "relations": Counter(), "distractors": Counter()}
    hidden = made = 0
    with new_folder(target, MARKER, HOLDS) as partial, ExitStack() as files:
        outputs = {s: files.enter_context((partial / f"{s}.jsonl").open("w", encoding="utf-8", newline="")) for s in sizes}
        with bar("making questions", options.count) as advance:
            drawing = _Drawing(found, _weights(graph, found, facts), options)
            for drawn, i in drawing.questions():
                plan = writer.plan(drawn, i)
                split = division.split_of(_pairs(plan, len(graph)))
                if split is None:
                    continue
                drawing.keep(drawn, i)
                made += 1
                row = writer.row(plan, int(drawn.draw[i]))
                outputs[split].write(json.dumps({"id": f"s{made}", **row}, ensure_ascii=False) + "\n")
                about = row["made_from"]
                hidden += about["hidden"]
                made_of = about["facts"][: 1 if plan.kind == "negated" else 2]
                counts["kinds"][plan.kind] += 1
                counts["relations"][" ".join(relation for _, relation, _ in made_of)] += 1
                counts["distractors"].update(filter(None, about["distractors"]))
                advance(made)
        if made < options.count:
            raise UserError(
                f"only {made:,} of {options.count:,} questions can be made from {graph.folder or 'the graph'} with these options;"
                f" ask for at most {made:,} (--count)."
            )
        for file in outputs.values():
            file.flush()
        about = {
            "format": FORMAT,
            "graph": None if graph.folder is None else place_of(graph.folder),
            "graph_fingerprint": graph.fingerprint,
            "options": _stored(options),
            "splits": sizes,
            "hidden": hidden,
            **{name: dict(counter.most_common()) for name, counter in counts.items()},
        }
        write_json(partial / MARKER, about)
    return Synthesis(target, about)


def _stored(options: SynthesisOptions) -> dict[str, Any]:
    """The options that can change a question."""
    return {name: value for name, value in asdict(options).items() if name != "workers"}


def _weights(graph: KnowledgeGraph, found: Material, facts: Ints) -> Ints:
    """How much facts are preferred: by their weight, and by the common neighbors of their concepts."""
    preferred: Ints = support(found) ** 2 * (1.0 if graph.weight is None else np.maximum(graph.weight[facts], 1e-6))
    return preferred


class _Group(NamedTuple):
    """The facts of one relation in the order in which questions of 1 or 2 facts are made from them."""

    hops: int
    facts: Ints


class _Drawing:
    """Draws questions with several threads.

    The questions are divided equally among numbers of facts, and among relations by their temperature. Where a relation has too few
    facts, others take its share.
    """

    def __init__(self, found: Material, weight: Ints, options: SynthesisOptions) -> None:
        self._material, self._options = found, options
        self._groups: list[_Group] = []
        shares: list[float] = []
        half = len(found.is_vague)
        for hops in sorted(set(options.hops)):
            starts = [(number, *map(int, found.by_relation_ptr[number : number + 2])) for number in range(half)]
            sizes = [float((end - start) ** options.temperature) if end > start else 0.0 for _, start, end in starts]
            shares += [size / (sum(sizes) or 1) for size in sizes]
            for number, start, end in starts:
                rng = np.random.default_rng([options.seed, hops, number])
                self._groups.append(_Group(hops, start + _shuffled(weight[start:end], rng)))
        self._shares = np.array(shares)
        self._made = np.zeros(len(self._groups), np.int64)
        self._rng = np.random.default_rng([options.seed, 0])

    def keep(self, drawn: Drawn, i: int) -> None:
        """Count question ``i`` as made. Others are replaced."""
        relation = int(drawn.last[i]) % len(self._material.is_vague)
        self._made[self._number[1 + (drawn.middle[i] >= 0), relation]] += 1

    @cached_property
    def _number(self) -> dict[tuple[int, int], int]:
        return {(g.hops, int(self._material.relation[g.facts[0]])): n for n, g in enumerate(self._groups) if len(g.facts)}

    def questions(self) -> Iterator[tuple[Drawn, int]]:
        """Yield questions until enough of them are kept or no facts are left."""
        sizes = np.array([len(group.facts) for group in self._groups])
        used = np.zeros(len(sizes), np.int64)
        quota = _quotas(self._options.count, self._shares, sizes)
        while True:
            taken = np.minimum(quota - self._made, sizes - used)
            if not taken.any():
                missing = self._options.count - int(self._made.sum())
                quota = self._made + _quotas(missing, self._shares, sizes - used)
                if (quota == self._made).all():
                    return
                continue
            parts = zip(self._groups, used.tolist(), (used + taken).tolist(), strict=True)
            chosen = [(group.hops, group.facts[start:end]) for group, start, end in parts]
            facts = np.concatenate([part for _, part in chosen])
            hops = np.concatenate([np.full(len(part), hops) for hops, part in chosen])
            order = self._rng.permutation(len(facts))
            used += taken
            for drawn in self._drawn(facts[order], hops[order]):
                for i in np.flatnonzero(drawn.known >= 0).tolist():
                    yield drawn, i

    def _drawn(self, facts: Ints, hops: Ints) -> Iterator[Drawn]:
        pending: deque[Future[Drawn]] = deque()
        with ThreadPoolExecutor(self._options.workers) as pool:
            for start in range(0, len(facts), CHUNK):
                pending.append(pool.submit(self._chunk, facts[start : start + CHUNK], hops[start : start + CHUNK]))
                if len(pending) > 4 * self._options.workers:  # bounds the memory
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def _chunk(self, facts: Ints, hops: Ints) -> Drawn:
        size, wrong = len(facts), self._options.choices - 1
        known, middle, answer, first, last = (np.full(size, -1, np.int64) for _ in range(5))
        choices, strategy = (np.zeros((size, wrong), np.int64) for _ in range(2))
        drawn = Drawn(known, middle, answer, first, last, choices, strategy, np.zeros(size, np.uint64))
        strategies = np.array([STRATEGIES.index(s) for s in self._options.strategies])
        draw(self._material, facts, hops, self._options.seed, strategies, drawn)
        return drawn


def _shuffled(weight: Ints, rng: np.random.Generator) -> Ints:
    """The numbers of the weights in random order; those of large weights tend to come first."""
    return np.argsort(rng.exponential(size=len(weight)) / weight, kind="stable")


def _quotas(total: int, shares: Ints, most: Ints) -> Ints:
    """Divide ``total`` by shares; none gets more than ``most``.

    >>> _quotas(10, np.array([0.5, 0.3, 0.2]), np.array([2, 9, 9])).tolist()
    [2, 5, 3]
    """
    quota = np.zeros(len(shares), np.int64)
    while (left := total - int(quota.sum())) > 0:
        share = np.where(quota < most, shares, 0.0)
        if not share.any():
            break
        given = np.minimum((share / share.sum() * left).astype(np.int64), most - quota)
        if not given.any():
            given[np.argsort(-share, kind="stable")[: min(left, np.count_nonzero(share))]] = 1
        quota += given
    return quota


class _Division:
    """Divides questions into splits of given sizes, so that no pair of concepts of a fact is in two of them."""

    def __init__(self, sizes: Mapping[str, int], rng: Random) -> None:
        self._left, self._rng = dict(sizes), rng
        self._split_of: dict[int, str] = {}

    def split_of(self, pairs: list[int]) -> str | None:
        """The split of a question with these pairs; None if it cannot be in any."""
        known = {self._split_of[pair] for pair in pairs if pair in self._split_of}
        if len(known) > 1 or not any(self._left.values()):
            return None
        split = known.pop() if known else self._rng.choices([*self._left], [*self._left.values()])[0]
        if not self._left[split]:
            return None
        self._left[split] -= 1
        self._split_of.update(dict.fromkeys(pairs, split))
        return split


def _pairs(plan: Plan, size: int) -> list[int]:
    """The pairs of concepts of a question's facts, as numbers."""
    return [min(start, end) * size + max(start, end) for start, _, end in plan.edges]
