"""A measurement as text: one short table per question that it answers."""

from collections.abc import Sequence

from mhgrn.faithfulness.bootstrap import Interval
from mhgrn.faithfulness.faithfulness import Faithfulness
from mhgrn.faithfulness.metrics import LEVELS
from mhgrn.faithfulness.robustness import STRENGTHS

AT = "5"  # the level of the first table


def report(found: Faithfulness) -> str:
    """The tables of a measurement."""
    parts = [_head(found), _dependence(found)]
    if found.methods:
        parts += [_fidelity(found), _areas(found), _shown(found), _agreement(found)]
    if found.not_applicable:
        parts.append("\n".join(f"not applicable: {name} ({reason})" for name, reason in found.not_applicable.items()))
    if found.robustness:
        parts.append(_robustness(found))
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first one aligned to the left.

    >>> print(table(["method", "x"], [["attention", "1"], ["effect", "22"]]))
    method      x
    attention   1
    effect     22
    """
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in text)


def number(value: Interval) -> str:
    return "-" if value.value != value.value else str(value)


def _head(found: Faithfulness) -> str:
    accuracy = [f"accuracy {name}: {value.percent()}" for name, value in found.accuracy.items()]
    counts = f"{found.questions:,} questions, {found.explained:,} of them explained, limits searched for {found.limited:,}"
    return "\n".join([f"{found.run}, {found.split}: {counts}; seed {found.seed}; [95 % bootstrap intervals]", *accuracy])


def _dependence(found: Faithfulness) -> str:
    names = {
        "flips": "the answer changes",
        "moves": "its probability moves by more than 0.1",
        "depends": "one of both: the answer depends on the graph",
    }
    agreement = {"graph": "what the graph adds to the scores", "text": "the model without the graph"}
    return "\n".join(
        [
            "Without the graph:",
            *(f"  {text}: {found.dependence[name].percent()}" for name, text in names.items()),
            "The same choice as the whole model:",
            *(f"  {text}: {found.agreement[name].percent()}" for name, text in agreement.items()),
        ]
    )


def _fidelity(found: Faithfulness) -> str:
    keys = ("fidelity_plus", "fidelity_minus", "characterization", "unfaithfulness")
    at = LEVELS.index(AT)
    rows = [[name, *(number(of[key][at]) for key in keys)] for name, of in found.methods.items()]
    return f"First {AT} facts:\n" + table(["method", "fidelity+", "fidelity-", "characterization", "unfaithfulness"], rows)


def _areas(found: Faithfulness) -> str:
    parts = []
    for key, what in (("sizes", "1, 2, 3, 5 and 10 facts"), ("shares", "1, 5, 10, 20 and 50 % of the facts")):
        rows = []
        for name, of in found.methods.items():
            cells = [
                of["aopc"][metric][column]
                for metric in ("comprehensiveness", "sufficiency")
                for column in (key, f"{key}_normalized")
            ]
            rows.append([name, *map(number, cells)])
        head = ["method", "comprehensiveness", "normalized", "sufficiency", "normalized"]
        parts.append(f"Area over the perturbation curve, {what}:\n" + table(head, rows))
    return "\n\n".join(parts)


def _shown(found: Faithfulness) -> str:
    rows = [
        [name, *(of["shown"][key].percent() for key in ("sufficient", "necessary", "both"))] for name, of in found.methods.items()
    ]
    what = "Shown facts (at most 6), where the answer depends on the graph:\n"
    return what + table(["method", "sufficient", "necessary", "both"], rows)


def _agreement(found: Faithfulness) -> str:
    places = [place for place, level in enumerate(LEVELS) if "%" in level]
    rows = [[name, *(f"{100 * of['graph_agrees'][place].value:.1f} %" for place in places)] for name, of in found.methods.items()]
    head = ["method", *(LEVELS[place] for place in places)]
    return "Answers that are the graph's own choice if only the first facts are kept:\n" + table(head, rows)


def _robustness(found: Faithfulness) -> str:
    strengths = ["0%", *(f"{strength:.0%}" for strength in STRENGTHS)]
    kind = "accuracy" if found.accuracy else "same"
    rows = [
        [name, *(of[strength][kind].percent() if strength in of else "" for strength in strengths)]
        for name, of in found.robustness.items()
    ]
    what = "Accuracy" if kind == "accuracy" else "Unchanged answers"
    return f"{what} if facts of the graph are changed ({found.perturbed:,} questions):\n" + table(
        ["perturbation", *strengths], rows
    )
