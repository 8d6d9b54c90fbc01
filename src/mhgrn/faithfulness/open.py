"""Faithfulness of the explanations of open questions: whether the facts shown are those that the first answer needs.

Each method orders facts of a question's part of the graph. The model ranks again without the first facts, and with these facts
alone; an answer is *kept* if it is still an answer, see :class:`mhgrn.open.part.Standing`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mhgrn.engines import Session, Work
from mhgrn.engines.engine import Context, Item, on_nodes, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.errors import UserError, did_you_mean
from mhgrn.faithfulness.bootstrap import Interval, interval
from mhgrn.faithfulness.report import table
from mhgrn.faithfulness.summary import plain
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.results import Store
from mhgrn.open.data import OpenData
from mhgrn.open.needed import is_lost, needed_facts
from mhgrn.open.part import WalkedPart
from mhgrn.open.run import OpenRun
from mhgrn.progress import track
from mhgrn.runs import WEIGHTS

SIZES = (1, 2, 3, 5)  # facts that are removed, or kept alone
WALKS = 20  # best walks whose facts are ordered
PART = 8  # questions per task of an engine
TRIED = 30  # facts that are removed one at a time

Row = dict[str, Any]
Order = Callable[["Explained"], list[int]]


@dataclass(frozen=True)
class Explained:
    """A question whose first answer is explained."""

    part: WalkedPart
    answer: int
    seed: list[int]  # of its random orders
    walks: list[list[int]]  # the facts of the best walks, best first

    def shuffled(self, facts: Sequence[int]) -> list[int]:
        found: list[int] = np.random.default_rng(self.seed).permutation(np.array(facts, dtype=np.int64)).tolist()
        return found

    @property
    def on_walks(self) -> list[int]:
        """The facts of the best walks, each once."""
        return list(dict.fromkeys(fact for walk in self.walks for fact in walk))


def _by_effect(one: Explained) -> list[int]:
    facts = one.on_walks[:TRIED]
    scores = {fact: one.part.standing(one.answer, one.part.without([fact])).score for fact in facts}
    return sorted(facts, key=lambda fact: (scores[fact], facts.index(fact)))


def _near(one: Explained) -> list[int]:
    of_topic = np.isin(one.part.facts[:, [0, 2]], one.part.topics).any(1)
    return one.shuffled(np.flatnonzero(of_topic).tolist())


METHODS: dict[str, tuple[str, Order]] = {
    "needed": ("the facts that the answer needs", lambda one: needed_facts(one.part, one.answer).facts),
    "walks": ("the facts of the best paths, as they are shown", lambda one: one.on_walks),
    "effect": ("facts of these paths, by what the answer loses without each", _by_effect),
    "on a path": ("random facts of these paths", lambda one: one.shuffled(one.on_walks)),
    "of the topic": ("random facts of the topic", _near),
    "random": ("random facts that walks can use", lambda one: one.shuffled(range(len(one.part)))),
}


@dataclass(frozen=True)
class OpenFaithfulness:
    """What was measured; every number is an interval over questions.

    Args:
        run: The run's folder.
        split: The split.
        questions: Number of its questions.
        explained: Number of random questions that were explained.
        seed: Of all random choices.
        accuracy: hits@1 of these questions.
        methods: For each method and number of facts in ``SIZES``: ``lost`` (share of answers that are lost without the facts),
            ``fall`` (of their probability), ``reciprocal_rank`` (without the facts), ``kept`` (share of answers that are still
            answers with only these facts).
        shown: Of the best path, and of the facts an answer needs: the share that is ``sufficient``, ``necessary`` and ``both``, and
            the mean number of facts.
        rows: The numbers of each question.
    """

    run: str
    split: str
    questions: int
    explained: int
    seed: int
    accuracy: Interval
    methods: dict[str, dict[str, list[Interval]]]
    shown: dict[str, dict[str, Interval]]
    rows: list[Row] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"sizes": list(SIZES)} | {key: plain(value) for key, value in vars(self).items()}


def faithfulness_open(
    run: OpenRun,
    data: OpenData,
    split: str = "dev",
    methods: Sequence[str] | None = None,
    limit: int = 200,
    seed: int = 0,
    progress_file: Path | None = None,
    session: Session | None = None,
    loaded_with: Context | None = None,
) -> OpenFaithfulness:
    """Measure the explanations of a run of open questions.

    Args:
        run: The run.
        data: Prepared open questions.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        methods: Names of ``METHODS``; all by default.
        limit: Explain at most this many random questions, of those whose topics reach something.
        seed: Of all random choices.
        progress_file: Keep the results of single questions here, and use those of an interrupted measurement.
        session: Where to compute, of :func:`mhgrn.engines.session_of`. None: in this process.
        loaded_with: With a session: the arguments besides the folder that the run was loaded with. Nodes load it with the same.
    """
    names = chosen_open_methods(methods)
    if data.about["graph_fingerprint"] != run.graph.fingerprint:
        raise UserError(f"{data.folder} was prepared from another graph than the run's; prepare the questions again.")
    numbers = data.answered_split(split)
    sample = [int(q) for q in np.random.default_rng(seed).permutation(np.array(numbers)) if len(data.topics[q])][:limit]
    weights = file_fingerprint(run.folder / WEIGHTS)
    store = Store(progress_file, fingerprint(weights, data.fingerprint, split, seed, run.temperature, names))
    left = [q for q in sample if f"question {q}" not in store]
    found: Iterator[Row | None]
    if session is None:
        found = (_row(run, data, q, names, seed) for q in left)
    else:
        found = _rows_on(session, run, data, left, {"methods": names, "seed": seed}, loaded_with or {})
    for q, row in zip(left, track(found, "explaining questions", len(left)), strict=True):
        store.add_all({f"question {q}": row})
    rows = [row for q in sample if (row := store[f"question {q}"]) is not None]
    if not rows:
        raise UserError(f"no question of the split {split} of {data.folder} has an answer to explain.")
    result = OpenFaithfulness(
        run=str(run.folder),
        split=split,
        questions=len(numbers),
        explained=len(rows),
        seed=seed,
        accuracy=interval(np.array([row["right"] for row in rows], dtype=float), seed),
        methods={name: _measures([row["methods"][name] for row in rows], seed) for name in names},
        shown={
            key: {what: interval(np.array([row[key][what] for row in rows], dtype=float), seed) for what in rows[0][key]}
            for key in ("best path", "needed facts")
        },
        rows=rows,
    )
    store.remove()
    return result


def _rows_on(
    session: Session, run: OpenRun, data: OpenData, questions: Sequence[int], options: Context, loaded_with: Context
) -> Iterator[Row | None]:
    """The rows of questions, computed by an engine."""
    context = {
        "run": place_on_nodes(run.folder),
        "loaded_with": on_nodes(loaded_with),
        "data": place_on_nodes(data.folder),
        "fingerprints": _fingerprints(run, data),
    }
    items = [{"id": data.questions[q].id, "question": q} for q in questions]
    parts = [items[start : start + PART] for start in range(0, len(items), PART)]
    found = session.map(Work(rows_of_part, context | options, parts, torch.get_num_threads()))
    return (row for part in found for row in json.loads(part))


def rows_of_part(context: Context, items: list[Item]) -> bytes:
    """The rows of some questions, as JSON. The process keeps the run and the questions."""
    loading = {name: context[name] for name in ("run", "loaded_with", "data", "fingerprints")}
    run, data = _loaded(json.dumps(loading, sort_keys=True))
    return json.dumps([_row(run, data, item["question"], context["methods"], context["seed"]) for item in items]).encode()


@lru_cache(maxsize=1)
def _loaded(context: str) -> tuple[OpenRun, OpenData]:
    about = json.loads(context)
    run, data = OpenRun.load(about["run"], **about["loaded_with"]), OpenData.load(about["data"])
    check_same(f"the run {about['run']} or the data {about['data']}", _fingerprints(run, data), about["fingerprints"])
    return run, data


def _fingerprints(run: OpenRun, data: OpenData) -> dict[str, str]:
    return run.fingerprints() | {"questions": data.fingerprint}


def chosen_open_methods(names: Sequence[str] | None) -> list[str]:
    """The methods of these names; all by default."""
    for name in names or ():
        if name not in METHODS:
            raise UserError(f"there is no method {name} for open questions.{did_you_mean(name, METHODS)}")
    return list(METHODS) if names is None else list(names)


def _row(run: OpenRun, data: OpenData, q: int, names: Sequence[str], seed: int) -> Row | None:
    """The numbers of one question; None if walks reach nothing."""
    part = WalkedPart(run, data.topics[q], run.vectors([data.texts[q]]))
    concepts, scores, _ = part.rank()
    if not len(concepts):
        return None
    answer = int(concepts[np.lexsort((concepts, -scores))[0]])
    walks = [part.fact_numbers(walk) for walk in part.best_walks(answer, WALKS)]
    one, full = Explained(part, answer, [seed, q], walks), part.standing(answer)
    orders = {name: METHODS[name][1](one) for name in names}
    needed = orders["needed"] if "needed" in orders else needed_facts(part, answer).facts
    return {
        "question": q,
        "id": data.questions[q].id,
        "right": bool(answer in data.answers[q]),
        "probability": full.probability,
        "facts": len(part),
        "best path": _shown(one, walks[0] if walks else []),
        "needed facts": _shown(one, needed),
        "methods": {name: [_measured(one, order[:size]) for size in SIZES] for name, order in orders.items()},
    }


def _measured(one: Explained, facts: Sequence[int]) -> Row:
    part, full = one.part, one.part.standing(one.answer)
    without = part.standing(one.answer, part.without(facts))
    only = part.standing(one.answer, ~part.without(facts))
    return {
        "lost": bool(is_lost(full, without)),
        "fall": full.probability - without.probability,
        "reciprocal_rank": 1 / without.rank if without.rank else 0.0,
        "kept": only.is_answer,
    }


def _shown(one: Explained, facts: Sequence[int]) -> Row:
    found = _measured(one, facts)
    both = bool(facts) and found["lost"] and found["kept"]
    return {"sufficient": found["kept"], "necessary": found["lost"], "both": both, "facts": len(set(facts))}


def _measures(rows: Sequence[Sequence[Row]], seed: int) -> dict[str, list[Interval]]:
    return {
        key: [interval(np.array([row[level][key] for row in rows], dtype=float), seed) for level in range(len(SIZES))]
        for key in ("lost", "fall", "reciprocal_rank", "kept")
    }


def report_open(found: OpenFaithfulness) -> str:
    """The tables of a measurement."""
    counts = f"{found.questions:,} questions, {found.explained:,} of them explained"
    head = f"{found.run}, {found.split}: {counts}, hits@1 {found.accuracy.percent()}; seed {found.seed}; [95 % bootstrap intervals]"
    titles = {
        "lost": "Answers that are lost without the first facts",
        "reciprocal_rank": "Mean reciprocal rank of the answer without the first facts",
        "kept": "Answers that are still answers with only the first facts",
    }
    parts = [head]
    for key, title in titles.items():
        form = str if key == "reciprocal_rank" else Interval.percent
        rows = [[name, *(form(value) for value in of[key])] for name, of in found.methods.items()]
        parts.append(f"{title}:\n" + table(["method", *(f"{size} fact{'s' * (size > 1)}" for size in SIZES)], rows))
    rows = [
        [name, *(of[key].percent() for key in ("sufficient", "necessary", "both")), f"{of['facts'].value:.1f}"]
        for name, of in found.shown.items()
    ]
    parts.append("Facts that are shown:\n" + table(["", "sufficient", "necessary", "both", "facts"], rows))
    return "\n\n".join(parts)
