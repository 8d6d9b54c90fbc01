"""Summaries of experiments: means, standard deviations, and paired differences with confidence intervals."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.io.markers import read_marker
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.budget import Plan
from mhgrn_reproduction.cells import made
from mhgrn_reproduction.experiment_setup import PAPER_SEEDS, Setup
from mhgrn_reproduction.formats import Summary, check
from mhgrn_reproduction.papers import System

FORMAT = 1
SUMMARY = "summary.json"
RESAMPLES, BLOCK = 10_000, 500
LEVEL = 0.95


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (None for a single run), and the values.

    >>> spread([0.5, 0.7])
    {'mean': 0.6, 'std': 0.141421, 'runs': [0.5, 0.7]}
    """
    runs = [round(float(value), 6) for value in values]
    std = round(float(np.std(values, ddof=1)), 6) if len(runs) > 1 else None
    return {"mean": round(float(np.mean(values)), 6), "std": std, "runs": runs}


def paired_difference(ours: NDArray[np.bool_], theirs: NDArray[np.bool_], resamples: int = RESAMPLES) -> dict[str, float]:
    """The difference of two accuracies on the same questions, with a bootstrap confidence interval over questions.

    Seeds are averaged first, so the interval covers the choice of questions, not of seeds.

    Args:
        ours: Whether each answer is right, [seeds, questions].
        theirs: The same for the other system.
        resamples: The number of bootstrap samples.
    """
    gain = ours.mean(0) - theirs.mean(0)
    means = np.concatenate([drawn @ gain / len(gain) for drawn in _draws(len(gain), resamples // BLOCK)])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"mean": round(float(gain.mean()), 6), "low": round(float(low), 6), "high": round(float(high), 6)}


@lru_cache(maxsize=4)
def _draws(n: int, blocks: int) -> list[NDArray[np.int16]]:
    """How often each of n questions is drawn, in blocks of resamples; the same for all differences."""
    rng = np.random.default_rng(0)
    return [rng.multinomial(n, np.full(n, 1 / n), size=BLOCK).astype(np.int16) for _ in range(blocks)]


def right_answers(result: dict[str, Any], split: str) -> NDArray[np.bool_]:
    """Whether a cell answered each question of a split correctly."""
    right: NDArray[np.bool_] = np.frombuffer(result["splits"][split]["right"].encode("ascii"), dtype=np.uint8) == ord("1")
    return right


def summarize(cells: dict[str, list[dict[str, Any]]], splits: Sequence[str], reference: str | None) -> dict[str, Any]:
    """For each system its accuracies on each split, and its difference from the reference with the same seeds."""
    systems: dict[str, Any] = {}
    for system, results in cells.items():
        entry: dict[str, Any] = {"seeds": [result["seed"] for result in results]}
        for split in splits:
            entry[split] = spread([result["splits"][split]["accuracy"] for result in results])
        if reference in cells and system != reference:
            entry["difference"] = {
                split: found for split in splits if (found := _difference(results, cells[reference], split)) is not None
            }
        if warnings := [f"seed {result['seed']}: {warning}" for result in results for warning in result.get("warnings", [])]:
            entry["warnings"] = warnings
        entry["parameters"] = results[0]["parameters"]
        entry["epochs"] = [result["epochs"] for result in results]
        entry["seconds"] = round(sum(result["seconds"] for result in results), 1)
        systems[system] = entry
    return systems


def _difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], split: str) -> dict[str, float] | None:
    mine, other = ({result["seed"]: result for result in results} for results in (ours, theirs))
    if any(result.get("measure") for result in (*ours, *theirs)):  # one result stands for all seeds
        if ours[0]["splits"][split]["ids"] != theirs[0]["splits"][split]["ids"]:
            return None
        all_seeds = [np.stack([right_answers(result, split) for result in results]) for results in (ours, theirs)]
        return paired_difference(all_seeds[0], all_seeds[1])
    seeds = sorted(mine.keys() & other.keys())
    if not seeds or mine[seeds[0]]["splits"][split]["ids"] != other[seeds[0]]["splits"][split]["ids"]:
        return None
    rights = [np.stack([right_answers(of[seed], split) for seed in seeds]) for of in (mine, other)]
    return paired_difference(rights[0], rights[1])


def read_summary(folder: Path) -> dict[str, Any]:
    """Read and check ``summary.json`` of a folder of results."""
    found = read_marker(folder, SUMMARY, "summary", FORMAT)
    check(found, Summary, folder / SUMMARY)
    return found


def build_summary(setup: Setup, plan: Plan, estimate: float | None) -> dict[str, Any]:
    """The summary of all finished runs of an experiment with the same settings, from this call and earlier ones."""
    request, experiment = setup.request, setup.experiment
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, _ in setup.found(plan):
        if (result := cell.result(request.folder)) is not None:
            found.setdefault(cell.system, []).append(result)
    data = {name: _about(prepared) for name, prepared in setup.data.items()}
    return {
        "format": FORMAT,
        "experiment": experiment.name,
        "encoder": setup.encoder,
        "encoder_label": setup.text.label,
        **_made(found),
        "splits": experiment.splits,
        "reference": experiment.reference,
        "shrunk": _shrunk(setup, plan, found),
        **({"budget": request.budget, "estimated_seconds": estimate} if request.budget is not None else {}),
        "changes": request.changes,
        "notes": setup.notes,
        "data": data,
        "labels": {name: _label(system) for name, system in experiment.systems.items()},
        "paper": {name: system.paper for name, system in experiment.systems.items() if system.paper},
        "quoted": [{"label": row.label, "paper": row.paper} for row in experiment.quoted]
        + [{"system": name} for name, system in experiment.systems.items() if system.quoted],
        "vary": {
            name: {"system": s.base, "value": s.value, "what": s.varies}
            for name, s in experiment.systems.items()
            if s.base is not None
        },
        "settings": {name: experiment.overrides(name, setup.encoder, setup.text) for name in found},
        "systems": summarize(found, experiment.splits, experiment.reference),
    }


def _made(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The date of the last run, and the commits of all."""
    results = [result for of_system in found.values() for result in of_system]
    if not results:
        return made()
    last = max(results, key=lambda result: str(result["date"]))
    commits = sorted({result["commit"] for result in results if result["commit"]})
    return {"date": last["date"], "commit": ", ".join(commits) or None, "versions": last["versions"]}


def _label(system: System) -> str:
    return f"{system.label} (upper bound)" if system.upper_bound else system.label


def _about(data: PreparedData) -> dict[str, Any]:
    return {key: data.about[key] for key in ("splits", "statements", "settings", "fingerprint", "graph_fingerprint")}


def _shrunk(setup: Setup, plan: Plan, found: dict[str, Any]) -> list[str]:
    """The differences from the whole experiment."""
    request, experiment = setup.request, setup.experiment
    lines = []
    trained = {name: results for name, results in found.items() if experiment.systems[name].measure is None}
    few = {name: len(results) for name, results in trained.items() if len(results) < PAPER_SEEDS}
    if few and len(few) == len(trained) and len(set(few.values())) == 1:
        lines.append(f"seeds: {min(few.values())} instead of {PAPER_SEEDS}")
    elif few:
        lines.append(f"seeds: {', '.join(f'{count} of {name}' for name, count in few.items())} instead of {PAPER_SEEDS}")
    if plan.seeds < request.seeds and request.seeds > PAPER_SEEDS:
        lines.append(f"seeds: {plan.seeds} of the requested {request.seeds}")
    configs = [experiment.config(name, setup.encoder, setup.text, 0, request.changes) for name in experiment.systems]
    epochs = max(config.training.epochs for config in configs)
    if plan.epochs is not None and plan.epochs < epochs:
        lines.append(f"epochs: at most {plan.epochs} instead of {epochs}")
    if plan.share < 1:
        lines.append(f"training questions: {plan.share:.0%} of them")
    lines += [f"setting changed: {change}" for change in request.changes]
    wanted = [name for name, system in experiment.systems.items() if not system.optional]
    if missing := [name for name in wanted if name not in found]:
        lines.append(f"systems not run: {', '.join(missing)}")
    return lines
