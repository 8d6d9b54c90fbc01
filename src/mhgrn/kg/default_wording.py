"""Wordings of relations that give none: made of the relation's name."""

import re

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def in_words(name: str) -> str:
    """Return a relation's name as words.

    >>> in_words("AtLocation"), in_words("made_of"), in_words("hasURL")
    ('at location', 'made of', 'has URL')
    """
    words = _CAMEL.sub(" ", name).replace("_", " ").replace("{", "(").replace("}", ")").split()
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words) or name


def default_templates(gloss: str) -> tuple[str, ...]:
    return (f"{{head}} {gloss} {{tail}}",)


def default_wordings(gloss: str) -> dict[str, tuple[str, ...]]:
    return {
        "ask_tail": (f"{{head}} {gloss} what?",),
        "ask_head": (f"What {gloss} {{tail}}?",),
        "describe_tail": (f"something that {{head}} {gloss}",),
        "describe_head": (f"something that {gloss} {{tail}}",),
    }


def default_statement(gloss: str, templates: tuple[str, ...]) -> str:
    """A statement made of the first template, or of the gloss.

    >>> [default_statement(gloss, default_templates(gloss)) for gloss in ("is near", "made of", "part of")]
    ['{head} is near {tail}', '{head} is made of {tail}', '{head} is a part of {tail}']
    >>> [default_statement(gloss, default_templates(gloss)) for gloss in ("treats", "author", "starred actors")]
    ['{head} treats {tail}', 'The author of {head} is {tail}', 'The starred actors of {head} include {tail}']
    """
    if templates != default_templates(gloss):
        return templates[0]
    words = gloss.split()
    first, last = (words[0], words[-1]) if words else ("", "")
    if first in _VERBAL or (first.endswith("s") and not first.endswith(("ss", "us", "is")) and len(first) > 3):
        return f"{{head}} {gloss} {{tail}}"
    is_noun = first.endswith("ed") and len(words) > 1 and not _SHORT & set(words[1:])
    if is_noun and last.endswith("s"):
        return f"The {gloss} of {{head}} include {{tail}}"
    if not is_noun and (first in _SHORT or first.endswith("ed") or first in _PARTICIPLES or last == "to"):
        return f"{{head}} is {gloss} {{tail}}"
    if last in _SHORT and len(words) > 1:
        return f"{{head}} is {'an' if first[0] in 'aeiou' else 'a'} {gloss} {{tail}}"
    return f"The {gloss} of {{head}} is {{tail}}"


_VERBAL = frozenset("is are was were has have had can cannot could may might must should will would does do did".split())
_SHORT = frozenset(
    "about above across after as at before behind below between by for from in inside into near next not of on over "
    "to under with within without".split()
)
_PARTICIPLES = frozenset("born built done found given grown held known made seen shown sold taken taught worn written".split())
