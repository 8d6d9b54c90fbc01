"""The calibration of the built-in model on questions that it was not calibrated on."""

import math
from pathlib import Path

import pytest

import mhgrn
from mhgrn.calibration import CALIBRATION, measure
from mhgrn.cli.calibrate import calibrate
from mhgrn.questions.reading import read_questions
from mhgrn.starter import EVERYDAY_DEV, HERE, RUN, SURE, starter_run


def test_test_questions_confirm_the_calibration() -> None:
    """Half of them have close wrong choices, as in dev. The bounds are three standard deviations of both samples."""
    close = list(read_questions(HERE / "everyday-close.jsonl"))[:100]
    questions = [*read_questions(HERE / "everyday.jsonl"), *close]
    qa = mhgrn.load()
    stored = qa.run.calibration
    assert stored is not None
    assert (stored.questions, stored.source) == (300, EVERYDAY_DEV)
    answers = list(qa.ask_many(questions, effects=False, paths=1, coverage=0.9))
    shares = [list(answer.probabilities.values()) for answer in answers]
    chosen = [list(answer.probabilities).index(answer.choice) for answer in answers]
    right = [int(question.answer or 0) for question in questions]
    for coverage in (0.8, 0.9, 0.95):
        sets = [stored.prediction_set(of, best, coverage) for of, best in zip(shares, chosen, strict=True)]
        hits = sum(answer in inside for inside, answer in zip(sets, right, strict=True)) / len(sets)
        deviation = math.sqrt(coverage * (1 - coverage) * (1 / len(sets) + 1 / stored.questions))
        assert coverage - 3 * deviation <= hits <= coverage + 3 * deviation + 0.03
        if coverage == 0.9:
            assert [[choice in (answer.prediction_set or []) for choice in answer.probabilities] for answer in answers] == [
                [number in inside for number in range(len(of))] for inside, of in zip(sets, shares, strict=True)
            ]
    assert measure(shares, chosen, right)["expected_calibration_error"] < 0.12
    sure = [best == answer for best, answer, one in zip(chosen, right, answers, strict=True) if not one.abstained]
    assert {one.abstain_below for one in answers} == {stored.abstain_below}
    assert len(sure) > len(answers) / 3
    assert sum(sure) / len(sure) > SURE - 3 * math.sqrt(SURE * (1 - SURE) * (1 / len(sure) + 1 / stored.questions))


def test_its_calibration_can_be_replaced_and_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    shipped = (HERE / RUN / CALIBRATION).read_bytes()
    path = starter_run() / CALIBRATION
    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join((HERE / "everyday.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:50]), encoding="utf-8")
    calibrate(Path("starter"), questions=mine)
    assert path.read_bytes() != shipped
    calibrate(Path("starter"))
    assert path.read_bytes() == shipped
    assert mhgrn.load().run.calibration is not None
