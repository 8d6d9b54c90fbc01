"""Measure how faithful the explanations of a run are, how much it depends on its graph, and how robust it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.engines import Session
from mhgrn.engines.engine import Context
from mhgrn.errors import UserError
from mhgrn.faithfulness import summary
from mhgrn.faithfulness.bootstrap import Interval, interval
from mhgrn.faithfulness.computing import Alteration, Computing, Explaining, Scoring
from mhgrn.faithfulness.measuring import Row
from mhgrn.faithfulness.methods import Method, chosen_methods
from mhgrn.faithfulness.metrics import LEVELS, Floats, chosen, probabilities
from mhgrn.faithfulness.robustness import PERTURBATIONS, STRENGTHS
from mhgrn.faithfulness.study import Study
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.results import Store
from mhgrn.progress import bar
from mhgrn.runs import Run
from mhgrn.scoring import best_choice
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.evaluation import split_probabilities
from mhgrn.training.examples import Examples

LIMIT = 200
LIMITS = 50
PERTURBED = 400


@dataclass(frozen=True)
class Faithfulness:
    """What was measured; every number is an :class:`~mhgrn.faithfulness.bootstrap.Interval` over questions.

    Args:
        run: The run's folder.
        split: The split.
        questions: Number of the split's questions.
        explained: Number of random questions that were explained.
        limited: Number of them whose attainable limits were searched.
        perturbed: Number of random questions whose graphs were perturbed.
        seed: Of all random choices.
        methods: The metrics of each method.
        not_applicable: Why other methods were not measured.
        dependence: How often the answer depends on the graph, over the split.
        agreement: How often the graph's own choice and the text's own choice are the answer, over the split.
        accuracy: With the graph, without it, and of the run beside it; empty if the right answers are not known.
        robustness: perturbation → strength → ``accuracy`` and ``same`` (share of unchanged answers); and the same questions
            without the graph.
        completeness_gap: Mean distance between the sum of integrated gradients and the difference that they add up to.
        rows: The numbers of each explained question.
        split_rows: The dependence on the graph of each question of the split.
    """

    run: str
    split: str
    questions: int
    explained: int
    limited: int
    perturbed: int
    seed: int
    methods: dict[str, dict[str, Any]]
    not_applicable: dict[str, str]
    dependence: dict[str, Interval]
    agreement: dict[str, Interval]
    accuracy: dict[str, Interval]
    robustness: dict[str, dict[str, dict[str, Interval]]]
    completeness_gap: float | None
    rows: list[Row] = field(repr=False)
    split_rows: list[Row] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        found: dict[str, Any] = {"levels": list(LEVELS)} | {key: summary.plain(value) for key, value in vars(self).items()}
        return found


def faithfulness(
    run: Run,
    data: PreparedData,
    split: str = "dev",
    methods: Iterable[str] | None = None,
    limit: int = LIMIT,
    limits: int = LIMITS,
    perturbed: int = PERTURBED,
    beside: Run | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress_file: Path | None = None,
    session: Session | None = None,
    loaded_with: Context | None = None,
) -> Faithfulness:
    """Measure the explanations of a run on questions of a split.

    Args:
        run: The run.
        data: Prepared questions.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        methods: Names of :data:`~mhgrn.faithfulness.methods.METHODS`; all by default.
        limit: Explain at most this many random questions. Dependence and agreement use the whole split.
        limits: Search for the attainable limits of at most this many of them.
        perturbed: Perturb the graphs of at most this many random questions.
        beside: Another run, for example one without a graph, whose accuracy is shown beside.
        seed: Of all random choices.
        device: Where the model computes.
        progress_file: Keep the results of single questions here, and use those of an interrupted measurement.
        session: Where to compute, of :func:`mhgrn.engines.session_of`. None: in this process. ``beside`` is evaluated here.
        loaded_with: With a session: the arguments besides the folder that the run was loaded with. Nodes load it with the same.
    """
    if limit < 1 or limits < 0 or perturbed < 0:
        raise UserError(f"limit is {limit}, limits {limits} and perturbed {perturbed}; they should be at least 1, 0 and 0.")
    encoder = run.model.graph_encoder
    asked = chosen_methods(methods)
    lacking = {method.name: reason for method in asked if (reason := method.lacks(encoder)) is not None}
    usable = [method for method in asked if method.name not in lacking]
    study = Study(run, data, split, device, seed)
    weights = (
        file_fingerprint(run.folder / "model.safetensors") if (run.folder / "model.safetensors").is_file() else str(run.folder)
    )
    store = Store(progress_file, fingerprint(weights, data.fingerprint, split, seed, study.scorer.temperature))
    computing = Computing(study, session, loaded_with or {})
    split_rows = _split_rows(computing, store)
    rows = _explained_rows(computing, usable, store, limit, limits)
    gaps = [store[key] for row in rows if (key := f"gap {row['question']}") in store]
    result = Faithfulness(
        run=str(run.folder),
        split=split,
        questions=len(study.questions),
        explained=len(rows),
        limited=sum("limits" in row for row in rows),
        perturbed=min(perturbed, len(study.questions)),
        seed=seed,
        methods=summary.of_methods(rows, [method.name for method in usable], seed),
        not_applicable=lacking,
        dependence=summary.dependence(split_rows, seed),
        agreement=summary.agreement(split_rows, seed),
        accuracy=_accuracies(study, split_rows, beside),
        robustness=_robustness(computing, store, split_rows, perturbed) if perturbed else {},
        completeness_gap=float(np.mean(gaps)) if gaps else None,
        rows=rows,
        split_rows=split_rows,
    )
    store.remove()
    return result


def _split_rows(computing: Computing, store: Store) -> list[Row]:
    """The dependence on the graph of every question."""
    study = computing.study
    if "split" not in store:
        both = {"with the graph": Alteration(), "without the graph": Alteration("none")}
        scores = dict(computing.scores({name: Scoring(how, study.questions) for name, how in both.items()}))
        full, off = (scores[name] for name in both)
        found = []
        for q, score, rest in zip(study.questions, full, off, strict=True):
            question, answer = study.data.questions[q], int(chosen(score))
            found.append(
                {
                    "question": q,
                    "id": question.id,
                    "right": question.answer,
                    "answer": answer,
                    "probability": float(probabilities(score)[answer]),
                    "without_graph": float(probabilities(rest)[answer]),
                    "answer_without_graph": int(chosen(rest)),
                    "graph_choice": int(chosen(score - rest)),
                }
            )
        store.add_all({"split": found})
    rows: list[Row] = store["split"]
    return rows


def _explained_rows(computing: Computing, methods: Sequence[Method], store: Store, limit: int, limits: int) -> list[Row]:
    """The rows of random questions, with what each method gives."""
    study = computing.study
    sample = study.sample(limit)
    searched = set(np.random.default_rng([study.seed, 1]).permutation(sample)[:limits].tolist())

    def keys(q: int) -> list[str]:
        return [
            f"question {q}",
            *(f"question {q} {method.name}" for method in methods),
            *([f"limits {q}"] if q in searched else []),
        ]

    def batch_of(questions: list[int]) -> Explaining:
        missing = [m.name for m in methods if any(f"question {q} {m.name}" not in store for q in questions)]
        return Explaining(questions, missing, [q for q in questions if q in searched and f"limits {q}" not in store])

    left = [q for q in sample if any(key not in store for key in keys(q))]
    with bar("explaining questions", len(sample)) as advance:
        advance(len(sample) - len(left))
        for batch, found in computing.explained([batch_of(questions) for questions in study.batches(left)]):
            store.add_all({key: value for key, value in found.items() if key not in store})
            advance(len(sample) - len(left) + left.index(batch.questions[-1]) + 1)
    rows = []
    for q in sample:
        of_methods = {method.name: store[f"question {q} {method.name}"] for method in methods}
        row = {**store[f"question {q}"], "methods": {name: found for name, found in of_methods.items() if found is not None}}
        rows.append(row | ({"limits": store[f"limits {q}"]} if q in searched and row["facts"] else {}))
    return rows


def _accuracies(study: Study, rows: Sequence[Row], beside: Run | None) -> dict[str, Interval]:
    right = study.answers
    if None in right:
        return {}
    found = {
        name: interval(np.array([row[key] == row["right"] for row in rows], dtype=float), study.seed)
        for name, key in (("with the graph", "answer"), ("without the graph", "answer_without_graph"))
    }
    if beside is not None:
        others = split_probabilities(Examples(study.data, beside), study.split)
        same = [best_choice(shares) == answer for shares, answer in zip(others, right, strict=True)]
        found[str(beside.folder)] = interval(np.array(same, dtype=float), study.seed)
    return found


def _robustness(
    computing: Computing, store: Store, split_rows: Sequence[Row], count: int
) -> dict[str, dict[str, dict[str, Interval]]]:
    study = computing.study
    sample = study.sample(count)
    place = {row["question"]: row for row in split_rows}
    rows = [place[q] for q in sample]
    answers = [row["answer"] for row in rows]
    keys = {(name, strength): f"{name} {strength} {len(sample)}" for name in PERTURBATIONS for strength in STRENGTHS}
    missing = {key: Scoring(Alteration(*how), sample) for how, key in keys.items() if key not in store}
    for key, scores in computing.scores(missing):
        store.add_all({key: [int(chosen(score)) for score in scores]})
    found: dict[str, dict[str, dict[str, Interval]]] = {}
    for name in PERTURBATIONS:
        found[name] = {"0%": _answered(answers, rows, study.seed)}
        for strength in STRENGTHS:
            found[name][f"{strength:.0%}"] = _answered(store[keys[name, strength]], rows, study.seed)
    off = [row["answer_without_graph"] for row in rows]
    return found | {"without the graph": {"100%": _answered(off, rows, study.seed)}}


def _answered(answers: Sequence[int], rows: Sequence[Row], seed: int) -> dict[str, Interval]:
    """Accuracy, if the right answers are known, and the share of answers that are those of the graph as it is."""
    pairs: dict[str, Floats] = {
        "same": np.array([answer == row["answer"] for answer, row in zip(answers, rows, strict=True)], dtype=float)
    }
    if all(row["right"] is not None for row in rows):
        pairs["accuracy"] = np.array([answer == row["right"] for answer, row in zip(answers, rows, strict=True)], dtype=float)
    return {name: interval(values, seed) for name, values in pairs.items()}
