"""Questions with the paths behind their answers (figure 8), and questions that two runs answer differently."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.answering import Answer, QuestionAnswerer
from mhgrn.data.prepared import PreparedData
from mhgrn.data.questions import Question
from mhgrn.errors import UserError
from mhgrn.experiments.printed import result
from mhgrn.progress import track
from mhgrn.training.ensemble import choose, split_probabilities
from mhgrn.training.examples import Examples
from mhgrn.training.loop import require_same_graph
from mhgrn.training.run import Run, find_data

PAPERS_OWN = {  # CommonsenseQA's ids; the left one's question is not in the paper's text, only in its image
    "92f423de9a556a66c3eb73e9ddf9399a": "figure 1",
    "552137da2eee09ddd745845d797c622e": "figure 8, left (probably)",
    "cb35193dad6b84474a50f63572abf91b": "figure 8, right",
}
RULE = "drawn at random (seed {seed}) among the {split} questions that it answered {how}; none was passed over"


def cases(
    folder: str | Path,
    split: str = "dev",
    count: int = 5,
    seed: int = 0,
    data: str | Path | None = None,
    kg: str | Path | None = None,
) -> dict[str, Any]:
    """Some questions that a run answers rightly, some wrongly, and the paper's own, all with their paths."""
    run, prepared = Run.load(folder, kg), find_data(Path(folder), data)
    require_same_graph(run, prepared)
    numbers = list(prepared.answered_split(split))
    chosen = [choose([p], "mean") for p in split_probabilities(Examples(prepared, run), split)]
    qa = QuestionAnswerer(run)
    order = np.random.default_rng(seed).permutation(len(numbers)).tolist()
    picked: list[tuple[str, int]] = []
    for how, is_right in (("rightly", True), ("wrongly", False)):
        fitting = [i for i in order if (chosen[i] == prepared.questions[numbers[i]].answer) is is_right]
        picked += [(RULE.format(seed=seed, split=split, how=how), numbers[i]) for i in fitting[:count]]
    picked += [(f"the paper's {PAPERS_OWN[q.id]}", n) for n, q in enumerate(prepared.questions) if q.id in PAPERS_OWN]
    found = [_case(qa, prepared, number, why) for why, number in track(picked, "explaining")]
    rows = [[c["why"], c["question"], c["right"], c["answer"], c["paths"][0] if c["paths"] else "–"] for c in found]
    notes = [f"Run {Path(folder).name}: {run.config.graph_encoder}, seed {run.config.seed}."]
    if any(case["split"] == "train" for case in found):
        notes.append("Questions of the training split are marked; a right answer to them says little.")
    columns = ["picked", "question", "right answer", "its answer", "best path"]
    of = {"run": Path(folder).resolve().name, "split": split, "count": count, "seed": seed}
    return result("cases", columns, rows, notes, cases=found, of=of)


def _case(qa: QuestionAnswerer, data: PreparedData, number: int, why: str) -> dict[str, Any]:
    question = data.questions[number]
    split = next(name for name, numbers in data.splits.items() if number in numbers)
    why += " (trained on it)" if split == "train" else ""
    return {"why": why, "split": split, "id": question.id, **_explained(question, qa.answer(question))}


def _explained(question: Question, answer: Answer) -> dict[str, Any]:
    names = list(answer.probabilities)
    right = names[question.answer] if question.answer is not None else "unknown"
    return {
        "question": question.stem,
        "right": right,
        "answer": answer.choice,
        "probabilities": {name: round(p, 6) for name, p in answer.probabilities.items()},
        "paths": [str(path) for path in answer.paths],
        "attention": [round(path.probability, 6) for path in answer.paths],
        "without_graph": answer.without_graph,
        "notes": answer.notes,
        "text": str(answer),
    }


@dataclass(frozen=True)
class Comparison:
    """How two runs answer the same questions."""

    split: str
    questions: int
    right: tuple[int, int] | None  # None: the answers are not known
    flips: list[dict[str, Any]]  # the first ones with what each run says to them
    flipped: int  # in all

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def compare(
    one: str | Path,
    other: str | Path,
    split: str = "dev",
    most: int = 20,
    data: str | Path | None = None,
    kg: str | Path | None = None,
) -> Comparison:
    """The questions of a split that two runs answer differently, the first ``most`` of them explained by both."""
    folders = Path(one), Path(other)
    prepared = [find_data(folder, data) for folder in folders]
    asked = [[p.questions[q] for q in p.split(split)] for p in prepared]
    if [(q.id, q.stem, q.choices) for q in asked[0]] != [(q.id, q.stem, q.choices) for q in asked[1]]:
        raise UserError(f"{one} and {other} were trained on data with other {split} questions; name one with --data.")
    if not asked[0]:
        raise UserError(f"the split {split} of {prepared[0].folder} is empty.")
    runs, chosen = [], []
    for folder, questions in zip(folders, prepared, strict=True):
        run = Run.load(folder, kg)
        require_same_graph(run, questions)
        runs.append(run)
        chosen.append([choose([p], "mean") for p in split_probabilities(Examples(questions, run), split)])
    different = [i for i, (a, b) in enumerate(zip(*chosen, strict=True)) if a != b]
    answerers = [QuestionAnswerer(run) for run in runs] if different else []
    flips = []
    for i in track(different[:most], "explaining"):
        question = asked[0][i]
        both = [_explained(question, qa.answer(question)) for qa in answerers]
        labels = [question.label(of[i]) for of in chosen]
        right = question.label(question.answer) if question.answer is not None else None
        flips.append({"id": question.id, "question": question.stem, "right": right, "chosen": labels, "explanations": both})
    answers = [question.answer for question in asked[0]]
    first, second = (sum(c == answer for c, answer in zip(of, answers, strict=True)) for of in chosen)
    return Comparison(split, len(answers), None if None in answers else (first, second), flips, len(different))
