"""Tokens, lemmas, stop words, and the lemma pattern of a concept's name."""

import re
import unicodedata
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from mhgrn.compiled.pool import once
from mhgrn.io.atomic import write_bytes
from mhgrn.io.cache import user_cache
from mhgrn.io.fingerprint import file_fingerprint, fingerprint

RULES = 3  # version of this module's rules; increase it when a change of them changes what is found
LEMMATIZER = f"simplemma {version('simplemma')}, rules {RULES}"

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))  # soft hyphens, zero-width marks
# Curly quotes, the Unicode hyphen, and the underscore of concept names.
_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "_": " "})
_DROPPED = re.compile(r"(?<=\w)'s\b|(?<=s)'(?!\w)|(?<=\d),(?=\d{3}(?!\d))")  # dog's, James', 2,000
_WITHIN_WORDS = re.compile(r"(?<=\w)['-](?=\w)")  # x-ray, don't
_WORD = re.compile(r"\d+\.\d+|[\w\u0300-\u036f]+|[^\w\s\ud800-\udfff]")

PRONOUNS = frozenset("i you he she it we they me him her us them my your his its our their yours hers ours theirs".split())
# A concept whose name begins or ends with one of these is never searched for.
_EDGE = frozenset("my you it its your i he she his her they them their our we".split())
# Lemmas that carry no topic.
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
RULED = STOP_WORDS | BLACKLIST | _EDGE  # words with special rules
# Names of concepts leave these out: "ride_bike" is "ride a bike", "wait_turn" is "wait their turn".
DETERMINERS = frozenset("a an the my your his her its our their".split())
MOST_MARKS = 30  # combining marks in a row, as in Unicode's stream-safe text format; more are dropped
LONGEST = 4  # words of a concept that is searched for, at most

# Corrections of the dictionary: it gives the lemma of another word ("playe", "gan", "ski"), or treats what is mostly a verb as a
# noun ("buying"). Found in the questions of two published datasets.
_CORRECTED = dict(
    pair.split(">")
    for pair in """
    acting>act worse>bad baking>bake beating>beat breathing>breathe breeding>breed bringing>bring burning>burn buying>buy
    carving>carve crafted>craft cutting>cut deposited>deposit developed>develop drowning>drown feeding>feed filling>fill
    finding>find fixed>fix fixes>fix fixing>fix flooding>flood folding>fold freezing>freeze frolicked>frolic
    frolicking>frolic gathering>gather gone>go growing>grow guarding>guard hanging>hang harvesting>harvest healing>heal
    hearing>hear heating>heat hunting>hunt labelled>label labelling>label longed>long mimicked>mimic mimicking>mimic
    mixed>mix mixes>mix mixing>mix morals>moral panicked>panic panicking>panic playing>play preferred>prefer
    preferring>prefer recycling>recycle signalled>signal signalling>signal singing>sing sitting>sit skies>sky smoking>smoke
    smoothed>smooth smoothing>smooth splitting>split springing>spring swearing>swear swore>swear swinging>swing
    thanked>thank thanking>thank thinking>think trading>trade travelled>travel travelling>travel winged>wing writing>write
    """.split()
) | {word: word for word in "bare cola dice mars opera spade span weed".split()}
_AMERICAN = dict(
    pair.split(">")
    for pair in """
    aeroplane>airplane aluminium>aluminum cheque>check cosy>cozy doughnut>donut draught>draft grey>gray jewellery>jewelry
    kerb>curb manoeuvre>maneuver mould>mold moustache>mustache mum>mom plough>plow programme>program pyjamas>pajamas
    sceptic>skeptic sceptical>skeptical storey>story sulphur>sulfur tyre>tire
    """.split()
)
# British endings and their American forms, used if the result is a word.
_AMERICAN_ENDINGS = [
    (re.compile(pattern), american)
    for pattern, american in (
        (r"our(?=\w*$)", "or"),  # colour, favourite
        (r"(?<=[^aeiou])re$", "er"),  # theatre
        (r"(?<=[iy])s(?=(e|er|ation)$)", "z"),  # organise, analyse, organisation
        (r"ogue$", "og"),  # catalogue
        (r"ence$", "ense"),  # licence
        (r"ll(?=(er|or|ing|ed)?$)", "l"),  # traveller
        (r"[ao]e(?=\w{3})", "e"),  # anaesthetic, foetus
    )
]
_MAY_BE_BRITISH = re.compile(r"our|re$|[iy]s(e|er|ation)$|ogue$|ence$|ll|[ao]e")
_SHORTEST_BRITISH = 5  # letters; "four" and "acre" are not spellings of "for" and "acer"


def tokenize(text: str) -> list[str]:
    """Split a text into lower-cased words and punctuation marks, in Unicode form NFKC.

    Underscores, and hyphens and apostrophes within words, are spaces. Possessive endings and commas in numbers are dropped.

    >>> tokenize("The cat's x-ray (James’ idea) cost 2,000.")
    ['the', 'cat', 'x', 'ray', '(', 'james', 'idea', ')', 'cost', '2000', '.']
    """
    if text.isascii():
        text = text.lower().replace("_", " ")
        if text.replace(" ", "").isalpha():  # only words, as in most names
            return text.split()
    else:
        text = normalized(text).translate(_PLAIN)
    return _WORD.findall(_WITHIN_WORDS.sub(" ", _DROPPED.sub("", text)))


def normalized(text: str) -> str:
    """Return a text in lower case and in Unicode form NFKC."""
    text = unicodedata.normalize("NFKC", _with_few_marks(text.translate(_UNSEEN))).lower()
    return unicodedata.normalize("NFKC", text)


def _with_few_marks(text: str) -> str:
    """Drop combining marks after the first ``MOST_MARKS`` of a row: normalization sorts a row in quadratic time."""
    if len(text) <= MOST_MARKS:
        return text
    is_mark = {c: all(map(unicodedata.combining, unicodedata.normalize("NFKD", c))) for c in set(text)}
    if not any(is_mark.values()):
        return text
    kept, row = [], 0
    for c in text:
        row = row + 1 if is_mark[c] else 0
        if row <= MOST_MARKS:
            kept.append(c)
    return "".join(kept)


@once
def dictionary() -> dict[str, str]:
    """Return the lemma of each known word, in lower case. The dictionary is made once and stored in the user's cache folder."""
    file = None
    with suppress(OSError, RuntimeError):  # no cache folder
        file = user_cache() / f"lemmas-{fingerprint(LEMMATIZER, file_fingerprint(Path(__file__)))}.txt"
        if (kept := _unpacked(file.read_bytes())) is not None:
            return kept
    made = _dictionary()
    if file is not None:
        with suppress(OSError):
            write_bytes(file, _packed(made))
    return made


def _packed(lemmas: dict[str, str]) -> bytes:
    """Return a checksum, the words, and their lemmas, one per line."""
    text = "\n".join([*lemmas, *lemmas.values()]).encode()
    return fingerprint(text).encode() + b"\n" + text


def _unpacked(content: bytes) -> dict[str, str] | None:
    """Return the dictionary of a packed text; None if it is damaged."""
    mark, _, text = content.partition(b"\n")
    if mark != fingerprint(text).encode():
        return None
    lines = text.decode().split("\n")
    return dict(zip(lines[: len(lines) // 2], lines[len(lines) // 2 :], strict=True))


def _dictionary() -> dict[str, str]:
    from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

    small: dict[str, str] = {}
    capital: dict[str, str] = {}
    for word, root in DefaultDictionaryFactory().get_dictionary("en").items():
        (small if word.islower() else capital)[word.lower()] = root.lower()
    lemmas = capital | small | _CORRECTED  # lower case wins where a word is listed in upper case too ("AI", "ai")
    american = {root: spelling for root in set(lemmas.values()) if (spelling := _american(root, lemmas)) is not None}
    found = {word: american.get(root, root) for word, root in lemmas.items()}
    # lemmas and words with special rules are words too
    return {text: text for text in [*found.values(), *sorted(RULED)]} | found


def _american(root: str, lemmas: dict[str, str]) -> str | None:
    """Return the lemma of the American spelling of a British lemma; None if there is none."""
    if len(root) >= _SHORTEST_BRITISH and _MAY_BE_BRITISH.search(root):
        for british, american in _AMERICAN_ENDINGS:
            spelling = british.sub(american, root, count=1)
            if spelling != root and spelling in lemmas:
                return lemmas[spelling]
    return None


def lemma(word: str) -> str:
    """Return the lemma of a lower-cased word; the word itself if the dictionary lacks it.

    British and American spellings have the same lemma.

    >>> lemma("desks"), lemma("children"), lemma("colours"), lemma("quokkas")
    ('desk', 'child', 'color', 'quokkas')
    """
    return dictionary().get(word, word)


def is_english(word: str) -> bool:
    """Return whether the dictionary has a lower-cased word."""
    return word in dictionary()


@once
def _inflections() -> dict[str, list[str]]:
    words: dict[str, list[str]] = {}
    for word, root in dictionary().items():
        words.setdefault(root, []).append(word)
    return words


def inflected(root: str) -> list[str]:
    """Return the words of the dictionary with this lemma.

    >>> sorted(inflected("desk"))
    ['desk', 'desked', 'desking', 'desks']
    """
    return _inflections().get(root, [])


def respelt(root: str) -> str:
    """Return a lemma without accents and by its American name, for texts whose lemma is not in the graph.

    >>> respelt("café"), respelt("tyre"), respelt("hour")
    ('cafe', 'tire', 'hour')
    """
    letters = (c for c in unicodedata.normalize("NFD", root) if not unicodedata.combining(c))
    plain = root if root.isascii() else unicodedata.normalize("NFC", "".join(letters))
    return _AMERICAN.get(plain, plain)


def may_begin_or_end(word: str) -> bool:
    """Return whether a concept may begin or end with this word."""
    return word not in _EDGE


def says_nothing(word: str, root: str) -> bool:
    """Return whether a word with this lemma is a stop word or carries no topic."""
    return word in STOP_WORDS or root in STOP_WORDS or root in BLACKLIST


def lemmatize(text: str) -> tuple[str, ...]:
    """Return the lemmas of a text's tokens."""
    return tuple(lemma(word) for word in tokenize(text))


def concept_pattern(name: str) -> tuple[str, ...] | None:
    """Return the lemmas by which a concept is found in a text; None for a concept that is never searched for.

    >>> concept_pattern("furniture_store"), concept_pattern("it"), concept_pattern("one_of_these_very_long_names")
    (('furniture', 'store'), None, None)
    """
    words = tokenize(name)
    if not 1 <= len(words) <= LONGEST or not (may_begin_or_end(words[0]) and may_begin_or_end(words[-1])):
        return None
    lemmas = tuple(lemma(word) for word in words)
    return None if all(map(says_nothing, words, lemmas)) else lemmas
