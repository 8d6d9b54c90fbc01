"""mhgrn prepare, train, eval, predict, ask: the happy path through real processes, and what its results promise."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from harness import TINY, Command, Project, in_a_process

from mhgrn.questions.reading import read_questions
from mhgrn.starter import load
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData

MILK = ("Where do you keep milk?", "-c", "refrigerator", "-c", "oven", "-c", "drawer")


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_prepare_and_train_report_what_they_did(project: Project) -> None:
    prepared, trained = (json.loads((project.root / f"{step}.json").read_text()) for step in ("prepare", "train"))
    assert prepared["splits"] == {"train": 12, "dev": 8, "test": 8}
    asked = [q for split in ("train", "dev", "test") for q in read_questions(project.questions / f"{split}.jsonl")]
    assert prepared["statements"] == sum(len(q.choices) for q in asked)
    rows = json_lines(project.run / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert trained["dev_accuracy"] == max(row["dev_accuracy"] for row in rows)


def test_the_same_seed_gives_the_same_run(project: Project, tmp_path: Path) -> None:
    again = in_a_process("train", "--data", project.data, "-o", tmp_path / "again", *TINY)
    assert again.code == 0, again
    assert "dev accuracy" in again.out
    first, second = (json_lines(run / "metrics.jsonl") for run in (project.run, tmp_path / "again"))
    for row in (*first, *second):
        del row["seconds"]
    assert first == second
    weights = [(run / "model.safetensors").read_bytes() for run in (project.run, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_processes_evaluate_predict_and_ask(project: Project, tmp_path: Path) -> None:
    evaluated = json.loads(in_a_process("eval", project.run, "--json").out)
    assert evaluated["questions"] == 8
    output = tmp_path / "new" / "answers.jsonl"
    predicted = in_a_process("predict", project.run, project.questions / "test.jsonl", "-o", output)
    assert predicted.code == 0, predicted
    rows, asked = json_lines(output), list(read_questions(project.questions / "test.jsonl"))
    assert [row["id"] for row in rows] == [q.id for q in asked]
    right = sum(row["prediction"] == q.label(q.answer or 0) for row, q in zip(rows, asked, strict=True))
    assert right / 8 == evaluated["accuracy"]
    text = in_a_process("ask", project.run, *MILK)
    assert text.code == 0, text
    assert "→" in text.out


def test_predict_agrees_with_eval(project: Project, here: Command, tmp_path: Path) -> None:
    evaluated = json.loads(here("eval", project.run, "--split", "dev", "--json").out)
    here("predict", project.run, project.questions / "dev.jsonl", "-o", tmp_path / "answers.jsonl")
    asked = read_questions(project.questions / "dev.jsonl")
    keys = [
        (row["prediction"], q.label(q.answer or 0)) for row, q in zip(json_lines(tmp_path / "answers.jsonl"), asked, strict=True)
    ]
    assert sum(a == b for a, b in keys) / len(keys) == evaluated["accuracy"]


@pytest.mark.parametrize(
    "options", [["--statement", "append"], ["--statement", "fill-in-the-blank"], ["--max-nodes", "3"]], ids=" ".join
)
def test_answering_reads_the_subgraphs_of_preparing(options: list[str], own: Project, here: Command) -> None:
    """Options of `prepare` hold for the run's new questions too."""
    assert here("prepare", own.questions, "--kg", own.graph, "-o", own.data, "--force", *options).code == 0
    assert here("train", "--data", own.data, "-o", own.run, "--force", "--set", "training.epochs=1").code == 0
    data, answerer = PreparedData.load(own.data), load(own.run)
    for number in data.split("test"):
        question = data.questions[number]
        subgraphs = data.subgraphs(number)

        def names(kind: int, subgraphs: list[Subgraph] = subgraphs) -> list[list[str]]:
            return [[answerer.run.graph.name(int(c)) for c in g.concepts[g.types == kind]] for g in subgraphs]

        found = answerer.answer(question).concepts
        assert [found["choices"][choice] for choice in question.choices] == names(ANSWER)
        assert found["question"] == sorted({name for part in names(QUESTION) for name in part})


def test_facts_of_an_answer_are_edges_of_the_graph(project: Project, here: Command, tmp_path: Path) -> None:
    here("predict", project.run, project.questions / "test.jsonl", "-o", tmp_path / "answers.jsonl")
    asked = json.loads(here("ask", project.run, *MILK, "--json").out)
    assert asked["paths"]
    facts = [
        fact for answer in [asked, *json_lines(tmp_path / "answers.jsonl")] for path in answer["paths"] for fact in path["facts"]
    ]
    assert facts
    for head, relation, tail in facts:
        assert [head, relation, tail] in json.loads(here("kg", "show", project.graph, head, "--json").out)


def test_an_answer_s_path_joins_question_and_choice(project: Project, here: Command) -> None:
    answer = json.loads(here("ask", project.run, *MILK, "--json").out)
    for path in answer["paths"]:
        assert path["concepts"][-1] in answer["concepts"]["choices"][answer["choice"]]
        for fact, ends in zip(path["facts"], zip(path["concepts"], path["concepts"][1:], strict=False), strict=True):
            assert {fact[0], fact[2]} == set(ends)


def test_ask_shows_as_many_paths_as_asked_for_with_their_effects(project: Project, here: Command) -> None:
    args = ("ask", project.run, *MILK, "--by", "attention", "--paths", "2")
    answer = json.loads(here(*args, "--json").out)
    assert 1 <= len(answer["paths"]) <= 2
    assert all(len(path["without"]) == len(path["facts"]) for path in answer["paths"])
    before = f"{answer['probabilities'][answer['choice']]:.1%}"
    text = here(*args).out
    assert f"    without the graph: {before} → {answer['without_graph']:.1%}\n" in text
    for path in answer["paths"]:
        assert path["text"] in text
        assert all(f": {before} → {after:.1%}\n" in text for after in path["without"])
    plain = json.loads(here(*args, "--no-effects", "--json").out)
    assert plain["without_graph"] is None
    assert [path["without"] for path in plain["paths"]] == [None] * len(plain["paths"])
    assert "without" not in here(*args, "--no-effects").out
    shares = [[path["probability"] for path in one["paths"]] for one in (answer, plain)]
    assert shares[0] == pytest.approx(shares[1])
    with_attention = json.loads(here(*args, "--json", "--attention").out)
    assert list(with_attention.pop("attention")["statements"]) == list(answer["probabilities"])
    assert with_attention == answer


def test_probabilities_are_the_choices_and_sum_to_one(project: Project, here: Command) -> None:
    answer = json.loads(here("ask", project.run, *MILK, "--json").out)
    assert list(answer["probabilities"]) == ["refrigerator", "oven", "drawer"]
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert answer["choice"] == max(answer["probabilities"], key=answer["probabilities"].__getitem__)


def test_a_question_outside_the_graph_is_answered_and_says_so(project: Project, here: Command) -> None:
    args = ("ask", project.run, "Zxqv wrtp?", "-c", "bzzrk", "-c", "qwwpt")
    text = here(*args)
    assert text.code == 0, text
    assert "the question contains no concept of the graph" in text.out
    assert "not in the graph" in text.out
    answer = json.loads(here(*args, "--json").out)
    assert answer["choice"] in ("bzzrk", "qwwpt")
    assert all(not path["facts"] for path in answer["paths"])
    assert answer["notes"]


def test_a_choice_may_have_any_name(project: Project, here: Command) -> None:
    """Also one that is a key of the answer's own."""
    answer = json.loads(here("ask", project.run, "Where do you keep milk?", "-c", "question", "-c", "refrigerator", "--json").out)
    assert not any("the question contains no concept" in note for note in answer["notes"])
    plain = json.loads(here("ask", project.run, "Where do you keep milk?", "-c", "oven", "-c", "refrigerator", "--json").out)
    assert answer["concepts"]["question"] == plain["concepts"]["question"] == ["keep", "milk"]


def test_a_long_question_and_odd_characters_are_answered(project: Project, here: Command) -> None:
    question = "Where — “if at all” — do you keep milk? 🥛 \x00\n" + "milk and cheese " * 500
    answered = here("ask", project.run, question, "-c", "the refrigerator\tdoor", "-c", "冷蔵庫", "--json")
    assert answered.code == 0, answered
    assert len(json.loads(answered.out)["probabilities"]) == 2


def test_a_run_is_portable(own: Project, here: Command, tmp_path: Path) -> None:
    before = here("ask", own.run, *MILK)
    moved_graph, moved_run = tmp_path / "elsewhere" / "graph", tmp_path / "elsewhere" / "run"
    shutil.copytree(own.graph, moved_graph)
    shutil.move(own.run, moved_run)
    shutil.rmtree(own.graph)
    assert here("ask", moved_run, *MILK) == before  # found beside the run, as before
    moved_graph = moved_graph.rename(tmp_path / "elsewhere" / "other")
    refused = here("ask", moved_run, *MILK)
    assert refused.code == 2
    assert "--kg" in refused.err
    assert here("ask", moved_run, *MILK, "--kg", moved_graph) == before
    evaluated = here("eval", moved_run, "--kg", moved_graph, "--data", own.data)
    assert evaluated.code == 0, evaluated


def test_another_graph_of_the_schema_may_be_used(own: Project, here: Command, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("yak\tAtLocation\tmountain\nyak\tCapableOf\tcarry\n", encoding="utf-8")
    here("kg", "build", facts, "--schema", "conceptnet", "-o", tmp_path / "yaks")
    asked = here("ask", own.run, "Where is a yak?", "-c", "mountain", "-c", "kiosk", "--kg", tmp_path / "yaks", "--json")
    assert asked.code == 0, asked
    assert json.loads(asked.out)["concepts"]["question"] == ["yak"]


def test_training_over_a_run_takes_force(own: Project, here: Command) -> None:
    trained = here("train", "--data", own.data, "-o", own.run, "--set", "training.epochs=1", "--force")
    assert trained.code == 0, trained
    assert len(json_lines(own.run / "metrics.jsonl")) == 1


def test_questions_without_answers_are_predicted(project: Project, here: Command, tmp_path: Path) -> None:
    questions = tmp_path / "asked.jsonl"
    rows = json_lines(project.questions / "test.jsonl")[:2]
    for row in rows:
        del row["answerKey"]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    predicted = here("predict", project.run, questions, "-o", tmp_path / "answers.jsonl")
    assert predicted.code == 0, predicted
    assert "right" not in predicted.out
    assert len(json_lines(tmp_path / "answers.jsonl")) == 2


def test_a_choice_given_twice_in_a_file_keeps_its_place(project: Project, here: Command, tmp_path: Path) -> None:
    """Published data sets do so: every choice keeps its own probability."""
    questions = tmp_path / "asked.jsonl"
    choices = [{"label": label, "text": text} for label, text in zip("ABC", ("oven", "oven", "refrigerator"), strict=True)]
    row = {"id": "1", "question": {"stem": "Where do you keep milk?", "choices": choices}, "answerKey": "C"}
    questions.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert here("predict", project.run, questions, "-o", tmp_path / "answers.jsonl").code == 0
    (answer,) = json_lines(tmp_path / "answers.jsonl")
    assert answer["prediction"] in "ABC"
    assert answer["choice"] == dict(zip("ABC", ("oven", "oven", "refrigerator"), strict=True))[answer["prediction"]]
    assert list(answer["probabilities"]) == ["A", "B", "C"]
    assert answer["answerKey"] == "C"
    assert sum(answer["probabilities"].values()) == pytest.approx(1)


def test_predictions_are_printed_or_written_as_csv(project: Project, here: Command, tmp_path: Path) -> None:
    questions = project.questions / "test.jsonl"
    assert here("predict", project.run, questions, "-o", tmp_path / "answers.jsonl").code == 0
    rows = json_lines(tmp_path / "answers.jsonl")
    printed = here("predict", project.run, questions, "-o", "-")
    assert [json.loads(line) for line in printed.out.splitlines()] == rows
    assert "8 answers" in printed.err
    assert not Path("-").exists()
    for options in (["-o", tmp_path / "answers.csv"], ["-o", tmp_path / "answers.txt", "--format", "csv"]):
        assert here("predict", project.run, questions, *options).code == 0
        table = list(csv.DictReader((tmp_path / options[1]).read_text(encoding="utf-8").splitlines()))
        assert [row["prediction"] for row in table] == [row["prediction"] for row in rows]
        assert [row["answerKey"] for row in table] == [row["answerKey"] for row in rows]
        for row, of in zip(table, rows, strict=True):
            assert {label: float(row[f"probability {label}"]) for label in of["probabilities"]} == of["probabilities"]
    refused = here("predict", project.run, questions, "-o", tmp_path / "new.csv", "--format", "jsonl")
    assert refused.code == 2
    assert "would hold JSON lines" in refused.err


def test_the_starter_model_is_evaluated_and_compared_by_name(project: Project, here: Command) -> None:
    assert json.loads(here("eval", "starter", "--data", project.data, "--json").out)["questions"] == 8
    assert "of 356 questions" in here("eval", "starter").out  # the test questions of the package
    assert "name a folder of prepared questions with --data" in here("compare", "starter", "starter").err
    assert "of 8 questions" in here("compare", "starter", "starter", "--data", project.data).out
