"""Questions with the paths behind their answers (figure 8), and questions that two runs answer differently."""

from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.comparison import explanation
from mhgrn.inference import QuestionAnswerer
from mhgrn.progress import track
from mhgrn.runs import Run, find_data
from mhgrn.scoring import best_choice
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.evaluation import require_same_graph, split_probabilities
from mhgrn.training.examples import Examples
from mhgrn_reproduction.printed import result

PAPERS_OWN = {  # CommonsenseQA's ids; the left one's question is not in the paper's text, only in its image
    "92f423de9a556a66c3eb73e9ddf9399a": "figure 1",
    "552137da2eee09ddd745845d797c622e": "figure 8, left (probably)",
    "cb35193dad6b84474a50f63572abf91b": "figure 8, right",
}
RULE = "random sample (seed {seed}) of the {split} questions that it answered {how}"


def cases(
    folder: str | Path,
    split: str = "dev",
    count: int = 5,
    seed: int = 0,
    data: str | Path | None = None,
    kg: str | Path | None = None,
) -> dict[str, Any]:
    """Questions that a run answers correctly, ones that it does not, and the paper's examples, all with their paths."""
    run, prepared = Run.load(folder, kg), find_data(Path(folder), data)
    require_same_graph(run, prepared)
    numbers = list(prepared.answered_split(split))
    chosen = [best_choice(p) for p in split_probabilities(Examples(prepared, run), split)]
    qa = QuestionAnswerer(run)
    order = np.random.default_rng(seed).permutation(len(numbers)).tolist()
    picked: list[tuple[str, int]] = []
    for how, is_right in (("correctly", True), ("wrongly", False)):
        fitting = [i for i in order if (chosen[i] == prepared.questions[numbers[i]].answer) is is_right]
        picked += [(RULE.format(seed=seed, split=split, how=how), numbers[i]) for i in fitting[:count]]
    picked += [(f"the paper's {PAPERS_OWN[q.id]}", n) for n, q in enumerate(prepared.questions) if q.id in PAPERS_OWN]
    found = [_case(qa, prepared, number, why) for why, number in track(picked, "explaining")]
    rows = [[c["why"], c["question"], c["right"], c["answer"], c["paths"][0] if c["paths"] else "–"] for c in found]
    notes = [f"Run {Path(folder).name}: {run.config.graph_encoder}, seed {run.config.seed}."]
    if any(case["split"] == "train" for case in found):
        notes.append("Questions of the training split are marked; the run was trained on their answers.")
    columns = ["picked", "question", "right answer", "its answer", "best path"]
    of = {"run": Path(folder).resolve().name, "split": split, "count": count, "seed": seed}
    return result("cases", columns, rows, notes, cases=found, of=of)


def _case(qa: QuestionAnswerer, data: PreparedData, number: int, why: str) -> dict[str, Any]:
    question = data.questions[number]
    split = next(name for name, numbers in data.splits.items() if number in numbers)
    why += " (trained on it)" if split == "train" else ""
    return {"why": why, "split": split, "id": question.id, **explanation(question, qa.answer(question))}
