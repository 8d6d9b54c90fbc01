"""The estimator: scikit-learn's conventions, its own checks where inputs need not be numbers, and real training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils import estimator_checks

from mhgrn.errors import UserError
from mhgrn.integrations.scikit_learn import MultipleChoiceClassifier
from mhgrn.kg import KnowledgeGraph

PLACES = {
    "keeper": "lighthouse",
    "captain": "ferry",
    "teacher": "classroom",
    "cook": "kitchen",
    "nurse": "hospital",
    "miner": "mine",
}
SETTINGS = {"training": {"epochs": 2, "threads": 1}, "features": "random"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    made = KnowledgeGraph.from_facts([(person, "works in", place) for person, place in PLACES.items()])
    made.save(tmp_path_factory.mktemp("estimator") / "graph")
    return made


def rows() -> tuple[list[dict[str, Any]], list[str]]:
    places = list(PLACES.values())
    made = [{"question": f"Where does a {p} work?", "choices": [places[i - 1], places[i]]} for i, p in enumerate(PLACES)]
    return made, places


@pytest.mark.parametrize(
    "check", ["get_params_invariance", "set_params", "no_attributes_set_in_init", "parameters_default_constructible"]
)
def test_checks_of_scikit_learn(check: str) -> None:
    getattr(estimator_checks, f"check_{check}")("MultipleChoiceClassifier", MultipleChoiceClassifier())


def test_it_trains_predicts_and_scores(graph: KnowledgeGraph, tmp_path: Path) -> None:
    questions, answers = rows()
    model = MultipleChoiceClassifier(graph, SETTINGS, folder=tmp_path / "kept")
    assert model.fit(questions, answers) is model
    odds, best = model.predict_proba(questions), model.predict(questions)
    for question, probabilities, choice in zip(questions, odds, best, strict=True):
        assert probabilities.sum() == pytest.approx(1)
        assert question["choices"][int(np.argmax(probabilities))] == choice
    assert model.score(questions, answers) == np.mean(best == np.array(answers, dtype=object))
    assert (tmp_path / "kept" / "run" / "run.json").is_file()
    again = clone(model).set_params(folder=None).fit(questions, answers)
    assert np.allclose(np.concatenate(again.predict_proba(questions)), np.concatenate(odds))
    assert len(cross_val_score(clone(again), questions, answers, cv=KFold(2))) == 2


def test_wrong_inputs_are_named(graph: KnowledgeGraph) -> None:
    questions, answers = rows()
    with pytest.raises(NotFittedError):
        MultipleChoiceClassifier(graph).predict(questions)
    for wrong, message in (
        (dict(y=answers[1:]), "6 questions and 5 answers"),
        (dict(y=["sea", *answers[1:]]), "question 1: the answer 'sea'"),
        (dict(X=questions[:1], y=answers[:1]), "at least two"),
    ):
        with pytest.raises(UserError, match=message):
            MultipleChoiceClassifier(graph, SETTINGS).fit(**{"X": questions, "y": answers, **wrong})
    with pytest.raises(UserError, match="needs a graph"):
        MultipleChoiceClassifier().fit(questions, answers)
