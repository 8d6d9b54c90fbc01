"""Field names of a dataset's rows, and the forms in which rows give choices and answers."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mhgrn.errors import UserError
from mhgrn.printing import shortened, shown
from mhgrn.questions.reader import Row
from mhgrn.settings import Settings


def as_list(value: object) -> object:
    """A list of names; a single name may be given without a list, and null for no name."""
    return [] if value is None else [value] if isinstance(value, str) else value


def _as_choices(value: object) -> object:
    """One field with all choices, or a list of fields with one choice each."""
    if isinstance(value, tuple):  # several such places, as the default has them
        return value
    return [] if value is None else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(as_list)]


class FieldNames(Settings):
    """The names of a row's fields. A dot leads into a nested object. Of several names, the first with a value is used.

    >>> fields = FieldNames(stem="q.text", choices=["right", "wrong*"], answer="right")
    >>> row = {"q": {"text": "Where?"}, "right": "here", "wrong1": "there", "wrong2": "nowhere"}
    >>> fields.choices_of(row)
    (['here', 'there', 'nowhere'], ('A', '1', '2'))
    """

    id: Names = Field(("id",), description="rows without it are numbered")
    stem: Names = ("question.stem", "question_stem", "stem", "question")
    context: Names = Field((), description="texts that are put before the stem")
    choices: Annotated[tuple[str | tuple[str, ...], ...], BeforeValidator(_as_choices)] = Field(
        ("question.choices", "choices", ("choice_*",)),
        description="a field with all choices (a list, an object, or one text with separators), or a list of fields with one each",
    )
    choice_text: str = Field("text", description="field of the text, if a choice is an object")
    choice_label: str = Field("label", description="field of the label, if a choice is an object")
    choice_separator: str = Field("|", min_length=1, description="separates choices that are given as one text")
    answer: Names = Field(("answerKey", "answer"), description="may be absent or empty")
    answer_as: Literal["auto", "label", "text", "index-from-0", "index-from-1"] = Field(
        "auto", description="form of the answer; auto: a label or the text of a choice"
    )
    answers: Names = Field(("answers", "answer"), description="of questions without choices: a list of names, or one name")
    concept: Names = Field(("question.question_concept", "question_concept"), description="the concept of a question, for reports")
    hide: Names = Field(("hide",), description="facts to hide from the subgraphs of a question: lists of head, relation, tail")

    def choices_of(self, row: Row) -> tuple[list[Any], tuple[str, ...]]:
        """The texts and labels of a row's choices, not yet validated."""
        looked_for: list[str] = []
        for place in self.choices:
            names = [place] if isinstance(place, str) else place
            if isinstance(place, str) and "*" not in place:
                value = value_at(row, place)
                found = None if value is None else self._listed(place, value)
            else:
                found = _in_columns(row, names)
            if found is not None:
                break
            looked_for += names
        else:
            empty = any(name in row for name in looked_for)
            raise UserError("the choices are empty." if empty else lacks(row, looked_for, "choices"))
        texts, labels = found
        if labels and len(labels) != len(texts):
            raise UserError(f"{len(labels)} labels for {len(texts)} choices.")
        given = labels or [None] * len(texts)
        return texts, tuple(letter(i) if label is None else str(label) for i, label in enumerate(given))

    def _listed(self, name: str, value: object) -> tuple[list[Any], list[Any]]:
        """Choices in one field: a list of texts or objects, an object of lists or of labeled texts, or one text with separators."""
        if isinstance(value, str):
            return value.split(self.choice_separator), []
        if isinstance(value, dict):
            texts, labels = value.get(self.choice_text), value.get(self.choice_label)
            if isinstance(texts, list):
                return texts, labels if isinstance(labels, list) else []
            return _without_empty_end(list(value.items()))
        if not isinstance(value, list):
            raise UserError(f"{name} is not a list of choices but {shortened(value)}.")
        if not all(isinstance(choice, dict) for choice in value):
            return value, []
        texts = [value_at(choice, self.choice_text) for choice in value]
        if texts and all(text is None for text in texts):
            found = shown(", ".join(value[0]))
            raise UserError(f"the {name} have no field {shortened(self.choice_text)} but {found}; declare `choice_text` in YAML.")
        return texts, [value_at(choice, self.choice_label) for choice in value]

    def answer_of(self, row: Row, texts: Sequence[str], labels: Sequence[str]) -> int | None:
        """The index of the correct choice; None if the row does not give it."""
        name, value = first(row, self.answer)
        if is_empty(value):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # columns of integers with missing values are read as floats
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise UserError(f"the {name} is neither a label, a number nor a text but {shortened(value)}.")
        key = str(value).strip()
        if self.answer_as.startswith("index"):
            start = int(self.answer_as[-1])
            if not (key.isascii() and key.isdecimal() and start <= int(key) < start + len(texts)):
                raise UserError(f"the {name} {shortened(value)} is not a number from {start} to {start + len(texts) - 1}.")
            return int(key) - start
        same: list[int] = []
        if self.answer_as != "text":
            same = [i for i, label in enumerate(labels) if label == key]
            same = same or [i for i, label in enumerate(labels) if label.casefold() == key.casefold()]
        if not same and self.answer_as != "label":
            same = [i for i, text in enumerate(texts) if text == key]
        if len(same) == 1:
            return same[0]
        if same:
            places = shown(" and ".join(str(i + 1) for i in same))
            raise UserError(f"the {name} {shortened(value)} is the text of choices {places}; use its label.")
        names = "choices" if self.answer_as == "text" else f"labels {shown(', '.join(labels))}"
        nor = ", nor a choice's text" if self.answer_as == "auto" else ""
        hint = " If it is an index, declare `answer_as: index-from-0` or `index-from-1`." if key.isdecimal() else ""
        raise UserError(f"the {name} {shortened(value)} is none of the {names}{nor}.{hint}")


def value_at(row: Row, name: str) -> Any:
    """The value of a field; a dotted name may lead into nested objects. None if there is no such field.

    >>> value_at({"question": {"stem": "Where?"}}, "question.stem")
    'Where?'
    """
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def first(row: Row, names: Sequence[str], needed: str = "") -> tuple[str, Any]:
    """The first of ``names`` with a value in the row, and the value. If it is ``needed``, the row must have one of the fields."""
    for name in names:
        value = value_at(row, name)
        if not _is_missing(value) and not isinstance(value, dict):
            return name, value
    if needed and not any(name in row for name in names):
        raise UserError(lacks(row, names, needed))
    return "", None


def lacks(row: Row, names: Sequence[str], what: str) -> str:
    has = shown(", ".join(map(str, row))) or "no fields"
    return f"no {what}: looked for {' or '.join(names)}; the row has {has}. Declare its name under `fields` in YAML."


def letter(choice: int) -> str:
    """The label of a choice that has none."""
    return chr(ord("A") + choice) if choice < 26 else str(choice + 1)


def is_empty(value: object) -> bool:
    return _is_missing(value) or (isinstance(value, str) and not value.strip())


def _is_missing(value: object) -> bool:
    """Whether a value is missing: None, or NaN, which tables contain instead and which differs from itself."""
    return value is None or (isinstance(value, float) and value != value)


def _in_columns(row: Row, names: Sequence[str]) -> tuple[list[Any], list[Any]] | None:
    """Choices in separate fields, labeled by what ``*`` matches; None if there are no such fields."""
    found: list[tuple[str, Any]] = []
    for name in names:
        start, star, end = name.partition("*")
        if star:
            columns = [c for c in row if c.startswith(start) and c.endswith(end) and len(c) > len(start + end)]
            found += [(column[len(start) : len(column) - len(end)].upper(), row[column]) for column in columns]
        elif (value := value_at(row, name)) is None and name.partition(".")[0] not in row:
            raise UserError(lacks(row, [name], f"choice {len(found) + 1}"))
        else:
            found.append((letter(len(found)), value))
    return _without_empty_end(found) if found else None


def _without_empty_end(choices: list[tuple[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Texts and labels, without empty ones at the end: a question may have fewer choices than the table has columns."""
    end = next((i + 1 for i in reversed(range(len(choices))) if not is_empty(choices[i][1])), 0)
    return [text for _, text in choices[:end]], [label for label, _ in choices[:end]]
