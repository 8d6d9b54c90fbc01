"""Multiple-choice questions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import normalized
from mhgrn.grounding.statements import BLANKS
from mhgrn.printing import shortened, shown
from mhgrn.questions.fields import FieldNames, first, is_empty, letter

# Limits that bound the time and memory of an answer. Ordinary questions have a few hundred characters.
LONGEST_STEM = 100_000  # characters
LONGEST_CHOICE = 10_000  # characters
MOST_CHOICES = 1_000
LARGEST = 1_000_000  # characters of a question's statements: each consists of the stem and one choice, once for each blank (__)
MOST_HIDDEN = 100  # facts
_EXPANDED = 18  # characters that one becomes by normalization, at most

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Question:
    """A question with its choices.

    Args:
        id: Identifies the question in its dataset.
        stem: The question without its choices.
        choices: The texts of the choices.
        answer: The index of the correct choice, counted from 0. None: unknown.
        labels: The names of the choices. Empty: A, B, C, …
        concept: The concept that the question was written about, if the dataset says it.
        hide: Facts (head, relation, tail), by names, that are hidden from the subgraphs of this question, with all other facts
            between the same two concepts. Facts that the graph lacks are ignored.

    A stem has at most 100,000 characters, a choice 10,000, and a question 1,000 choices and 1,000,000 characters in all its
    statements (stem and choice, for each choice). Longer questions raise a :class:`~mhgrn.errors.UserError`.

    >>> Question("q1", "Where would a child sit at a desk?", ("schoolroom", "patio"), answer=0).label(0)
    'A'
    """

    id: str
    stem: str
    choices: tuple[str, ...]
    answer: int | None = None
    labels: tuple[str, ...] = ()
    concept: str | None = None
    hide: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_size(self.stem, self.choices)

    @classmethod
    def asked(cls, stem: str, choices: Sequence[str]) -> Self:
        """A question that a user asks: validated, without an answer.

        >>> Question.asked("Where would a child sit at a desk? ", ["schoolroom", "patio"]).stem
        'Where would a child sit at a desk?'
        """
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise UserError(f"the choices are {shortened(choices)}; give a list of texts.")
        return cls("", *checked(stem, list(choices)))

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], fields: FieldNames = FieldNames(), number: int = 1) -> Self:
        """A question from a row of a dataset, in any of the forms that question files may have.

        Args:
            row: For example ``{"question": …, "choices": […], "answer": …}``, or a row of CommonsenseQA.
            fields: The names of the row's values.
            number: The id of a row that has none.

        >>> Question.from_dict({"question": "Where does a fish live?", "choices": ["sea", "tree"], "answer": "sea"}).answer
        0
        """
        values = dict(row)
        _, stem = first(values, fields.stem, "stem")
        given, labels = fields.choices_of(values)
        stem, choices = checked(stem, given, may_repeat=True)  # some published datasets repeat a choice
        for label in labels:
            if label:
                _short("a label", label)
        if len(set(labels)) < len(labels):
            raise UserError(f"two choices have the same label ({shown(', '.join(labels))}).")
        context = [cleaned_text(name, first(values, [name], name)[1]) for name in fields.context]
        sentences = [text if text.endswith((".", "!", "?")) else f"{text}." for text in context]
        _, concept = first(values, fields.concept)
        return cls(
            row_id(values, number, fields),
            " ".join([*sentences, stem]),
            choices,
            fields.answer_of(values, choices, labels),
            labels,
            None if is_empty(concept) else _short("the concept", concept),
            _facts(first(values, fields.hide)[1]),
        )

    def label(self, choice: int) -> str:
        """The label of a choice, as the dataset names it."""
        return self.labels[choice] if self.labels else letter(choice)


def checked(stem: object, choices: list[Any], may_repeat: bool = False) -> tuple[str, tuple[str, ...]]:
    """Stem and choices without surrounding spaces; a ``UserError`` if they are not a question."""
    cleaned = cleaned_text("the question", stem)
    if len(choices) < 2:
        raise UserError(f"a question needs at least two choices, this one has {len(choices)}.")
    texts = tuple(cleaned_text(f"choice {number}", choice) for number, choice in enumerate(choices, start=1))
    _check_size(cleaned, texts)
    if len(set(texts)) < len(texts) and not may_repeat:
        repeated = next(text for text in texts if texts.count(text) > 1)
        raise UserError(f"the choice {shortened(repeated)} is given twice.")
    return cleaned, texts


def checked_stem(stem: object) -> str:
    """The text of a question without choices, without surrounding spaces; a ``UserError`` if it is none."""
    cleaned = cleaned_text("the question", stem)
    _length("the question", cleaned, LONGEST_STEM)
    return cleaned


def _check_size(stem: str, choices: Sequence[str]) -> None:
    if len(choices) > MOST_CHOICES:
        raise UserError(f"the question has {len(choices):,} choices; at most {MOST_CHOICES:,} are allowed.")
    sizes = [_length("the question", stem, LONGEST_STEM)]
    sizes += [_length(f"choice {number}", choice, LONGEST_CHOICE) for number, choice in enumerate(choices, start=1)]
    blanks = max(1, len(BLANKS.findall(stem)))
    if (total := sizes[0] * len(choices) + blanks * sum(sizes[1:])) > LARGEST:
        raise UserError(
            f"the question with each of its {len(choices):,} choices has {total:,} characters; at most {LARGEST:,} are allowed."
        )


def _length(what: str, text: str, most: int) -> int:
    """Return the number of characters of a text as grounding reads it; a ``UserError`` if there are too many."""
    length = len(text)
    if most / _EXPANDED < length <= most and not text.isascii():
        length = max(length, len(normalized(text)))
    if length > most:
        raise UserError(f"{what} has {length:,} characters; at most {most:,} are allowed.")
    return length


def cleaned_text(what: str, text: object) -> str:
    """A text without surrounding spaces; a ``UserError`` that begins with ``what`` if it is none."""
    if text is not None and not isinstance(text, str):
        raise UserError(f"{what} is not text but {shortened(text)}.")
    if text is None or not text.strip():
        raise UserError(f"{what} is empty.")
    if not text.isascii() and _SURROGATE.search(text):
        raise UserError(f"{what} contains half a character (a lone surrogate).")
    return text.strip()


def _short(what: str, text: object) -> str:
    """An id, a label or a concept."""
    cleaned = cleaned_text(what, text)
    _length(what, cleaned, LONGEST_CHOICE)
    return cleaned


def _facts(given: object) -> tuple[tuple[str, str, str], ...]:
    """Facts as tuples of names."""
    if is_empty(given):
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise UserError(f"the hidden facts are {shortened(given)}; give a list of [head, relation, tail].")
    if len(given) > MOST_HIDDEN:
        raise UserError(f"the question hides {len(given):,} facts; at most {MOST_HIDDEN:,} are allowed.")
    for fact in given:
        if not isinstance(fact, Sequence) or isinstance(fact, str) or len(fact) != 3:
            raise UserError(f"the hidden fact {shortened(fact)} is not a list of head, relation and tail.")
    return tuple((_short("a head", h), _short("a relation", r), _short("a tail", t)) for h, r, t in given)


def row_id(row: dict[str, Any], number: int, fields: FieldNames) -> str:
    """The id of a row; rows without one are numbered."""
    name, value = first(row, fields.id, "id" if "id" in fields.model_fields_set else "")
    if not name and not any(name in row for name in fields.id):
        return str(number)
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise UserError(f"the {name} is neither text nor an integer but {shortened(value)}.")
    return _short("the id", None if value is None else str(value))
