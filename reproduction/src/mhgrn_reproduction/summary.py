"""From cells to a summary: means, deviations, and paired differences with an interval."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.io.markers import read_marker
from mhgrn_reproduction.formats import Summary, check

FORMAT = 1
SUMMARY = "summary.json"
RESAMPLES, BLOCK = 10_000, 500
LEVEL = 0.95


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, sample standard deviation (null of a single run), and the runs themselves.

    >>> spread([0.5, 0.7])
    {'mean': 0.6, 'std': 0.141421, 'runs': [0.5, 0.7]}
    """
    runs = [round(float(value), 6) for value in values]
    std = round(float(np.std(values, ddof=1)), 6) if len(runs) > 1 else None
    return {"mean": round(float(np.mean(values)), 6), "std": std, "runs": runs}


def paired_difference(ours: NDArray[np.bool_], theirs: NDArray[np.bool_], resamples: int = RESAMPLES) -> dict[str, float]:
    """How much oftener ``ours`` is right than ``theirs``, [seeds, questions] each, on the same questions.

    The interval is the bootstrap's over questions (percentiles; seeds are averaged first), so it says what other questions of
    the same kind would do, not what other seeds would.
    """
    gain = ours.mean(0) - theirs.mean(0)
    means = np.concatenate([drawn @ gain / len(gain) for drawn in _draws(len(gain), resamples // BLOCK)])
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"mean": round(float(gain.mean()), 6), "low": round(float(low), 6), "high": round(float(high), 6)}


@lru_cache(maxsize=4)
def _draws(n: int, blocks: int) -> list[NDArray[np.int16]]:
    """How often each of n questions is drawn, a block of resamples at a time; the same for all differences."""
    rng = np.random.default_rng(0)
    return [rng.multinomial(n, np.full(n, 1 / n), size=BLOCK).astype(np.int16) for _ in range(blocks)]


def right_answers(result: dict[str, Any], split: str) -> NDArray[np.bool_]:
    """Which of a split's questions a cell answered rightly."""
    right: NDArray[np.bool_] = np.frombuffer(result["splits"][split]["right"].encode("ascii"), dtype=np.uint8) == ord("1")
    return right


def summarise(cells: dict[str, list[dict[str, Any]]], splits: Sequence[str], reference: str | None) -> dict[str, Any]:
    """By system: each split's accuracies, and where a reference was run with the same seeds the difference from it."""
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
    seeds = sorted(mine.keys() & other.keys())
    if not seeds or mine[seeds[0]]["splits"][split]["ids"] != other[seeds[0]]["splits"][split]["ids"]:
        return None
    rights = [np.stack([right_answers(of[seed], split) for seed in seeds]) for of in (mine, other)]
    return paired_difference(rights[0], rights[1])


def read_summary(folder: Path) -> dict[str, Any]:
    """``summary.json`` of a folder of results, checked."""
    found = read_marker(folder, SUMMARY, "summary", FORMAT)
    check(found, Summary, folder / SUMMARY)
    return found
