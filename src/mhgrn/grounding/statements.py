"""Statements: a question and one of its choices as one sentence to ground. The text encoder does not read statements."""

import re
from functools import lru_cache

WH_WORDS = ("which", "what", "where", "when", "how", "who", "why")
BLANK = "___"
BLANKS = re.compile("__+")
# The word directly before the question mark, and anywhere.
_FINAL = {word: re.compile(rf"\b{word}\?", re.IGNORECASE) for word in WH_WORDS}
_INNER = {word: re.compile(rf"\b{word}[ ,]", re.IGNORECASE) for word in WH_WORDS}


def append(stem: str, choice: str) -> str:
    """Return OpenBookQA's statement: the stem followed by the choice."""
    return f"{stem} {choice}"


def fill_in_the_blank(stem: str, choice: str) -> str:
    """Return CommonsenseQA's statement: the choice replaces the question word.

    >>> fill_in_the_blank("Where would a child sit at a desk?", "Schoolroom")
    'Schoolroom would a child sit at a desk.'
    >>> fill_in_the_blank("The fox walked from the city into the forest, what was it looking for?", "Pretty flowers.")
    'The fox walked from the city into the forest, pretty flowers was it looking for.'
    """
    parts, begins_sentence, is_last = _around_blanks(stem)
    choice = choice[:1].upper() + choice[1:] if begins_sentence else choice.lower()
    return (choice if is_last else choice.rstrip(".")).join(parts)


@lru_cache(maxsize=16)  # the choices of a question follow each other; more would keep long texts
def _around_blanks(stem: str) -> tuple[list[str], bool, bool]:
    """Split a stem at its blanks; return the parts, whether a blank begins a sentence, and whether one is at the end."""
    text = with_blank(stem)
    return BLANKS.split(text), text.startswith(BLANK) or f". {BLANK}" in text, text.endswith(BLANK)


def with_blank(question: str) -> str:
    """Return the question with a blank in the place of its answer.

    >>> with_blank("What's the opposite of hot?")
    '___ is the opposite of hot.'
    """
    question = question.replace("\u2019", "'").replace("What's", "What is").replace("whats", "what").replace("U.S.", "US")
    if (found := _question_word(question)) is not None:
        start, end = found
        text = question[:-1] + "." if question.endswith("?") else question
        after = re.sub(r"^( of the following| of these)", "", text[end:])
        text = text[:start] + BLANK + after
    elif " them called?" in question:
        text = question.replace(" them called?", f" {BLANK}.")
    elif " meaning he was not?" in question:
        text = question.replace(" meaning he was not?", f" he was not {BLANK}.")
    elif " one of these?" in question:
        text = question.replace(" one of these?", f" {BLANK}.")
    elif not question.endswith((".", "?")):
        text = f"{question} {BLANK}"
    else:
        text = re.sub(r" this[ ?]", f" {BLANK} ", question)
    if "_" not in text:
        text = f"{question.rstrip('.? ')} {BLANK}"
    return text


def _question_word(question: str) -> tuple[int, int] | None:
    """Return the span of the question word: directly before the question mark, or else the earliest without a later full stop."""
    sentence = question.rfind(".") + 1
    last_sentence = question.rfind(".", 0, len(question.rstrip(". "))) + 1  # full stops may follow the question mark
    earliest: tuple[int, int] | None = None
    lowered = question.lower()
    for word in WH_WORDS:
        # beyond ASCII there are letters that only a regular expression equates with these
        if (word not in lowered and question.isascii()) or (word == "who" and "people who" in lowered):
            continue
        if final := _FINAL[word].search(question, last_sentence):
            return final.start(), final.start() + len(word)
        inner = _INNER[word].search(question, sentence)
        if inner and (earliest is None or inner.start() < earliest[0]):
            earliest = inner.start(), inner.start() + len(word)
    return earliest


BUILDERS = {"fill-in-the-blank": fill_in_the_blank, "append": append}
