"""A question answerer with the interface of scikit-learn."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.questions.reading import questions_from
from mhgrn.starter import load
from mhgrn.subgraphs.prepared import prepare
from mhgrn.training.loop import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import NotFittedError
except ImportError:
    raise UserError("this estimator needs scikit-learn; install it with: pip install scikit-learn") from None


class MultipleChoiceClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a model on a graph and questions, and answers others.

    The questions are what :func:`mhgrn.questions_from` takes: dictionaries with ``question`` and ``choices``, a frame, or a
    ``datasets.Dataset``. Questions may have different choices, so ``predict`` returns texts of choices, and ``predict_proba`` one
    array for each question, in the order of its choices.

    Args:
        graph: The graph, or its folder.
        settings: Settings of the run, as nested dictionaries: ``{"mhgrn": {"hops": 3}}``.
        dev_share: The share of the questions that chooses the best epoch; they are not trained on.
        folder: The folder of the run, to keep it. None: a temporary folder, deleted with the estimator.
        batch_size: Questions that are answered together.

    >>> model = MultipleChoiceClassifier("graph", {"training": {"epochs": 10}})  # doctest: +SKIP
    >>> model.fit(questions, answers).score(others, their_answers)  # doctest: +SKIP
    """

    def __init__(
        self,
        graph: KnowledgeGraph | str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        dev_share: float = 0.2,
        folder: str | Path | None = None,
        batch_size: int = 32,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.dev_share = dev_share
        self.folder = folder
        self.batch_size = batch_size

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params(deep=False))  # graphs are shared, not copied

    def fit(self, X: Any, y: Sequence[str]) -> Self:
        """Train.

        Args:
            X: The questions.
            y: The text of the correct choice of each.
        """
        if self.graph is None:
            raise UserError("MultipleChoiceClassifier needs a graph; give graph=KnowledgeGraph or its folder.")
        if not 0 < self.dev_share < 1:
            raise UserError(f"dev_share is {self.dev_share}; it should be between 0 and 1.")
        questions = _answered(list(questions_from(X)), list(y))
        dev = max(1, round(self.dev_share * len(questions)))
        if len(questions) - dev < 1:
            raise UserError(f"there are {len(questions)} questions; at least two are needed, one of them to choose the epoch.")
        order = np.random.default_rng(0).permutation(len(questions))
        parts = {"dev": [questions[i] for i in order[:dev]], "train": [questions[i] for i in order[dev:]]}
        place = Path(tempfile.mkdtemp(prefix="mhgrn-")) if self.folder is None else Path(self.folder)
        if self.folder is None:
            self._delete = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        graph = KnowledgeGraph.load(self.graph) if isinstance(self.graph, str | Path) else self.graph
        if graph.folder is None:
            graph.save(place / "graph")
        data = prepare(parts, graph, place / "prepared")
        train(data, self.settings or {}, place / "run", graph, force=True)
        self.answerer_ = load(place / "run")
        self.classes_ = np.unique(np.array([question.choices[question.answer or 0] for question in questions], dtype=object))
        return self

    def predict(self, X: Any) -> NDArray[np.object_]:
        """The text of the best choice of each question."""
        return np.array([answer.choice for answer in self._answers(X)], dtype=object)

    def predict_proba(self, X: Any) -> list[NDArray[np.float64]]:
        """The probabilities of the choices of each question, in their order."""
        return [np.array(list(answer.probabilities.values())) for answer in self._answers(X)]

    def _answers(self, X: Any) -> list[Any]:
        if not hasattr(self, "answerer_"):
            raise NotFittedError("This MultipleChoiceClassifier is not fitted yet. Call fit with questions and answers first.")
        return list(self.answerer_.ask_many(X, batch_size=self.batch_size, paths=1, effects=False))


def _answered(questions: list[Question], answers: list[str]) -> list[Question]:
    """The questions with these answers."""
    if len(questions) != len(answers):
        raise UserError(f"there are {len(questions)} questions and {len(answers)} answers.")
    done = []
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True), start=1):
        if answer not in question.choices:
            raise UserError(f"question {number}: the answer {str(answer)[:60]!r} is none of its choices.")
        done.append(replace(question, id=str(number), answer=question.choices.index(answer)))
    return done
