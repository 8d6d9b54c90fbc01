"""Compare two runs: the questions that they answer differently."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.inference import Answer, QuestionAnswerer
from mhgrn.io.remote import local_folder
from mhgrn.questions.question import Question
from mhgrn.runs import Run, find_data
from mhgrn.scoring import best_choice
from mhgrn.training.evaluation import require_same_graph, split_probabilities
from mhgrn.training.examples import Examples


@dataclass(frozen=True)
class Comparison:
    """How two runs answer the same questions.

    >>> Comparison("dev", questions=100, right=(61, 64), flips=[], flipped=12).to_dict()["flipped"]
    12
    """

    split: str
    questions: int
    right: tuple[int, int] | None  # right answers of each run; None if the right answers are not known
    flips: list[dict[str, Any]]  # the explained questions
    flipped: int  # questions that are answered differently

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return dict(vars(self))


def compare(
    one: str | Path,
    other: str | Path,
    split: str = "dev",
    most: int = 20,
    data: str | Path | None = None,
    kg: str | Path | None = None,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> Comparison:
    """Find the questions of a split that two runs answer differently.

    Args:
        one: The folder of a run.
        other: The folder of another run, trained on the same questions.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        most: Largest number of questions to explain; the others are counted.
        data: Prepared data. By default the data that each run was trained on.
        kg: The runs' graph, if it has moved, or another graph of the same schema.
        encoder: The text encoder of both runs, if it has moved: a folder or a hub name.
        allow_download: Download a text encoder that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.

    >>> compare("run", "other-run").flipped  # doctest: +SKIP
    12
    """
    folders = local_folder(one), local_folder(other)
    prepared = [find_data(folder, data) for folder in folders]
    asked = [[p.questions[q] for q in p.split(split)] for p in prepared]
    if [(q.id, q.stem, q.choices) for q in asked[0]] != [(q.id, q.stem, q.choices) for q in asked[1]]:
        raise UserError(f"{one} and {other} were trained on different {split} questions; name one dataset with --data.")
    if not asked[0]:
        raise UserError(f"the split {split} of {prepared[0].folder} is empty.")
    runs, chosen = [], []
    for folder, questions in zip(folders, prepared, strict=True):
        run = Run.load(folder, kg, None, encoder, allow_download, allow_pickle)
        require_same_graph(run, questions)
        runs.append(run)
        examples = Examples(questions, run)
        chosen.append([best_choice(p, examples.scorer.temperature) for p in split_probabilities(examples, split)])
    different = [i for i, (a, b) in enumerate(zip(*chosen, strict=True)) if a != b]
    explained = [asked[0][i] for i in different[:most]]
    answers = [list(QuestionAnswerer(run).ask_many(explained)) if explained else [] for run in runs]
    flips = []
    for i, question, *both in zip(different, explained, *answers, strict=False):
        flips.append(
            {
                "id": question.id,
                "question": question.stem,
                "right": question.label(question.answer) if question.answer is not None else None,
                "chosen": [question.label(of[i]) for of in chosen],
                "explanations": [explanation(question, answer) for answer in both],
            }
        )
    known = [question.answer for question in asked[0]]
    first, second = (sum(c == answer for c, answer in zip(of, known, strict=True)) for of in chosen)
    return Comparison(split, len(known), None if None in known else (first, second), flips, len(different))


def explanation(question: Question, answer: Answer) -> dict[str, Any]:
    """An answer as JSON values, beside the right answer."""
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
