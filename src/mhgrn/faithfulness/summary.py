"""Numbers over questions, with bootstrap intervals, from the rows of single questions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mhgrn.explain.judge import MOVED
from mhgrn.explain.smallest_set import MOST_FACTS
from mhgrn.faithfulness.bootstrap import Interval, interval
from mhgrn.faithfulness.measuring import Row, depends
from mhgrn.faithfulness.metrics import LEVELS, SIZES, Floats, aopc, characterization, normalized

FALLS = {"comprehensiveness": "removed", "sufficiency": "kept"}  # metric → the facts are removed or kept
RANGES = {"sizes": slice(0, len(SIZES)), "shares": slice(len(SIZES), len(LEVELS))}


def dependence(rows: Sequence[Row], seed: int) -> dict[str, Interval]:
    """How often the answer depends on the graph, over questions."""
    flips = np.array([row["answer"] != row["answer_without_graph"] for row in rows], dtype=float)
    moved = np.array([abs(row["probability"] - row["without_graph"]) for row in rows])
    return {
        "flips": interval(flips, seed),
        "moves": interval((moved > MOVED).astype(float), seed),
        "depends": interval(np.array([depends(row) for row in rows], dtype=float), seed),
        "mean_move": interval(moved, seed),
    }


def agreement(rows: Sequence[Row], seed: int) -> dict[str, Interval]:
    """How often the graph's and the text's own choice are the answer of the whole model."""
    own = {"graph": "graph_choice", "text": "answer_without_graph"}
    return {part: interval(np.array([row[key] == row["answer"] for row in rows], dtype=float), seed) for part, key in own.items()}


def of_methods(rows: Sequence[Row], names: Sequence[str], seed: int) -> dict[str, dict[str, Any]]:
    """The metrics of each method: lists over ``LEVELS``, areas, and the shown facts."""
    limits = [_widest(row) for row in rows]
    return {name: _of_method(rows, limits, name, seed) for name in names}


def _widest(row: Row) -> Row | None:
    """The limits of a question, extended by what the methods reach."""
    if "limits" not in row:
        return None
    found: Row = {}
    for kind, limits in row["limits"].items():
        falls = [row["probability"] - np.array(of[kind]) for of in row["methods"].values()]
        found[kind] = {}
        for key, levels in RANGES.items():
            areas = [float(aopc(fall[levels])) for fall in falls] + (limits[key] or [])
            found[kind][key] = [min(areas), max(areas)]
    return found


def shown_size(row: Row) -> int:
    """The number of facts that every method shows of a question: those of a method that decides it, otherwise the most."""
    sizes = [of["size"] for of in row["methods"].values() if of.get("size")]
    return int(min(min(sizes, default=MOST_FACTS), row["facts"]))


def _shown(row: Row, name: str) -> dict[str, bool]:
    """Whether the facts that a method shows are sufficient and necessary. A method that finds none shows nothing."""
    of, place = row["methods"][name], shown_size(row) - 1
    found = {key: bool(of[key][place]) and of.get("size") != 0 for key in ("sufficient", "necessary")}
    return found | {"both": all(found.values())}


def _of_method(rows: Sequence[Row], all_limits: Sequence[Row | None], name: str, seed: int) -> dict[str, Any]:
    mine = [row for row in rows if name in row["methods"]]
    limits = [limit for row, limit in zip(rows, all_limits, strict=True) if name in row["methods"]]
    found = {key: np.array([row["methods"][name][key] for row in mine], dtype=float) for key in _MEASURED}
    full = np.array([row["probability"] for row in mine])[:, None]
    falls = {metric: full - found[key] for metric, key in FALLS.items()}
    flips = np.stack([found["removed_flips"], found["kept_flips"]], axis=2) if mine else np.zeros((0, len(LEVELS), 2))
    shown = [_shown(row, name) for row in mine if depends(row)]
    return {
        "fidelity_plus": _by_level(found["removed_flips"], seed),
        "fidelity_minus": _by_level(found["kept_flips"], seed),
        "characterization": [interval(flips[:, level], seed, _characterization) for level in range(len(LEVELS))],
        "unfaithfulness": _by_level(found["unfaithfulness"], seed),
        **{metric: _by_level(fall, seed) for metric, fall in falls.items()},
        "graph_agrees": _by_level(found["graph_agrees"], seed),
        "aopc": {metric: _areas(limits, fall, FALLS[metric], seed) for metric, fall in falls.items()},
        "shown": {
            key: interval(np.array([one[key] for one in shown], dtype=float), seed) for key in ("sufficient", "necessary", "both")
        },
    }


_MEASURED = ("removed", "kept", "removed_flips", "kept_flips", "unfaithfulness", "graph_agrees")


def _characterization(means: Floats) -> Floats:
    return characterization(means[..., 0], means[..., 1])


def _by_level(values: Floats, seed: int) -> list[Interval]:
    """An interval for each column of [questions, levels]."""
    return [interval(values[:, level] if len(values) else np.zeros(0), seed) for level in range(len(LEVELS))]


def _areas(all_limits: Sequence[Row | None], fall: Floats, kind: str, seed: int) -> dict[str, Interval]:
    """The area over the perturbation curve: raw over all questions, normalized over those whose limits were searched."""
    found: dict[str, Interval] = {}
    for key, levels in RANGES.items():
        area = aopc(fall[:, levels]) if len(fall) else np.zeros(0)
        pairs = [[np.nan] * 2 if limits is None else limits[kind][key] for limits in all_limits]
        ends = np.array(pairs, dtype=float).reshape(-1, 2)
        found[key] = interval(area, seed)
        found[f"{key}_normalized"] = interval(normalized(area, ends[:, 0], ends[:, 1]), seed)
    return found


def plain(value: Any) -> Any:
    """Nested results as JSON values."""
    if isinstance(value, Interval):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
