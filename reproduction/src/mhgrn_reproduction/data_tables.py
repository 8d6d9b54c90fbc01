"""Table 8 and figure 2: the sizes of splits, and the number of paths."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.questions.reading import check_questions
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.printed import result, yes
from mhgrn_reproduction.sources import Sources

PAPER_SPLITS = {
    "commonsenseqa": (9741, 1221, 1140),
    "commonsenseqa-inhouse": (8500, 1221, 1241),
    "openbookqa": (4957, 500, 500),
}


def splits(sources: Sources) -> dict[str, Any]:
    """Table 8: the number of questions in each split."""
    rows = []
    for name, paper in PAPER_SPLITS.items():
        checked = check_questions(sources.questions(name), name)
        if checked.problems:
            raise UserError(checked.problems[0])
        counts = [checked.splits[split].questions for split in ("train", "dev", "test")]
        answered = all(found.answered == found.questions for found in checked.splits.values())
        rows.append(
            [name, *(f"{n:,}" for n in counts), yes(answered), " / ".join(f"{n:,}" for n in paper), yes(tuple(counts) == paper)]
        )
    columns = ["dataset", "train", "dev", "test", "all answered", "paper", "the same"]
    return result("splits", columns, rows)


def path_counts(data: PreparedData, hops: int = 5) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """Figure 2: numbers of walks by hops and by nodes, and a function that draws them."""
    from mhgrn.drawing.path_counts import draw_report
    from mhgrn.subgraphs.report import HOW, exponent, report

    found = report(data, hops)
    paths = found.to_dict()["paths"]
    rows = []
    for k in range(hops):
        between, every = (paths[name]["by_hops"][str(k + 1)] for name in ("question_to_answer", "all"))
        power = exponent(found.nodes, found.walks[:, 0, k])
        shown = [f"{between['mean']:,}", f"{between['median']:,}", f"{between['max']:,}", f"{every['mean']:,}"]
        rows.append([str(k + 1), *shown, f"n^{power:.2f}" if power is not None else "–"])
    columns = ["hops", "question to answer, mean", "median", "most", "between any nodes, mean", "question to answer, by nodes n"]
    about = f"{len(data.questions):,} questions of {data.about['dataset']}, {len(found.nodes):,} statements."
    notes = [about, HOW, "The paper shows this figure without numbers."]
    table = result("path-counts", columns, rows, notes, of={"data set": data.about["dataset"], "hops": hops})
    return table, partial(draw_report, found)
