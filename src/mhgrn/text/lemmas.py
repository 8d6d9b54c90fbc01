"""Words and their lemmas, and which concepts may be found in a text by them."""

import re
from functools import cache
from importlib.metadata import version

LEMMATISER = f"simplemma {version('simplemma')}"

_WORD = re.compile(r"\w+|[^\w\s]")

PRONOUNS = frozenset("i you he she it we they me him her us them my your his its our their mine yours hers ours theirs".split())
# A concept that begins or ends with one of these is never looked for.
_EDGE = frozenset("my you it its your i he she his her they them their our we".split())
# Lemmas that say nothing about what a text is about.
BLACKLIST = PRONOUNS | frozenset(
    "actually likely possibly want make my someone sometimes_people sometimes would want_to one something everybody somebody"
    " could could_be".split()
)
STOP_WORDS = frozenset(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its
    itself they them their theirs themselves what which who whom this that these those am is are was were be been being have
    has had having do does did doing a an the and but if or because as until while of at by for with about against between
    into through during before after above below to from up down in out on off over under again further then once here there
    when where why how all any both each few more most other some such no nor not only own same so than too very s t can will
    just don should now d ll m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn
    wasn weren won wouldn""".split()
)
LONGEST = 4  # words in a concept that is looked for


def tokenise(text: str) -> list[str]:
    """Lower-cased words and single marks; an underscore is a space.

    >>> tokenise("The cat's x-ray")
    ['the', 'cat', "'", 's', 'x', '-', 'ray']
    """
    return _WORD.findall(text.lower().replace("_", " "))


@cache
def dictionary() -> dict[str, str]:
    """Every word that the lemmatiser lists, in small letters, and its lemma."""
    from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

    listed = list(DefaultDictionaryFactory().get_dictionary("en").items())
    lemmas = {word.lower(): root.lower() for word, root in listed}
    # where a word is listed in capitals too ("AI", "ai"), the small letters count
    lemmas.update((word, root.lower()) for word, root in listed if word == word.lower())
    return lemmas


def lemma(word: str) -> str:
    """The dictionary form of a lower-cased word; a word that the dictionary lacks is its own.

    >>> lemma("desks"), lemma("children"), lemma("quokkas")
    ('desk', 'child', 'quokkas')
    """
    return dictionary().get(word, word)


def may_begin_or_end(word: str) -> bool:
    """Whether a concept that begins or ends with this word is looked for."""
    return word not in _EDGE


def says_nothing(word: str, root: str) -> bool:
    """Whether a word, given its lemma, is no reason to look for a concept."""
    return word in STOP_WORDS or root in STOP_WORDS or root in BLACKLIST


def lemmatise(text: str) -> tuple[str, ...]:
    return tuple(lemma(word) for word in tokenise(text))


def concept_pattern(name: str) -> tuple[str, ...] | None:
    """The lemmas by which a concept is found in a text; None for one that is never looked for.

    >>> concept_pattern("furniture_store"), concept_pattern("it"), concept_pattern("one_of_these_very_long_names")
    (('furniture', 'store'), None, None)
    """
    words = tokenise(name)
    if not 1 <= len(words) <= LONGEST or not (may_begin_or_end(words[0]) and may_begin_or_end(words[-1])):
        return None
    lemmas = tuple(lemma(word) for word in words)
    return None if all(map(says_nothing, words, lemmas)) else lemmas
