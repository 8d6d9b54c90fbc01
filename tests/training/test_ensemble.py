"""Runs that answer together."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training.ensemble import choose, ensemble, mean_probabilities
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train

# few distinct values, so that ties are common
several = st.integers(2, 4).flatmap(
    lambda choices: st.lists(
        st.lists(st.integers(0, 4), min_size=choices, max_size=choices).filter(any).map(lambda w: [x / sum(w) for x in w]),
        min_size=1,
        max_size=5,
    )
)


@given(several, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(probabilities: list[list[float]], random: object) -> None:
    shuffled = list(probabilities)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for vote in ("mean", "majority"):
        assert choose(shuffled, vote) == choose(probabilities, vote)


@given(several)
def test_mean_and_majority_by_their_definitions(probabilities: list[list[float]]) -> None:
    choices = range(len(probabilities[0]))
    mean = mean_probabilities(probabilities)
    assert mean == pytest.approx([sum(p[c] for p in probabilities) / len(probabilities) for c in choices])
    by_mean = choose(probabilities, "mean")
    assert all(mean[by_mean] > mean[c] for c in range(by_mean))
    assert all(mean[by_mean] >= mean[c] for c in choices)
    tops = [min(c for c in choices if p[c] == max(p)) for p in probabilities]
    winner = choose(probabilities, "majority")
    most = max(tops.count(c) for c in choices)
    tied = [c for c in choices if tops.count(c) == most]
    assert winner == min(c for c in tied if mean[c] == max(mean[t] for t in tied))


@given(several)
def test_runs_that_agree_answer_as_one_of_them(probabilities: list[list[float]]) -> None:
    one = probabilities[0]
    for vote in ("mean", "majority"):
        assert choose([one] * 3, vote) == one.index(max(one))


@pytest.fixture(scope="module")
def runs(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three systems; one uses neither text nor training."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"features": "random", "training": {"epochs": 1}}
    for name in ("most-edges", "gcn", "none"):
        train(small_data, Config.of({"graph_encoder": name, **settings}), folder / name, starter_graph)
    return [folder / name for name in ("most-edges", "gcn", "none")]


@pytest.mark.parametrize("vote", ["mean", "majority"])
def test_an_ensemble_is_its_members_answers_joined(vote: str, runs: list[Path], small_data: PreparedData, tmp_path: Path) -> None:
    result = ensemble(runs, "test", vote, output=tmp_path / "answers.jsonl")  # type: ignore[arg-type]
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    answerers = [QuestionAnswerer(Run.load(run)) for run in runs]
    right = 0
    for number, row in zip(small_data.split("test"), rows, strict=True):
        question = small_data.questions[number]
        probabilities = [list(a.answer(question).probabilities.values()) for a in answerers]
        assert row["id"] == question.id
        assert list(row["probabilities"].values()) == pytest.approx(mean_probabilities(probabilities), abs=1e-4)
        assert sum(row["votes"].values()) == 3
        right += row["prediction"] == question.label(question.answer or 0)
    assert result.accuracy == right / len(rows)
    assert [m.graph_encoder for m in result.members] == ["most-edges", "gcn", "none"]
    for member, run in zip(result.members, runs, strict=True):
        assert member.accuracy == evaluate(Run.load(run), small_data, "test")["accuracy"]


def test_a_run_is_named_once_and_there_are_two(runs: list[Path]) -> None:
    with pytest.raises(UserError, match="two or more runs"):
        ensemble(runs[:1])
    with pytest.raises(UserError, match="named twice"):
        ensemble([runs[0], runs[1], runs[0]])


def test_other_questions_are_refused(
    runs: list[Path], small_questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    (tmp_path / "fewer").mkdir()
    for split in ("train", "dev", "test"):
        lines = (small_questions / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:5]
        (tmp_path / "fewer" / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    fewer = prepare(tmp_path / "fewer", starter_graph, tmp_path / "data", PrepareOptions(workers=1))
    train(fewer, Config.of({"graph_encoder": "most-edges"}), tmp_path / "run", starter_graph)
    with pytest.raises(UserError, match="different test questions"):
        ensemble([runs[0], tmp_path / "run"])
    # on one set of questions they answer together
    assert ensemble([runs[0], tmp_path / "run"], data=tmp_path / "data").questions == 5
