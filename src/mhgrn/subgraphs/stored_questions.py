"""The description and the questions of prepared data, checked when they are read."""

from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.grounding.statements import BUILDERS
from mhgrn.io.stored import parse_json
from mhgrn.kg.schema import MAX_RELATIONS
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import SubgraphLimits


def check_about(about: dict[str, Any], path: Path) -> None:
    """Refuse a description whose values have wrong types."""

    def is_number(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def numbers(value: Any) -> list[Any]:
        return list(value.values()) if isinstance(value, dict) else [value]

    problems = {
        "splits": not all(type(count) is int and 0 <= count < 2**31 for count in about["splits"].values()),
        "statements": not 0 <= about["statements"] < 2**31,
        "relations": not 1 <= about["relations"] <= MAX_RELATIONS,
        "graph": "\0" in about["graph"],
        "report": not all(is_number(number) for value in about["report"].values() for number in numbers(value)),
        "settings": about["settings"].get("statement") not in list(BUILDERS),
    }
    for key, is_wrong in problems.items():
        if is_wrong:
            raise UserError(f"{path} is damaged (its {key}); prepare the questions again.")
    SubgraphLimits.of(about["settings"])


def stored_questions(text: str, path: Path) -> list[Question]:
    """The questions of ``questions.jsonl``, checked."""
    questions = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        row = parse_json(line.encode("utf-8"), Path(f"{path}:{number}"), "prepared dataset")
        try:
            questions.append(stored_question(row))
        except (TypeError, ValueError, KeyError):
            raise UserError(f"{path}:{number} is damaged (not a question); prepare the questions again.") from None
    return questions


def stored_question(row: Any) -> Question:
    """The question of a row. Anything else raises a TypeError, ValueError or KeyError."""
    choices, labels, answer = row["choices"], row.get("labels", []), row.get("answer")
    texts = [row["id"], row["stem"], *choices, *labels, *([row["concept"]] if row.get("concept") is not None else [])]
    if not isinstance(choices, list) or not isinstance(labels, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    if answer is not None and (type(answer) is not int or not 0 <= answer < len(choices)):
        raise ValueError
    if len(choices) < 2 or len(labels) not in (0, len(choices)):
        raise ValueError
    hide = tuple((head, relation, tail) for head, relation, tail in row.get("hide", []))
    if not all(isinstance(name, str) for fact in hide for name in fact):
        raise TypeError
    return Question(row["id"], row["stem"], tuple(choices), answer, tuple(labels), row.get("concept"), hide)
