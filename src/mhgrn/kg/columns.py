"""The columns of tables: which of them are head, relation, tail and weight."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown

ROLES = ("head", "relation", "tail", "weight")
NEEDED = ROLES[:3]
HEADERS = (
    ["head", "relation", "tail"],
    ["subject", "predicate", "object"],
    ["subject", "relation", "object"],
    ["start", "rel", "end"],
    ["source", "relation", "target"],
    ["h", "r", "t"],
    ["s", "p", "o"],
)
_SYNONYMS = {
    "head": {"head", "subject", "subj", "source", "src", "start", "from"},
    "relation": {"relation", "relationship", "rel", "predicate", "pred", "edge", "property", "verb", "link"},
    "tail": {"tail", "object", "obj", "target", "dst", "dest", "destination", "end", "to"},
    "weight": {"weight", "w", "score", "confidence", "strength", "probability"},
}
_VAGUE_RELATION = {"type", "label", "kind"}
_PAIRS = (
    *(("head", "tail"), ("subject", "object"), ("subj", "obj"), ("source", "target"), ("start", "end"), ("from", "to")),
    *(("src", "dst"), ("source", "destination"), ("src", "dest")),
)
_FILLERS = {"node", "entity", "concept", "vertex", "id", "name", "label", "type", "uri", "iri"}
INDEX = re.compile(r"|unnamed: \d+|__index_level_\d+__|index")  # columns that pandas adds
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN = 20  # columns that a message names
_AS_THEY_ARE = "head=1,relation=2,tail=3"


@dataclass(frozen=True)
class Layout:
    """The fields of a row that are read.

    Args:
        order: For each field its place in :data:`ROLES`, or -1 if it is not read.
        least: The smallest number of fields of a row.
        has_header: Whether the first row holds the names of the columns.
        is_named: Whether names or options say which column is which; otherwise their order does.
        ignored: The names of columns that are not read.
    """

    order: tuple[int, ...] = (0, 1, 2, 3)
    least: int = 3
    has_header: bool = False
    is_named: bool = False
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, places: Mapping[str, int], names: Sequence[str], has_header: bool) -> "Layout":
        """Return the layout of rows with as many fields as ``names``."""
        role_of = {place: ROLES.index(role) for role, place in places.items()}
        order = tuple(role_of.get(place, -1) for place in range(len(names)))
        ignored = tuple(
            name for place, name in enumerate(names) if has_header and order[place] < 0 and not INDEX.fullmatch(_lowered(name))
        )
        return cls(order, len(names), has_header, True, ignored)

    @property
    def weight_at(self) -> int:
        """The place of the weight, or -1."""
        return self.order.index(3) if 3 in self.order else -1

    def fits(self, count: int) -> bool:
        """Return whether a row may have so many fields."""
        return self.least <= count <= len(self.order)

    def arranged(self, fields: Sequence[str]) -> Sequence[str]:
        """Return head, relation, tail and perhaps the weight of a row."""
        return [fields[self.order.index(role)] for role in range(4) if role in self.order[: len(fields)]]


def layout_of(first: Sequence[str], columns: Mapping[str, str | int] | None, where: str) -> Layout:
    """Return the layout of a table.

    Args:
        first: The fields of the first row.
        columns: The columns that options name; see :func:`named_columns`.
        where: The file, for messages.
    """
    if columns is not None:
        places, has_header = named_columns(columns, first, where)
        return Layout.of(places, first, has_header or all(_candidates(first).values()))
    known = known_columns(first, where)
    if known is None:
        _refuse_unknown_header(first, where)
        return Layout()
    if list(known.items()) == list(zip(ROLES, range(len(first)), strict=False)):
        return Layout(has_header=True, is_named=True)  # each row may have a weight
    return Layout.of(known, first, True)


def known_columns(names: Sequence[str], where: str) -> dict[str, int] | None:
    """Return the place of each role among the names of columns; None if they do not name head, relation and tail.

    >>> known_columns(["", "Source Node", "Target Node", "Edge type"], "facts.csv")
    {'head': 1, 'relation': 3, 'tail': 2}
    """
    found = _candidates(names)
    if not all(found.values()):
        return None
    for role, places in found.items():
        if len(places) > 1:
            several = [shown(names[place].strip(), 40) for place in places]
            what = (
                f"two columns are called {several[0]}" if len(set(several)) == 1 else f"{' and '.join(several)} may be the {role}"
            )
            chosen = {role: shown(names[places[0]].strip(), 40) for role, places in found.items()}
            raise UserError(f"{where}: {what}; name the columns, for example {as_option(chosen)}.")
    places_of = {role: places[0] for role, places in found.items()}
    lowered = [_lowered(name) for name in names]
    weights = [place for place, name in enumerate(names) if _plain(name) in _SYNONYMS["weight"] and place not in places_of.values()]
    exact = [place for place in weights if lowered[place] == "weight"]
    if exact or len(weights) == 1:
        places_of["weight"] = (exact or weights)[0]
    return places_of


def _candidates(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the columns that may be the head, the relation and the tail."""
    lowered, plain = [_lowered(name) for name in names], [_plain(name) for name in names]
    header = next((header for header in HEADERS if set(header) <= set(lowered)), None)
    if header is not None:
        return {role: [i for i, name in enumerate(lowered) if name == own] for role, own in zip(NEEDED, header, strict=True)}
    found = {role: [i for i, name in enumerate(plain) if name in _SYNONYMS[role]] for role in NEEDED}
    found["relation"] = found["relation"] or [i for i, name in enumerate(plain) if name in _VAGUE_RELATION]
    return found


def named_columns(columns: Mapping[str, str | int], first: Sequence[str], where: str) -> tuple[dict[str, int], bool]:
    """Return the place of each named column, and whether the first row is a header.

    Args:
        columns: A column for each role: its name in the header, or its number from 1. A text of digits is a number unless the
            header has all columns by these names.
        first: The fields of the first row.
        where: The file, for messages.

    >>> named_columns({"head": "From", "relation": "How", "tail": "To"}, ["From", "To", "How"], "facts.csv")
    ({'head': 0, 'relation': 2, 'tail': 1}, True)
    >>> named_columns({"head": 1, "relation": 3, "tail": 2}, ["cat", "animal", "IsA"], "facts.csv")
    ({'head': 0, 'relation': 2, 'tail': 1}, False)
    """
    check_roles(columns, ROLES, NEEDED)
    names = [name.strip() for name in first]
    lowered = [name.lower() for name in names]
    given = {role: column.strip() if isinstance(column, str) else column for role, column in columns.items()}
    texts = [column for column in given.values() if isinstance(column, str)]
    words = [text for text in texts if not text.isdecimal()]
    has_header = bool(words) or (bool(texts) and all(text in names for text in texts))
    places = {}
    for role, column in given.items():
        if has_header and isinstance(column, str) and column.lower() in lowered:
            places[role] = names.index(column) if column in names else lowered.index(column.lower())
        elif column in words:
            known = ", ".join(names[:_SHOWN])
            raise UserError(f"{where}: --columns names {shortened(column)}, but the first row is: {shown(known)}.")
        elif not 1 <= int(column) <= len(first):
            raise UserError(f"{where}: --columns names column {column}, but the first row has {len(first)} fields.")
        else:
            places[role] = int(column) - 1
    if len(set(places.values())) < len(places):
        raise UserError(f"{where}: --columns names one column twice ({as_option(given)}).")
    return places, has_header


def check_roles(columns: Mapping[str, object], known: Collection[str], needed: Collection[str]) -> None:
    """Refuse unknown and missing roles of named columns."""
    for role in columns:
        if role not in known:
            raise UserError(f"--columns: unknown column {shortened(role)}.{did_you_mean(str(role), known)}")
    if missing := [role for role in needed if role not in columns]:
        raise UserError(f"--columns does not name the {missing[0]}; write for example --columns {_AS_THEY_ARE}.")


def parse_columns(text: str) -> dict[str, str | int]:
    """Return the columns that ``head=NAME,relation=NAME,tail=NAME`` names.

    >>> parse_columns("head=Source Node,relation=2,tail=3")
    {'head': 'Source Node', 'relation': '2', 'tail': '3'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not role.strip() or not equals or not column.strip() for role, equals, column in pairs):
        raise UserError(f"--columns {shortened(text)}: write ROLE=COLUMN pairs, for example {_AS_THEY_ARE}.")
    columns: dict[str, str | int] = {role.strip(): column.strip() for role, _, column in pairs}
    if len(columns) < len(pairs):
        raise UserError(f"--columns {shortened(text)} names a role twice.")
    return columns


def as_option(columns: Mapping[str, object]) -> str:
    """Return columns as an option of the command line."""
    pairs = ",".join(f"{role}={columns[role]}" for role in ROLES if role in columns)
    return f"--columns '{pairs}'" if re.search(r"[^\w=,.-]", pairs) else f"--columns {pairs}"


def _refuse_unknown_header(first: Sequence[str], where: str) -> None:
    """Refuse a first row that is probably a header with unknown names: read as a fact, it would add a relation."""
    plain = [_plain(field) for field in first]
    pair = next((pair for pair in _PAIRS if set(pair) <= set(plain)), None)
    if len(first) < 3 or (pair is None and plain[1] not in ("relation", "relationship", "predicate", "relationtype")):
        return
    columns = {"head": first[0], "relation": first[1], "tail": first[2]}
    if pair is not None:
        head, tail = plain.index(pair[0]), plain.index(pair[1])
        other = next((place for place in range(len(first)) if place not in (head, tail)), 1)
        columns = {"head": first[head], "relation": first[other], "tail": first[tail]}
    named = {role: shown(name.strip()) for role, name in columns.items()}
    raise UserError(
        f"{where}: the first row looks like a header ({shown(', '.join(first))}). Name the columns: {as_option(named)}. "
        f"If it is a fact: --columns {_AS_THEY_ARE}."
    )


def _lowered(name: str) -> str:
    return name.strip().lower()


def _plain(name: str) -> str:
    """Return the telling words of a column's name.

    >>> _plain("Source Node"), _plain("edgeType"), _plain(":START_ID"), _plain("type")
    ('source', 'edge', 'start', 'type')
    """
    if len(name) > 100:
        return ""
    words = re.findall(r"[a-z0-9]+", _CAMEL.sub(" ", name).lower())
    return "".join([word for word in words if word not in _FILLERS] or words)
