"""Facts as sentences that a layperson reads: "A child is found in a classroom."

The wording is the ``statement`` of the relation in the schema. A placeholder may say which form a concept takes in it:

==================  ==============================================================
``{head}``          a noun with its article: a child, water, children, Paris
``{head:act}``      the same, and an action as a noun: playing football
``{tail:doing}``    the same, and any word that can be an action: swimming
``{tail:verb}``     an action after "can": play football
``{tail:done}``     an action after "can be": eaten
``{tail:to}``       a noun or an action after "wants": food, to play football
``{tail:bare}``     a noun without article, after "a kind of": schoolroom
``{tail:word}``     a word in quotes: “cold”
``{tail:plain}``    the words as they are: cold
==================  ==============================================================
"""

import re
from functools import lru_cache

from mhgrn.kg.graph import Fact
from mhgrn.kg.schema import STATEMENT_PLACEHOLDER, Schema
from mhgrn.kg.words import (
    ACRONYMS,
    ADVERBS,
    AFTER_VERB,
    AT,
    BEFORE_OBJECT,
    COMPOUNDS,
    DETERMINERS,
    IDIOMS,
    ING_NOUNS,
    LINKING,
    MASS,
    MASS_ENDINGS,
    NAME_PHRASES,
    NAMES,
    NOUN_VERBS,
    ON,
    PARTICIPLES,
    PLURALS,
    PREPOSITIONS,
    SINGULARS_IN_S,
    VERBS,
    WITH_THE,
)

_PLURAL_VERBS = {"is": "are", "has": "have", "does": "do", "was": "were", "goes": "go"}
_SOUNDS_LIKE_Y = re.compile(r"uni(?!n|m|d)|us[aeu]|uti|ur[ai]|ubi|eu|ewe|one|once")
_SILENT_H = ("hour", "honest", "honor", "honour", "heir")
_DOUBLED = frozenset("begin forget admit prefer control quit equip regret occur refer transfer commit permit".split())
_NAME_PHRASES = re.compile(rf"\b(?:{'|'.join(sorted(NAME_PHRASES)).replace('_', ' ')})\b", re.IGNORECASE)
_VOWEL_GROUP = re.compile("[aeiouy]+")


def label(name: str) -> str:
    """The name of a concept as words.

    >>> label("furniture_store"), label("new_york"), label("tv")
    ('furniture store', 'New York', 'TV')
    """
    words = " ".join(_spelled(word) for word in name.split("_"))
    return _NAME_PHRASES.sub(lambda found: found[0].title(), words)


def fact_sentence(schema: Schema, fact: Fact, are_names: bool = False) -> str:
    """A fact as a sentence.

    Args:
        schema: The relations of the graph.
        fact: The fact.
        are_names: Concepts are names of people, films and the like, which have no article.

    >>> conceptnet = Schema.shipped("conceptnet")
    >>> fact_sentence(conceptnet, Fact("child", "AtLocation", "classroom"))
    'A child is found in a classroom.'
    >>> fact_sentence(conceptnet, Fact("scissors", "UsedFor", "cut_paper"))
    'Scissors are used for cutting paper.'
    >>> fact_sentence(Schema.derived(["author"]), Fact("play", "author", "shakespeare"))
    'The author of a play is Shakespeare.'
    >>> fact_sentence(Schema.derived(["directed_by"]), Fact("titanic", "directed_by", "james_cameron"), are_names=True)
    'Titanic is directed by james cameron.'
    """
    relation = schema.relations[schema.lookup[fact.relation.lower()][0]] if fact.relation.lower() in schema.lookup else None
    if relation is None or relation.name != fact.relation:
        relation = next(one for one in schema.relations if one.name == fact.relation)
    statement = STATEMENT_PLACEHOLDER.sub(r"{\1:plain}", relation.statement) if are_names else relation.statement
    return state(statement, fact.head, fact.tail)


def state(statement: str, head: str, tail: str) -> str:
    """Fill the placeholders of a statement.

    >>> state("{head} is a {tail}", "Focal-onset_seizure", "Seizure"), state("{head} is a {tail}", "dog", "animal")
    ('Focal-onset seizure is a kind of Seizure.', 'A dog is a kind of animal.')
    >>> state("{head} wants {tail:to}", "dog", "play_outside")
    'A dog wants to play outside.'
    """
    statement = statement.replace(" is a {tail}", " is a kind of {tail:bare}")  # the tail has an article of its own
    if is_name(head):
        statement = statement.replace(" is a kind of {tail:bare}", " is {tail}")
    concepts = {"head": head, "tail": tail}
    text = ""
    was_plural = False
    parts = STATEMENT_PLACEHOLDER.split(statement)
    for i in range(0, len(parts), 3):
        literal = parts[i]
        if was_plural:
            literal = _for_plural(literal)
        if i + 2 >= len(parts):
            text += literal
            break
        side, form = parts[i + 1], parts[i + 2] or "noun"
        if literal.endswith(" found in ") and side == "tail":
            literal = literal.removesuffix("in ") + _place(concepts[side]) + " "
        said = phrase(concepts[side], form)
        if side == "head" and " kind of " in statement and _is_compound(head, tail):
            said = f"{_article(label(head))} {label(head)}"
        text += literal + said
        was_plural = form in ("noun", "act") and i == 0 and is_plural(concepts[side])
    text = text.strip().rstrip(".")
    first = 1 if text.startswith("“") else 0
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :] + "."


@lru_cache(1 << 14)
def phrase(name: str, form: str = "noun") -> str:
    """A concept in one of the forms of this module.

    >>> phrase("hour"), phrase("water"), phrase("children"), phrase("play_football", "act"), phrase("eat", "to")
    ('an hour', 'water', 'children', 'playing football', 'to eat')
    """
    words = label(name).split(" ")
    if form == "word":
        return f"“{' '.join(words)}”"
    if form == "plain" or not all(words):
        return " ".join(words)
    if form == "bare":
        return " ".join(words[1:] if words[0] in ("a", "an", "the") and len(words) > 1 else words)
    action = _base(words)
    if form == "done":
        return " ".join([participle(action[0]), *action[1:]] if action else words)
    action = action and _with_object(action)
    if form == "verb":
        return " ".join(action or words)
    if form == "to" and action and _is_action(words, is_likely=True):
        return " ".join(["to", *action])
    is_action = action and _is_action(words, is_likely=form != "noun")
    if action and (is_action or (form == "doing" and name not in MASS)):
        return " ".join([gerund(action[0]), *action[1:]])
    return _noun(name, words)


def is_name(name: str) -> bool:
    """Whether a concept is the name of a person, a place or a time."""
    return name in NAMES or name in NAME_PHRASES


def _is_title(name: str) -> bool:
    """Whether a name has capital letters, as labels of concepts have. It is said as it is spelled, without an article."""
    return name != name.lower()


def is_plural(name: str) -> bool:
    """Whether a concept is a plural noun.

    >>> [is_plural(name) for name in ("wheels", "four_wheels", "people", "bus", "glass", "pair_of_socks")]
    [True, True, True, False, False, False]
    """
    if is_name(name) or _is_title(name):
        return False
    words = name.replace("_", " ").split(" ")
    if _is_action(words, is_likely=False) or _is_activity(words):
        return False
    word = _head_noun(words)
    return word in PLURALS or (
        word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is", "ics")) and word not in SINGULARS_IN_S
    )


def gerund(verb: str) -> str:
    """The form of a verb in -ing.

    >>> [gerund(verb) for verb in ("cut", "eat", "make", "see", "lie", "open", "play", "be")]
    ['cutting', 'eating', 'making', 'seeing', 'lying', 'opening', 'playing', 'being']
    """
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and len(verb) > 2 and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    groups = _VOWEL_GROUP.findall(verb)
    is_short = len(groups) == 1 and len(groups[0]) == 1 and re.search("[^aeiouwxy]$", verb) and re.search("[aeiou].$", verb)
    return verb + verb[-1] + "ing" if is_short or verb in _DOUBLED else verb + "ing"


def participle(verb: str) -> str:
    """The form of a verb after "can be".

    >>> [participle(verb) for verb in ("eat", "bake", "carry", "plan", "open", "play")]
    ['eaten', 'baked', 'carried', 'planned', 'opened', 'played']
    """
    if verb in PARTICIPLES:
        return PARTICIPLES[verb]
    if verb.endswith("e"):
        return verb + "d"
    if re.search("[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return gerund(verb).removesuffix("ing") + "ed"


_BASES = {gerund(verb): verb for verb in VERBS}


def _base(words: list[str]) -> list[str] | None:
    """An action as its words with the verb in its base form; None if the first word is not a verb."""
    first, *rest = words[1:] if words[0] == "to" and len(words) > 1 else words
    if first in VERBS:
        return [first, *rest]
    if first in _BASES and not (rest and rest[-1] in COMPOUNDS) and first not in ING_NOUNS:
        return [_BASES[first], *rest]
    return None


def _with_object(action: list[str]) -> list[str]:
    """An action whose object or place, if it is one word, has its article: drive a car, climb on a chair.

    >>> [" ".join(_with_object(text.split())) for text in ("drive car", "go to store", "go to school", "run fast", "drink water")]
    ['drive a car', 'go to a store', 'go to school', 'run fast', 'drink water']
    """
    *before, last = action
    follows = before[-1] if len(before) == 2 and before[-1] in BEFORE_OBJECT else None
    if len(before) != 1 and follows is None:
        return action
    if follows is None and before[0] in LINKING:
        return action
    if last in ADVERBS or last in PREPOSITIONS or last.endswith("ly") or last in VERBS - NOUN_VERBS or (follows and last in IDIOMS):
        return action
    return [*before, *_noun(last.lower(), [last]).split(" ")]


def _is_action(words: list[str], is_likely: bool) -> bool:
    """Whether the words are an action and not a thing. ``is_likely``: the place in the sentence is one for actions."""
    first, *rest = words
    if first == "to" and rest:
        return True
    if first in _BASES:
        return _base(words) is not None
    if first not in VERBS:
        return False
    if not rest:
        return first not in NOUN_VERBS
    return is_likely or first not in NOUN_VERBS or rest[0] in AFTER_VERB


def _noun(name: str, words: list[str]) -> str:
    text = " ".join(words)
    if _is_title(name):
        return text
    if name in WITH_THE:
        return f"the {text}"
    head = _head_noun(words).lower()
    if is_name(name) or head in NAMES or words[0].lower() in DETERMINERS or words[0][:1].isdigit() or is_plural(name):
        return text
    if head in MASS or head.endswith(MASS_ENDINGS) or _is_activity(words) or _is_activity([head]):
        return text
    return f"{_article(text)} {text}"


def _is_activity(words: list[str]) -> bool:
    """Whether the first word is the form in -ing of any verb, and the words are not a thing such as a washing machine."""
    first = words[0]
    return first.endswith("ing") and len(first) > 5 and first not in ING_NOUNS and words[-1] not in COMPOUNDS


def _is_compound(head: str, tail: str) -> bool:
    """Whether a concept is named after its kind, as a visiting nurse is a nurse, and so not the act of visiting one."""
    return head.endswith(f"_{tail}") and _is_activity(head.split("_")) and tail not in MASS and not is_plural(tail)


def _article(text: str) -> str:
    """
    >>> [_article(text) for text in ("apple", "hour", "unicorn", "umbrella", "house", "x-ray", "uninvited guest")]
    ['an', 'an', 'a', 'an', 'a', 'an', 'an']
    """
    word = text.lower()
    if re.match("[aefhilmnorsx](-|$)", word) or word.startswith(_SILENT_H):
        return "an"
    return "an" if word[:1] in "aeiou" and not _SOUNDS_LIKE_Y.match(word) else "a"


def _head_noun(words: list[str]) -> str:
    """The noun that decides about the article: the last one before a preposition."""
    end = next((i for i, word in enumerate(words) if i and word in PREPOSITIONS), len(words))
    return words[end - 1]


def _place(name: str) -> str:
    word = _head_noun(name.split("_"))
    return "on" if word in ON else "at" if word in AT else "in"


def _for_plural(text: str) -> str:
    """The words after a plural subject."""
    match = re.match(r"( )(\w+)(.*)", text, re.DOTALL)
    if match is None:
        return text
    space, word, rest = match.groups()
    if word in _PLURAL_VERBS:
        plural = _PLURAL_VERBS[word]
    elif word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        plural = word[:-1]
    else:
        return text
    return space + plural + rest


def _spelled(word: str) -> str:
    if word in ACRONYMS:
        return word.upper()
    return word.capitalize() if word in NAMES else word
