"""A calibrated run: the same choices, other probabilities, everywhere the same; and what it says if it is not sure."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from harness import Command, Project, Refused

from mhgrn.calibration import Calibration, sure_from
from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.questions.reading import read_questions
from mhgrn.runs import Run
from mhgrn.starter import HERE
from mhgrn.training.evaluation import evaluate

ASKED = "Where would a child sit at a desk?", ["schoolroom", "patio", "bus"]


def scored(run: Run, temperature: float) -> QuestionAnswerer:
    run.calibration = Calibration(temperature, tuple(k / 20 for k in range(1, 20)), 19, "dev")
    return QuestionAnswerer(run)


def test_training_calibrates_and_runs_without_a_calibration_have_temperature_1(own: Project, here: Command) -> None:
    path = own.run / "calibration.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert (stored["questions"], stored["source"], len(stored["scores"])) == (8, "dev", 8)
    assert stored["temperature"] == 1  # of 8 questions
    weights = (own.run / "model.safetensors").read_bytes()
    path.unlink()
    (own.run / "checksums.json").unlink()
    about = json.loads((own.run / "run.json").read_text(encoding="utf-8"))
    (own.run / "run.json").write_text(json.dumps({k: v for k, v in about.items() if k != "checksums"}), encoding="utf-8")
    assert Run.load(own.run).calibration is None
    first = here("calibrate", own.run, "--json")
    assert first.code == 0, first.err
    assert json.loads(path.read_text(encoding="utf-8")) == stored
    assert (own.run / "model.safetensors").read_bytes() == weights
    assert json.loads(first.out)["accuracy"] == json.loads(here("eval", own.run, "--split", "dev", "--json").out)["accuracy"]


def test_a_temperature_changes_probabilities_and_effects_but_no_choice(own: Project) -> None:
    run, data = Run.load(own.run), own.data
    plain, warm = (scored(run, temperature).ask(*ASKED) for temperature in (1.0, 3.0))
    assert warm.choice == plain.choice
    assert warm.confidence < plain.confidence
    powers = {choice: p ** (1 / 3) for choice, p in plain.probabilities.items()}
    assert warm.probabilities == pytest.approx({choice: p / sum(powers.values()) for choice, p in powers.items()}, abs=1e-6)
    for one, other in zip(plain.paths, warm.paths, strict=True):
        assert (one.facts, one.probability) == (other.facts, other.probability)
    without = QuestionAnswerer(run).ask(*ASKED, graph=False)
    assert warm.without_graph == pytest.approx(without.probabilities[warm.choice], abs=1e-6)
    results = []
    for temperature in (1.0, 3.0):
        run.calibration = Calibration(temperature, (0.5,), 1, "dev")
        results.append(evaluate(run, data, "dev"))
    assert results[0]["accuracy"] == results[1]["accuracy"]
    assert results[0]["calibration"]["brier_score"] != results[1]["calibration"]["brier_score"]


def test_an_answer_says_when_it_is_not_sure(own: Project) -> None:
    run = Run.load(own.run)
    qa = scored(run, 20.0)
    answer = qa.ask(*ASKED, abstain_below=0.9, coverage=0.9)
    assert answer.abstained
    assert answer.confidence == answer.probabilities[answer.choice] == max(answer.probabilities.values())
    assert f"  ? {answer.choice}" in str(answer)
    assert "not sure enough (" in str(answer)
    assert "< 90%)" in str(answer)
    assert "with 90% coverage: any of the choices" in str(answer)
    assert answer.prediction_set == sorted(answer.probabilities, key=lambda choice: -answer.probabilities[choice])
    row = answer.to_dict()
    assert (row["abstained"], row["coverage"], row["confidence"]) == (True, 0.9, answer.confidence)
    sure = qa.ask(*ASKED, abstain_below=0.01, coverage=0.1)
    assert (sure.abstained, sure.prediction_set) == (False, [sure.choice])
    assert f"with 10% coverage: only {sure.choice}" in str(sure)
    assert {"abstained", "coverage", "prediction_set", "abstain_below"}.isdisjoint(qa.ask(*ASKED).to_dict())
    assert list(qa.ask_many([{"question": ASKED[0], "choices": ASKED[1]}], abstain_below=0.9, coverage=0.9)) == [answer]
    assert any("too few for 99% coverage" in note for note in qa.ask(*ASKED, coverage=0.99).notes)
    for wrong in (0, 1, -1, 50, True, "0.5", float("nan")):
        with pytest.raises(UserError, match=r"coverage is .*; it should be a number between 0 and 1"):
            qa.ask(*ASKED, coverage=wrong)  # type: ignore[arg-type]
    run.calibration = None
    with pytest.raises(UserError, match="is not calibrated, so it has no coverage; run `mhgrn calibrate "):
        QuestionAnswerer(run).ask(*ASKED, coverage=0.9)
    assert "not calibrated" in QuestionAnswerer(run).ask(*ASKED, abstain_below=0.5).notes[0]


def test_a_run_stores_the_least_confidence_of_a_sure_answer(own: Project, here: Command) -> None:
    file = own.questions / "test.jsonl"
    questions = list(read_questions(file))
    run = Run.load(own.run)
    before = run.calibration
    try:
        done = here("calibrate", own.run, "--questions", file, "--accuracy", "0.9")
        assert done.code == 0, done.err
        run = Run.load(own.run)
        assert run.calibration is not None
        least = run.calibration.abstain_below
        assert (f"answers below {least:.0%} say" if least else "no confidence from which on 90%") in done.out
        qa = QuestionAnswerer(run)
        answers = list(qa.ask_many(questions))
        right = [
            answer.choice == question.choices[question.answer or 0] for answer, question in zip(answers, questions, strict=True)
        ]
        assert least == sure_from([answer.confidence for answer in answers], right, 0.9)
        run.calibration = replace(run.calibration, abstain_below=0.999)
        qa = QuestionAnswerer(run)
        assert qa.ask(*ASKED).abstained
        assert not qa.ask(*ASKED, abstain_below=0).abstained
        assert not qa.ask(*ASKED, abstain_below=0.01).abstained
    finally:
        assert before is not None
        before.save(own.run)


def test_predictions_have_columns_for_it(own: Project, here: Command, tmp_path: Path) -> None:
    for name in ("p.jsonl", "p.csv"):
        done = here(
            "predict", own.run, own.questions / "test.jsonl", "-o", tmp_path / name, "--abstain-below", "0.3", "--coverage", "0.7"
        )
        assert done.code == 0, done.err
        assert "not sure enough" in done.out
        assert "of the sets contain the right one" in done.out
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    for row, columns in zip(rows, table, strict=True):
        assert row["confidence"] == row["probabilities"][row["prediction"]] == float(columns["confidence"])
        assert row["abstained"] == (row["confidence"] < 0.3) == (columns["abstained"] == "True")
        assert row["prediction"] == row["prediction_set"][0]
        assert columns["prediction_set"].split() == row["prediction_set"]


def test_eval_measures_and_draws(own: Project, here: Command, tmp_path: Path) -> None:
    done = here("eval", own.run, "--split", "dev", "--plot", tmp_path / "c.png")
    assert done.code == 0, done.err
    for part in ("calibration error", "Brier score", "negative log-likelihood", "risk-coverage", "sets with 90% coverage"):
        assert part in done.out
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_calibrating_on_questions_of_ones_own(own: Project, here: Command, refused: Refused, tmp_path: Path) -> None:
    asked = tmp_path / "mine.jsonl"
    asked.write_text(
        "".join((HERE / "everyday.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:60]), encoding="utf-8"
    )
    done = here("calibrate", own.run, "--questions", asked)
    assert done.code == 0, done.err
    assert "fitted on 60 questions (mine.jsonl)" in done.out
    stored = Run.load(own.run).calibration
    assert stored is not None
    assert (stored.questions, stored.source) == (60, "mine.jsonl")
    open_question = tmp_path / "open.jsonl"
    open_question.write_text(json.dumps({"question": "Where?", "choices": ["a", "b"]}) + "\n", encoding="utf-8")
    refused(["calibrate", str(own.run), "--questions", str(open_question)], ["1 of 1 questions have no answer"])
    refused(["calibrate", str(own.run), "--questions", str(asked), "--data", str(own.data)], ["leave one out"])
    refused(["ask", str(own.run), "Where?", "-c", "a", "-c", "b", "--coverage", "90"], ["--coverage is 90"])
    path = own.run / "calibration.json"
    path.write_bytes(path.read_bytes()[:-5])
    refused(["ask", str(own.run), "Where?", "-c", "a", "-c", "b"], ["calibration.json"])


def test_new_weights_delete_the_calibration(own: Project) -> None:
    run = Run.load(own.run)
    run.save(run.about["metrics"], text_changed=False)
    assert not (own.run / "calibration.json").exists()
    assert Run.load(own.run).calibration is None
