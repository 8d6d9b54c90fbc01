"""Dataset declarations: every form of a question gives the same question, and an invalid declaration is explained."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reading import check_questions, read_questions, read_splits
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

LETTERS = "ABCDEFG"
SHIPPED = ("commonsenseqa", "commonsenseqa-inhouse", "generic", "metaqa", "openbookqa", "openbookqa-fact")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|\0"), min_size=1).map(str.strip).filter(bool)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    choices = tuple(draw(st.lists(texts, min_size=2, max_size=len(LETTERS))))
    answer = draw(st.none() | st.integers(0, len(choices) - 1))
    labels = tuple(LETTERS[: len(choices)])
    return Question(draw(texts), draw(texts), choices, answer, labels, draw(st.none() | texts))


data_sets = st.lists(questions(), min_size=1, max_size=5, unique_by=lambda q: q.id)


def key(q: Question) -> str | None:
    return None if q.answer is None else q.labels[q.answer]


def published(q: Question) -> dict[str, Any]:
    """CommonsenseQA's own form."""
    choices = [{"label": label, "text": text} for label, text in zip(q.labels, q.choices, strict=True)]
    body = {"stem": q.stem, "choices": choices, "question_concept": q.concept}
    return {"id": q.id, "question": body, "answerKey": key(q)}


def hub(q: Question) -> dict[str, Any]:
    """The Hugging Face hub's form of CommonsenseQA."""
    choices = {"label": list(q.labels), "text": list(q.choices)}
    return {"id": q.id, "question": q.stem, "question_concept": q.concept, "choices": choices, "answerKey": key(q) or ""}


def hub_openbook(q: Question) -> dict[str, Any]:
    """The Hugging Face hub's form of OpenBookQA."""
    row = hub(q)
    return {"question_stem": row.pop("question")} | row


def listed(q: Question) -> dict[str, Any]:
    return {"id": q.id, "stem": q.stem, "choices": list(q.choices), "answer": key(q), "question_concept": q.concept}


def labelled(q: Question) -> dict[str, Any]:
    choices = dict(zip(q.labels, q.choices, strict=True))
    return {"id": q.id, "question": q.stem, "choices": choices, "answer": key(q), "question_concept": q.concept}


def plain(q: Question) -> dict[str, Any]:
    """A column a choice, as many as any question has."""
    columns = {f"choice_{letter.lower()}": "" for letter in LETTERS}
    columns |= {f"choice_{label.lower()}": text for label, text in zip(q.labels, q.choices, strict=True)}
    return {"id": q.id, "question": q.stem, **columns, "answer": (key(q) or "").lower(), "question_concept": q.concept or ""}


def joined(q: Question) -> dict[str, Any]:
    """Choices in one text."""
    return {"id": q.id, "question": q.stem, "choices": "|".join(q.choices), "answer": key(q), "question_concept": q.concept}


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def json_list(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows, indent=1).encode()


def table(delimiter: str) -> Callable[[list[dict[str, Any]]], bytes]:
    def write(rows: list[dict[str, Any]]) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()

    return write


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


FORMS: list[tuple[str, Callable[[Question], dict[str, Any]], Callable[[list[dict[str, Any]]], bytes]]] = [
    ("jsonl", published, json_lines),
    ("jsonl", hub, json_lines),
    ("jsonl", hub_openbook, json_lines),
    ("jsonl", listed, json_lines),
    ("jsonl", labelled, json_lines),
    ("jsonl", plain, json_lines),
    ("jsonl", joined, json_lines),
    ("json", published, json_list),
    ("csv", plain, table(",")),
    ("csv", joined, table(",")),
    ("tsv", plain, table("\t")),
    ("parquet", published, parquet),
    ("parquet", hub, parquet),
    ("parquet", hub_openbook, parquet),
    ("parquet", listed, parquet),
    ("parquet", labelled, parquet),
    ("parquet", plain, parquet),
]


@pytest.mark.parametrize(("ending", "form", "write"), FORMS, ids=[f"{form.__name__}.{ending}" for ending, form, _ in FORMS])
@settings(max_examples=25)
@given(wanted=data_sets)
def test_every_form_of_a_question_is_the_same_question(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    form: Callable[..., Any],
    write: Callable[..., bytes],
    wanted: list[Question],
) -> None:
    path = tmp_path_factory.getbasetemp() / f"form.{ending}"
    content = write([form(q) for q in wanted])
    path.write_bytes(content)
    assert list(read_questions(path)) == wanted
    if ending != "parquet":
        zipped = path.with_name(f"{path.name}.gz")
        zipped.write_bytes(gzip.compress(content, 1))
        assert list(read_questions(zipped)) == wanted


@pytest.mark.parametrize("answer_as", ["text", "label", "index-from-0", "index-from-1"])
@settings(max_examples=25)
@given(wanted=data_sets)
def test_answers_are_read_as_declared(tmp_path_factory: pytest.TempPathFactory, answer_as: str, wanted: list[Question]) -> None:
    wanted = [replace(q, choices=tuple(f"{i} {text}" for i, text in enumerate(q.choices))) for q in wanted]

    def written(q: Question) -> object:
        if q.answer is None:
            return None
        return {"text": q.choices[q.answer], "label": key(q), "index-from-0": q.answer, "index-from-1": str(q.answer + 1)}[
            answer_as
        ]

    folder = tmp_path_factory.getbasetemp()
    (folder / "form.jsonl").write_bytes(json_lines([listed(q) | {"answer": written(q)} for q in wanted]))
    declaration = declare(folder / "answers.yaml", fields={"answer_as": answer_as})
    assert list(read_questions(folder / "form.jsonl", declaration)) == wanted


def declare(path: Path, **declared: Any) -> Path:
    path.write_text(yaml.safe_dump(declared), encoding="utf-8")
    return path


def row(number: int | str = 1, answer: object = "A", choices: tuple[str, ...] = ("bank", "river"), **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": "Where is it?", "choices": list(choices), "answer": answer} | more


def save(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json_lines(list(rows)))
    return path


def ids(splits: dict[str, list[Question]]) -> dict[str, list[str]]:
    return {split: [q.id for q in found] for split, found in splits.items()}


def test_declared_field_names(tmp_path: Path) -> None:
    rows = [
        {"nr": 7, "ask": {"text": "Which?"}, "right": "x", "wrong1": "y", "wrong2": "z", "hint": "Look!", "lore": "it is so"},
        {"nr": 8, "ask": {"text": "Who?"}, "right": "x", "wrong1": "y", "wrong2": None, "hint": "Look", "lore": "it is so"},
    ]
    save(tmp_path / "data" / "mine.jsonl", *rows)
    fields = {"id": "nr", "stem": "ask.text", "choices": ["wrong*", "right"], "answer": "right", "context": ["lore", "hint"]}
    declaration = declare(tmp_path / "my.yaml", splits={"test": "data/mine.jsonl"}, fields=fields)
    with pytest.raises(UserError, match=r"mine\.jsonl:2: choice 2 is empty"):
        read_splits(declaration)
    declare(tmp_path / "my.yaml", splits={"test": "data/mine.jsonl"}, fields=fields | {"choices": ["right", "wrong*"]})
    one, two = read_splits(declaration)["test"]
    assert one == Question("7", "it is so. Look! Which?", ("x", "y", "z"), 0, ("A", "1", "2"))
    assert two == Question("8", "it is so. Look. Who?", ("x", "y"), 0, ("A", "1"))


def test_declared_names_of_choices(tmp_path: Path) -> None:
    options = [{"body": "bank", "key": 1}, {"body": "river", "key": 2}]
    path = save(tmp_path / "q.jsonl", row(choices=(), answer=2) | {"options": options})
    declaration = declare(tmp_path / "my.yaml", fields={"choices": "options", "choice_text": "body", "choice_label": "key"})
    assert list(read_questions(path, declaration)) == [Question("q1", "Where is it?", ("bank", "river"), 1, ("1", "2"))]
    declare(declaration, fields={"choices": "options"})
    with pytest.raises(UserError, match=r"the options have no field 'text' but body, key; declare `choice_text`"):
        list(read_questions(path, declaration))


def test_the_declaration_in_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "questions.md").read_text(encoding="utf-8")
    (declaration,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "splits:" in text]
    (tmp_path / "my-quiz.yaml").write_text(declaration, encoding="utf-8")
    for number, name in enumerate(("train", "dev", "easy", "hard")):
        header = "nr,quiz.text,right,wrong1,wrong2,wrong3,passage"
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{number},Where?,a,b,c,d,Long ago\n", encoding="utf-8")
    splits = read_splits(tmp_path / "my-quiz.yaml")
    assert ids(splits) == {"train": ["0"], "dev": ["1"], "test": ["2", "3"]}
    assert splits["dev"] == [Question("1", "Long ago. Where?", ("a", "b", "c", "d"), 0, ("A", "1", "2", "3"))]
    (example,) = re.findall(r"```\n(id,question.*?)```", page, re.DOTALL)
    (tmp_path / "example.csv").write_text(example, encoding="utf-8")
    assert [(len(q.choices), q.answer) for q in read_questions(tmp_path / "example.csv")] == [(2, 0), (3, 1)]


def test_declared_delimiters_and_separators(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("id;question;options;answer\n1;Where?;a, b ,c;B\n2;Who?;d,e;\n", encoding="utf-8")
    declaration = declare(
        tmp_path / "my.yaml",
        splits={"test": "mine.txt"},
        format="csv",
        delimiter=";",
        fields={"choices": "options", "choice_separator": ","},
    )
    one, two = read_splits(declaration)["test"]
    assert (one.choices, one.answer, two.choices, two.answer) == (("a", "b", "c"), 1, ("d", "e"), None)
    with pytest.raises(UserError, match=r"mine\.txt: unknown ending; known are \.csv"):
        read_splits(tmp_path / "mine.txt")


def test_many_choices_have_different_labels(tmp_path: Path) -> None:
    [question] = read_questions(save(tmp_path / "q.jsonl", row(choices=tuple(f"choice {i}" for i in range(40)), answer="40")))
    assert question.answer == 39
    assert question.labels[:26] == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def test_a_declaration_finds_its_files_beside_itself_or_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "here" / "a.jsonl", row(1))
    save(tmp_path / "here" / "b.jsonl", row(2))
    save(tmp_path / "here" / "sub" / "c.jsonl", row(3))
    splits = {"train": ["a.jsonl", "b.jsonl"], "test": "sub/c.jsonl"}
    wanted = {"train": ["q1", "q2"], "test": ["q3"]}
    assert ids(read_splits(declare(tmp_path / "here" / "my.yaml", splits=splits))) == wanted
    assert ids(read_splits(tmp_path / "here", declare(tmp_path / "elsewhere.yml", splits=splits))) == wanted
    monkeypatch.chdir(tmp_path / "here")
    assert ids(read_splits("my.yaml")) == wanted
    save(tmp_path / "here" / "b.jsonl", row(1))
    with pytest.raises(UserError, match=r"b\.jsonl:1: the id 'q1' is already used in line 1 of .*a\.jsonl"):
        read_splits("my.yaml")


def test_a_declaration_without_files_takes_those_named_as_splits(tmp_path: Path) -> None:
    save(tmp_path / "train-00000-of-00001.jsonl", row(1, gold="B"))
    (tmp_path / "validation.csv").write_text("id,question,choice_1,choice_2,gold\nq2,Where?,a,b,2\n", encoding="utf-8")
    (tmp_path / "test.parquet").write_bytes(parquet([row(3, gold="A")]))
    (tmp_path / "train.py").write_text("print('not a table')", encoding="utf-8")
    splits = read_splits(declare(tmp_path / "my.yaml", fields={"answer": "gold"}))
    assert ids(splits) == {"train": ["q1"], "dev": ["q2"], "test": ["q3"]}
    assert [q.answer for found in splits.values() for q in found] == [1, 1, 0]
    assert ids(read_splits(tmp_path)) == ids(splits)


def test_built_in_declarations_are_found_by_name() -> None:
    assert [Dataset.named(name).name for name in SHIPPED] == list(SHIPPED)
    with pytest.raises(UserError, match=rf"no-such-thing.* Known: {', '.join(SHIPPED)}\."):
        Dataset.named("no-such-thing")
    assert Dataset.named("generic") == Dataset()


def test_a_missing_file_is_named_with_its_split(tmp_path: Path) -> None:
    save(
        tmp_path / "train_rand_split.jsonl",
        *(published(Question(f"q{i}", "Where?", tuple("vwxyz"), 0, tuple("ABCDE"), "v")) for i in "12"),
    )
    problems = check_questions(tmp_path, "commonsenseqa").problems
    assert [problem.partition("; ")[0] for problem in problems] == [
        f"{tmp_path}/dev_rand_split.jsonl, the dev split of commonsenseqa, does not exist",
        f"{tmp_path}/test_rand_split_no_answers.jsonl, the test split of commonsenseqa, does not exist",
    ]
    (tmp_path / "train_rand_split.jsonl").rename(tmp_path / "dev_rand_split.jsonl")
    with pytest.raises(UserError, match=r"train_rand_split\.jsonl, the train split of commonsenseqa-inhouse, does not exist"):
        read_splits(tmp_path, "commonsenseqa-inhouse")
    (tmp_path / "dev_rand_split.jsonl").rename(tmp_path / "train_rand_split.jsonl")
    save(tmp_path / "dev_rand_split.jsonl")
    with pytest.raises(
        UserError, match=r"inhouse_split_qids\.txt, the list of in-house training ids of commonsenseqa-inhouse, does not"
    ):
        read_splits(tmp_path, "commonsenseqa-inhouse")
    (tmp_path / "inhouse_split_qids.txt").write_text("q2\n")
    assert ids(read_splits(tmp_path, "commonsenseqa-inhouse")) == {"train": ["q2"], "dev": [], "test": ["q1"]}
    (tmp_path / "inhouse_split_qids.txt").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"inhouse_split_qids\.txt: not UTF-8"):
        read_splits(tmp_path, "commonsenseqa-inhouse")


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("splitz: {test: q.jsonl}", "unknown key splitz. Did you mean splits?"),
        ("splits: {trian: q.jsonl}", "unknown key splits.trian. Did you mean train?"),
        ("splits: {validation: q.jsonl}", "unknown key splits.validation. Known: dev, test, train."),
        ("fields: {stm: question}", "unknown key fields.stm. Did you mean stem?"),
        ("splits: {test: 3}", "key splits.test: "),
        ("fields: {stem: {a: b}}", "key fields.stem: "),
        ("fields: question", "key fields: "),
        ("fields: {answer: no}", "key fields.answer: "),
        ("fields: {answer_as: number}", "key fields.answer_as: input should be 'auto'"),
        ("fields: {choice_separator: ''}", "key fields.choice_separator: "),
        ("statement: apend", "key statement: input should be 'auto', 'fill-in-the-blank' or 'append', not 'apend'"),
        ("number_of_choices: 1", "key number_of_choices: "),
        ("number_of_choices: all", "or input should be 'any', not 'all'"),
        ("format: xlsx", "key format: input should be auto or one of csv, json, jsonl, metaqa, parquet, tsv, not 'xlsx'"),
        ("delimiter: ';;'", "key delimiter: "),
        ("name: [a]", "key name: "),
        ("- a", "declarations are `key: value` lines"),
        ("a: [", "my.yaml:1: not YAML"),
        ("a: !!python/object/apply:os.system ['true']", "not YAML"),
        ("inhouse_ids: ids.txt", "declare their file under splits.train"),
        ("{inhouse_ids: ids.txt, splits: {train: a, test: b}}", "keep one of them"),
    ],
)
def test_an_invalid_declaration_is_explained(tmp_path: Path, declaration: str, message: str) -> None:
    save(tmp_path / "q.jsonl", row())
    (tmp_path / "my.yaml").write_text(declaration, encoding="utf-8")
    with pytest.raises(UserError, match=r"my\.yaml") as raised:
        read_splits(tmp_path / "my.yaml")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_one_declaration_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give one of them"):
        read_splits(declare(tmp_path / "my.yaml"), "openbookqa")
    with pytest.raises(UserError, match=r"no\.yaml does not exist; name a YAML file of declarations"):
        read_splits(save(tmp_path / "q.jsonl", row()), tmp_path / "no.yaml")


@pytest.mark.parametrize(
    ("fields", "wrong", "message"),
    [
        ({"id": "nr"}, {}, "no id: looked for nr; the row has id, question, choices, answer."),
        ({"stem": "body.ask"}, {"body": {"aks": "?"}}, "no stem: looked for body.ask; the row has"),
        ({"choices": "options.list"}, {}, "no choices: looked for options.list"),
        ({"choices": "option_*"}, {}, "no choices: looked for option_*"),
        ({"choices": ["right", "wrong"]}, {"right": "x"}, "no choice 2: looked for wrong"),
        ({"choices": ["right", "wrong"]}, {"right": "x", "wrong": ""}, "at least two choices, this one has 1"),
        ({}, {"choices": {}, "answer": None}, "at least two choices"),
        ({"context": "fact"}, {}, "no fact: looked for fact"),
        ({"context": "fact"}, {"fact": " "}, "fact is empty"),
        ({}, {"choices": ["x", "x"], "answer": "x"}, "the answer 'x' is the text of choices 1 and 2; use its label"),
        ({"answer_as": "label"}, {"answer": "bank"}, "the answer 'bank' is none of the labels A, B."),
        ({"answer_as": "text"}, {"answer": "A"}, "the answer 'A' is none of the choices."),
        ({"answer_as": "index-from-0"}, {"answer": 2}, "the answer 2 is not a number from 0 to 1"),
        ({"answer_as": "index-from-1"}, {"answer": "0"}, "the answer '0' is not a number from 1 to 2"),
        ({"answer_as": "index-from-1"}, {"answer": "²"}, "the answer '²' is not a number from 1 to 2"),
        ({}, {"answer": True}, "the answer is neither"),
    ],
)
def test_a_row_that_does_not_fit_its_declaration(tmp_path: Path, fields: Any, wrong: dict[str, Any], message: str) -> None:
    save(tmp_path / "q.jsonl", row(**wrong))
    declaration = declare(tmp_path / "my.yaml", splits={"test": "q.jsonl"}, fields=fields)
    with pytest.raises(UserError, match=r"q\.jsonl:1: ") as raised:
        read_splits(declaration)
    assert message in str(raised.value)


def test_empty_cells_are_reported_by_row(tmp_path: Path) -> None:
    good = {"id": "1", "question": "Where?", "choices": ["a", "b"], "answer": "A"}
    wrong = [
        good,
        good | {"id": "2", "question": None},
        good | {"id": "3", "choices": ["a", None]},
        good | {"id": "4", "choices": None},
        good | {"id": None},
        good | {"id": "6", "answer": None},
        good,
    ]
    (tmp_path / "q.parquet").write_bytes(parquet(wrong))
    found = check_questions(tmp_path / "q.parquet")
    path = tmp_path / "q.parquet"
    assert found.problems == [
        f"{path}, row 2: the question is empty.",
        f"{path}, row 3: choice 2 is empty.",
        f"{path}, row 4: the choices are empty.",
        f"{path}, row 5: the id is empty.",
        f"{path}, row 7: the id '1' is already used in row 1.",
    ]
    assert (found.splits["test"].questions, found.splits["test"].answered) == (2, 1)
    numbers = pa.table({"id": [1, 2], "question": ["a?", "b?"], "choices": [["x", "y"]] * 2, "answer": [1.0, float("nan")]})
    pq.write_table(numbers, path)
    declaration = declare(tmp_path / "my.yaml", fields={"answer_as": "index-from-0"})
    assert [q.answer for q in read_questions(path, declaration)] == [1, None]
    pq.write_table(numbers.set_column(1, "question", pa.array([float("nan")] * 2)), path)
    with pytest.raises(UserError, match="row 1: the question is empty"):
        list(read_questions(path, declaration))


def test_the_number_of_choices_is_checked_where_it_is_declared(tmp_path: Path) -> None:
    save(tmp_path / "test.jsonl", row(1), row(2, choices=("a", "b", "c")))
    assert [len(q.choices) for q in read_splits(declare(tmp_path / "my.yaml", number_of_choices="any"))["test"]] == [2, 3]
    with pytest.raises(UserError, match=r"test\.jsonl:2: 3 choices; my declares 2"):
        read_splits(declare(tmp_path / "my.yaml", number_of_choices=2))


def test_a_declared_field_that_no_training_question_has_is_reported(tmp_path: Path) -> None:
    save(tmp_path / "train.jsonl", row(1), row(2))
    for field in ("answer", "concept"):
        with pytest.raises(UserError, match=rf"no training question of my has the {field} field golden; check its name"):
            read_splits(declare(tmp_path / "my.yaml", fields={field: "golden"}))
    declare(tmp_path / "my.yaml", fields={"answer": None})
    assert [q.answer for q in read_splits(tmp_path / "my.yaml")["train"]] == [None, None]


@given(kinds=st.lists(st.sampled_from(["good", "no JSON", "no stem", "no answer", "same id"]), max_size=30))
def test_all_problems_are_reported_and_all_valid_questions_counted(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "checked.jsonl"
    lines = [json.dumps(row("first"))]
    for number, kind in enumerate(kinds):
        lines.append(
            {
                "good": json.dumps(row(number)),
                "no JSON": "{",
                "no stem": json.dumps(row(number, question=" ")),
                "no answer": json.dumps(row(number, answer="Z")),
                "same id": json.dumps(row("first")),
            }[kind]
        )
    path.write_text("\n".join(lines), encoding="utf-8")
    found = check_questions(path)
    assert [problem.split(":")[1] for problem in found.problems] == [str(i + 2) for i, kind in enumerate(kinds) if kind != "good"]
    assert found.splits["test"].questions == 1 + kinds.count("good")
    if found.problems:
        with pytest.raises(UserError) as raised:
            read_splits(path)
        assert str(raised.value).startswith(found.problems[0])
        assert ("more: `mhgrn data check`" in str(raised.value)) == (len(found.problems) > 1)


def test_questions_in_more_than_one_split_are_counted(tmp_path: Path) -> None:
    save(tmp_path / "train.jsonl", row(1), row(2, question="Why?"), row(3, question="Who?"), row(4, question="Who?"))
    save(tmp_path / "dev.jsonl", row(5, choices=("river", "bank")), row(6, question="Why?", choices=("bank", "desk")))
    save(tmp_path / "test.jsonl", row(7, choices=("bank ", "river")), row(2, question="How?"))
    assert check_questions(tmp_path).repeated == 1


def test_declared_statements_and_concepts_are_kept_by_prepare(tmp_path: Path, starter_graph: KnowledgeGraph) -> None:
    save(tmp_path / "q.jsonl", row(1, question_concept="bank"), row(2))
    declaration = declare(tmp_path / "my.yaml", splits={"test": "q.jsonl"}, statement="append")
    data = prepare(declaration, starter_graph, tmp_path / "data", PrepareOptions(workers=1))
    assert [q.concept for q in PreparedData.load(tmp_path / "data").questions] == ["bank", None]
    assert (data.about["dataset"], data.about["settings"]["statement"]) == ("my", "append")
    lines = (tmp_path / "data" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert ["concept" in json.loads(line) for line in lines] == [True, False]
    asked = PrepareOptions(statement="fill-in-the-blank", workers=1, dataset=declaration)
    assert (
        prepare(tmp_path / "q.jsonl", starter_graph, tmp_path / "data", asked).about["settings"]["statement"] == "fill-in-the-blank"
    )
