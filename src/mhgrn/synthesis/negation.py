"""Other wordings of questions: "Which of these …", and questions for what does not fit, "Where would you not find a fish?"."""

import re

SLOT = r'"?\{(?:head|tail)\}"?'
NEGATIVE = re.compile(r"\b(?:not|no|never|cannot|unable|dislikes?|avoid|rather|without)\b", re.IGNORECASE)
TO_YOU = re.compile(r"\b(would|could|should|might|can|do) you\b")
AUXILIARY = re.compile(
    rf"^((?:\w+ ){{1,4}}?(?:is|are|can|could|might|may|would|should|will))( {SLOT}(?= [^ ]))?(?= )", re.IGNORECASE
)
OF_SLOT = re.compile(rf"^(\w+(?: \w+){{0,3}} (?:does|do) {SLOT})(?= )", re.IGNORECASE)
VERB = re.compile(r"^(who or what|which of these|what|who) (\w+s)(?= )", re.IGNORECASE)
WHAT = re.compile(r"^(?:who or what|what)(?= (?!kind|sort|type|subject))", re.IGNORECASE)
BASE = {"has": "have", "goes": "go", "does": "do"}


def of_these(question: str) -> str:
    """The question with "Which of these" instead of "What".

    >>> of_these("What is milk used for?")
    'Which of these is milk used for?'
    """
    return WHAT.sub("Which of these", question)


def negated(question: str, pick: int = 0) -> str | None:
    """A question template that asks for what does not fit; None if there is no rule for its form.

    Args:
        question: The template, with ``{head}`` or ``{tail}``.
        pick: Which wording to use; any number is valid.

    >>> negated("Where would you find {head}?")
    'Where would you not find {head}?'
    >>> negated("What is {head} used for?", 1)
    'Which of these is {head} not used for?'
    >>> negated("Who or what wants {tail}?")
    'Who or what does not want {tail}?'
    """
    if NEGATIVE.search(question):
        return None
    if pick % 2:
        question = of_these(question)
    if TO_YOU.search(question):
        return TO_YOU.sub(r"\1 you never" if pick // 2 % 3 == 0 and pick else r"\1 you not", question, count=1)
    for form in (OF_SLOT, AUXILIARY):
        if found := form.match(question):
            return re.sub(r"\bcan not\b", "cannot", f"{found.group()} not{question[found.end() :]}")
    if found := VERB.match(question):
        verb = found[2].lower()
        return f"{found[1]} does not {BASE.get(verb, verb[:-1])}{question[found.end() :]}"
    return None
