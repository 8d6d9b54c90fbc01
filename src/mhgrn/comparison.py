"""Compare two runs: the questions that they answer differently."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.inference import Answer, QuestionAnswerer
from mhgrn.progress import track
from mhgrn.questions.question import Question
from mhgrn.runs import Run, find_data
from mhgrn.training.ensemble import choose, split_probabilities
from mhgrn.training.examples import Examples
from mhgrn.training.loop import require_same_graph


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
        both = [explained(question, qa.answer(question)) for qa in answerers]
        labels = [question.label(of[i]) for of in chosen]
        right = question.label(question.answer) if question.answer is not None else None
        flips.append({"id": question.id, "question": question.stem, "right": right, "chosen": labels, "explanations": both})
    answers = [question.answer for question in asked[0]]
    first, second = (sum(c == answer for c, answer in zip(of, answers, strict=True)) for of in chosen)
    return Comparison(split, len(answers), None if None in answers else (first, second), flips, len(different))


def explained(question: Question, answer: Answer) -> dict[str, Any]:
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
