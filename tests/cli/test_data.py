"""mhgrn data check, and declared data sets given to prepare and predict."""

import json
from pathlib import Path

from harness import Command, Project, Refused


def rows(*answers: str) -> str:
    row = {"question": "Where is milk?", "choices": ["oven", "refrigerator"]}
    return "".join(json.dumps({"id": str(number), **row, "answer": answer}) + "\n" for number, answer in enumerate(answers))


def test_a_clean_folder_is_counted(here: Command, project: Project) -> None:
    outcome = here("data", "check", project.questions)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "train        12 questions, 5 choices, 12 with answers",
        "dev           8 questions, 5 choices, 8 with answers",
        "test          8 questions, 5 choices, 8 with answers",
        "in all       28 questions, none in more than one split; 140 statements (generic)",
    ]
    found = json.loads(here("data", "check", project.questions, "--json").out)
    assert found["splits"]["dev"] == {"questions": 8, "choices": [5, 5], "answered": 8}
    assert (found["dataset"], found["statements"], found["repeated"], found["problems"]) == ("generic", 140, 0, [])


def test_all_problems_are_counted_and_the_first_twenty_shown(here: Command, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(rows("A", *"Z" * 23, "B"), encoding="utf-8")
    outcome = here("data", "check", path)
    assert outcome.code == 2
    assert outcome.out.startswith("test          2 questions, 2 choices, 2 with answers\n")
    first, *shown, last = outcome.err.splitlines()
    assert (first, last) == (f"mhgrn: 23 problems in {path}", "… and 3 more")
    assert [line.split(": ")[0] for line in shown] == [f"{path}:{number}" for number in range(2, 22)]
    as_json = here("data", "check", path, "--json")
    assert as_json.code == 2
    assert len(json.loads(as_json.out)["problems"]) == 23
    path.write_text(rows("A", "Z"), encoding="utf-8")
    assert here("data", "check", path).err.startswith(f"mhgrn: 1 problem in {path}\n{path}:2: the answer 'Z' is none of the labels")
    path.write_text("", encoding="utf-8")
    assert here("data", "check", path).err == f"mhgrn: 1 problem in {path}\n{path} contains no questions.\n"


def test_what_cannot_be_looked_for_is_refused(refused: Refused, tmp_path: Path) -> None:
    refused(["data", "check", f"{tmp_path}/no"], [f"{tmp_path}/no does not exist"])
    refused(["data", "check", str(tmp_path)], [f"{tmp_path} contains no train*, dev* or test* file"])
    refused(["data", "check", str(tmp_path), "--dataset", "openbook"], ["'openbook' is neither", "Did you mean openbookqa?"])
    (tmp_path / "my.yaml").write_text("feilds: {}\n", encoding="utf-8")
    refused(["data", "check", f"{tmp_path}/my.yaml"], [f"{tmp_path}/my.yaml: unknown key feilds. Did you mean fields?"])


def test_a_declared_csv_is_prepared_and_answered(here: Command, project: Project, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(
        "nr,q,one,two\n1,Where is milk?,oven,refrigerator\n2,Where is bread?,bakery,sea\n", encoding="utf-8"
    )
    declaration = tmp_path / "my.yaml"
    declaration.write_text("splits: {test: mine.csv}\nfields: {id: nr, stem: q, choices: [one, two]}\n", encoding="utf-8")
    outcome = here("prepare", declaration, "--kg", project.graph, "-o", tmp_path / "out")
    assert outcome.code == 0
    assert outcome.out.startswith(f"{tmp_path}/out: 2 test questions, 4 statements")
    answers = tmp_path / "answers.jsonl"
    assert here("predict", project.run, tmp_path / "mine.csv", "--dataset", declaration, "-o", answers).code == 0
    answered = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in answered] == ["1", "2"]
    assert {row["choice"] for row in answered} <= {"oven", "refrigerator", "bakery", "sea"}


def test_one_file_is_divided_into_splits(here: Command, refused: Refused, project: Project, tmp_path: Path) -> None:
    """Without --split all questions are test questions; preparing and training say how to divide them."""
    file, hint = tmp_path / "q.jsonl", "prepare them with --split 0.8,0.1,0.1."
    lines = [{"question": f"Where is milk {i}?", "choices": ["oven", "refrigerator"], "answer": "oven"} for i in range(10)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = here("prepare", file, "--kg", project.graph, "-o", tmp_path / "data")
    assert outcome.out.endswith(f"All questions are in the split test. To divide the questions of one file into splits, {hint}\n")
    refused(["train", "--data", f"{tmp_path}/data", "-o", f"{tmp_path}/run"], [f"{tmp_path}/data has no split 'train'", hint])
    outcome = here("prepare", file, "--kg", project.graph, "-o", tmp_path / "data", "--split", "0.8,0.1,0.1", "--force")
    assert outcome.out.startswith(f"{tmp_path}/data: 8 train, 1 dev, 1 test questions, 20 statements")
    assert "--split" not in outcome.out
