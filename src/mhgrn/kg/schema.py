"""Which relations a graph has: their order, what is merged into them, how they read, what is pruned. Plain data, read from YAML."""

import re
import reprlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self

import yaml

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.names import concept_name

MAX_RELATIONS = 30_000  # and their reverses must fit 16 bits

Span = tuple[int, int]

_PLACEHOLDER = re.compile(r"(\{head\}|\{tail\})")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SchemaError(UserError):
    """Something wrong in a schema; ``place`` leads to it, as keys and positions from the top."""

    def __init__(self, message: str, *place: str | int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Relation:
    """One relation of the graph.

    ``members`` are the source relations it gathers (itself, if left out); ``*x`` swaps head and tail of x. ``templates`` are
    sentences with ``{head}`` and ``{tail}``. A ``symmetric`` relation is imported in both directions.

    >>> Relation("MadeOf")
    Relation(name='MadeOf', members=('MadeOf',), gloss='made of', templates=('{head} made of {tail}',), symmetric=False)
    """

    name: str
    members: tuple[str, ...] = ()
    gloss: str = ""
    templates: tuple[str, ...] = ()
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise SchemaError("a relation without a name.", "name")
        members = self.members or (self.name,)
        gloss = self.gloss or _in_words(self.name)
        templates = self.templates or _default_templates(gloss)
        for i, member in enumerate(members):
            if not member.removeprefix("*").strip():
                raise SchemaError(f"relation {self.name}: a member without a name.", "members", i)
        if "{" in gloss or "}" in gloss:
            raise SchemaError(f"relation {self.name}: the gloss {gloss!r} holds a brace; braces belong into templates.", "gloss")
        for i, template in enumerate(templates):
            pieces = _PLACEHOLDER.split(template)
            braces = re.search("[{}]", "".join(pieces[::2]))
            if sorted(pieces[1::2]) != ["{head}", "{tail}"] or braces:
                raise SchemaError(
                    f"relation {self.name}: the template {template!r} must hold {{head}} and {{tail}} once and no other brace.",
                    "templates",
                    i,
                )
        for field, value in (("members", members), ("gloss", gloss), ("templates", templates)):
            object.__setattr__(self, field, value)

    def sentence(self, head: str, tail: str, pick: int = 0) -> tuple[str, Span, Span]:
        """A fact as a sentence by one of the templates (any ``pick`` names one), and where head and tail stand in it.

        >>> Relation("AtLocation", gloss="is found in").sentence("desk", "furniture_store")
        ('desk is found in furniture store', (0, 4), (17, 32))
        """
        concepts = {"{head}": head.replace("_", " "), "{tail}": tail.replace("_", " ")}
        text = ""
        spans: dict[str, Span] = {}
        for piece in _PLACEHOLDER.split(self.templates[pick % len(self.templates)]):
            words = concepts.get(piece, piece)
            if piece in concepts:
                spans[piece] = len(text), len(text) + len(words)
            text += words
        return text, spans["{head}"], spans["{tail}"]


@dataclass(frozen=True)
class Schema:
    """The relations of a graph in the order of their ids; id ``r + len(relations)`` is the reverse of ``r``.

    >>> conceptnet = Schema.shipped("conceptnet")
    >>> len(conceptnet.relations), conceptnet.relations[5].name
    (17, 'IsA')
    >>> conceptnet.lookup["hasa"]   # (id of PartOf, head and tail are swapped)
    (8, True)
    """

    name: str
    relations: tuple[Relation, ...]
    pruned_relations: tuple[str, ...] = ()
    pruned_concepts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.relations) > MAX_RELATIONS:
            raise SchemaError(f"{len(self.relations):,} relations, more than {MAX_RELATIONS:,}.", "relations")
        spelling: dict[str, str] = {}
        owner: dict[str, str] = {}
        for i, relation in enumerate(self.relations):
            name = relation.name
            if name.lower() in spelling:
                before = spelling[name.lower()]
                other = f" ({before} before; case does not count)" if before != name else ""
                raise SchemaError(f"relation {name} is given twice{other}.", "relations", i, "name")
            spelling[name.lower()] = name
            for j, member in enumerate(m.removeprefix("*") for m in relation.members):
                before = owner.setdefault(member.lower(), name)
                if before != name:
                    raise SchemaError(f"{member} is a member of two relations, {before} and {name}.", "relations", i, "members", j)
            if len({member.removeprefix("*").lower() for member in relation.members}) < len(relation.members):
                raise SchemaError(f"relation {name}: a member is given twice.", "relations", i, "members")
        pruned = []
        for i, name in enumerate(self.pruned_relations):
            if name.lower() not in spelling:
                known = did_you_mean(name, spelling.values())
                raise SchemaError(f"pruned relation {name} is none of the relations.{known}", "pruned_relations", i)
            pruned.append(spelling[name.lower()])
        object.__setattr__(self, "pruned_relations", tuple(pruned))
        object.__setattr__(self, "pruned_concepts", tuple(map(concept_name, self.pruned_concepts)))

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """A schema from plain data, as YAML or JSON holds it; anything that does not belong there is refused."""
        _check_keys(data, "a schema", ("name", "relations"), ("pruned_relations", "pruned_concepts"))
        if not isinstance(data["relations"], list | tuple):
            raise SchemaError(f"relations is {_shown(data['relations'])}, not a list.", "relations")
        relations = []
        for i, entry in enumerate(data["relations"]):
            try:
                relations.append(_relation(entry))
            except SchemaError as error:
                raise SchemaError(str(error), "relations", i, *error.place) from None
        pruned = (_texts(data[key], key, key) if key in data else () for key in ("pruned_relations", "pruned_concepts"))
        return cls(_text(data["name"], "name", "name"), tuple(relations), *pruned)

    @classmethod
    def shipped(cls, name: str) -> Self:
        """A schema that comes with the package."""
        if name not in shipped_schemas():
            raise UserError(f"{name!r} is no shipped schema.{did_you_mean(name, shipped_schemas())}")
        return cls._read(_SHIPPED.joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")

    @classmethod
    def derived(cls, names: Iterable[str]) -> Self:
        """A schema for a graph of unknown make: every relation as it is named, in alphabetical order, nothing pruned.

        Names that differ in case alone are one relation, spelt as the first of them.
        """
        spelling: dict[str, str] = {}
        for name in sorted(set(names)):
            if name.startswith("*"):
                raise UserError(f"the relation {name!r} begins with *, which a schema uses to swap head and tail; rename it.")
            spelling.setdefault(name.lower(), name)
        return cls("derived", tuple(map(Relation, spelling.values())))

    @classmethod
    def _read(cls, text: str, where: str) -> Self:
        try:
            data, root = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
            hint = "a text that begins with { or * needs quotes"
            raise UserError(f"{where}{line}: not YAML ({error.problem or error.context}); {hint}.") from None
        except (yaml.YAMLError, LookupError, AttributeError, ValueError, RecursionError) as error:  # a tag its value does not fit
            raise UserError(f"{where} is not YAML ({' '.join(str(error).split())}).") from None
        if data is None:
            raise UserError(f"{where} is empty; a schema needs `name` and `relations`.")
        _check_once(root, where)
        try:
            schema = cls.from_dict(data)
            if not schema.relations:
                raise SchemaError("relations is empty; name at least one.", "relations")
        except SchemaError as error:
            raise UserError(f"{where}:{_line(root, error.place)}: {error}") from None
        return schema

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_yaml(self) -> str:
        """The schema as a file to edit; :func:`load_schema` reads it back the same."""
        lines = [_HEADER, f"name: {_flow(self.name)}", "relations:"]
        for relation in self.relations:
            lines += [
                f"  - name: {_flow(relation.name)}",
                f"    members: [{', '.join(map(_flow, relation.members))}]",
                f"    gloss: {_flow(relation.gloss)}",
            ]
            if relation.templates != _default_templates(relation.gloss):  # else they follow the gloss when it is edited
                lines += ["    templates:", *(f"      - {_flow(template)}" for template in relation.templates)]
            if relation.symmetric:
                lines.append("    symmetric: true")
        lines += [
            f"pruned_relations: [{', '.join(map(_flow, self.pruned_relations))}]",
            f"pruned_concepts: [{', '.join(map(_flow, self.pruned_concepts))}]",
        ]
        return "\n".join(lines) + "\n"

    @cached_property
    def lookup(self) -> dict[str, tuple[int, bool]]:
        """Source relation, lower-cased → (relation id, whether head and tail are swapped)."""
        return {
            member.removeprefix("*").lower(): (number, member.startswith("*"))
            for number, relation in enumerate(self.relations)
            for member in relation.members
        }

    @cached_property
    def pruned_ids(self) -> frozenset[int]:
        return frozenset(i for i, r in enumerate(self.relations) if r.name in self.pruned_relations)

    @cached_property
    def symmetric_ids(self) -> frozenset[int]:
        return frozenset(i for i, r in enumerate(self.relations) if r.symmetric)

    def __len__(self) -> int:
        return len(self.relations)


_SHIPPED = resources.files("mhgrn.kg").joinpath("schemas")


def shipped_schemas() -> list[str]:
    """The names of the schemas that come with the package.

    >>> shipped_schemas()
    ['conceptnet']
    """
    return sorted(file.name.removesuffix(".yaml") for file in _SHIPPED.iterdir() if file.name.endswith(".yaml"))


def load_schema(name_or_path: str | Path) -> Schema:
    """A shipped schema by name, or one of the user's own from a YAML file."""
    if str(name_or_path) in shipped_schemas():
        return Schema.shipped(str(name_or_path))
    path = Path(name_or_path)
    if path.is_dir():
        raise UserError(f"schema {path} is a folder; name a YAML file.")
    if not path.is_file():
        known = did_you_mean(str(path), shipped_schemas())
        raise UserError(f"schema {str(name_or_path)!r} is neither a shipped schema nor a file.{known}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return Schema._read(text, str(path))


_HEADER = """\
# The relations of a graph. Edited, this file makes another graph: mhgrn kg build FILES --schema THIS -o GRAPH
#   name       a relation; its place in the list is its number, on which trained models rely
#   members    the relations of the source that it gathers (left out: its own name); "*x" is x with head and tail swapped
#   gloss      the relation in words
#   templates  sentences that say a fact, with {head} and {tail} once in each (left out: "{head} gloss {tail}")
#   symmetric  true: each fact is stored in both directions
# A relation that is nobody's member is not imported. Facts with a pruned relation or concept are left out, though the relation
# keeps its number."""


def _flow(text: str) -> str:
    """A text as YAML spells it anywhere, quoted where it must be."""
    style = None if text.splitlines() == [text] else '"'  # YAML's other styles fold line breaks
    dumped: str = yaml.safe_dump([text], default_style=style, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return dumped.strip()[1:-1]


def _default_templates(gloss: str) -> tuple[str, ...]:
    return (f"{{head}} {gloss} {{tail}}",)


def _in_words(name: str) -> str:
    """A relation's name as words.

    >>> _in_words("AtLocation"), _in_words("made_of"), _in_words("hasURL")
    ('at location', 'made of', 'has URL')
    """
    words = _CAMEL.sub(" ", name).replace("_", " ").replace("{", "(").replace("}", ")").split()
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words) or name


def _relation(entry: Any) -> Relation:
    _check_keys(entry, "a relation", ("name",), ("members", "gloss", "templates", "symmetric"))
    name = _text(entry["name"], "name", "name")
    what = f"relation {name}: "
    symmetric = entry.get("symmetric", False)
    if not isinstance(symmetric, bool):
        raise SchemaError(f"{what}symmetric is {_shown(symmetric)}, not true or false.", "symmetric")
    lists = {key: _texts(entry[key], f"{what}{key}", key) for key in ("members", "templates") if key in entry}
    for key, texts in lists.items():
        if not texts:
            raise SchemaError(f"{what}{key} is empty; leave it out or name some.", key)
    gloss = _text(entry["gloss"], f"{what}gloss", "gloss") if "gloss" in entry else ""
    return Relation(name, lists.get("members", ()), gloss, lists.get("templates", ()), symmetric)


def _check_keys(data: Any, what: str, needed: tuple[str, ...], optional: tuple[str, ...]) -> None:
    if not isinstance(data, dict):
        raise SchemaError(f"{what} is a mapping with {' and '.join(f'`{key}`' for key in needed)}, not {_shown(data)}.")
    for key in data:
        if key not in needed + optional:
            raise SchemaError(f"unknown key {key} of {what}.{did_you_mean(str(key), needed + optional)}", key)
    for key in needed:
        if key not in data:
            raise SchemaError(f"{what} needs `{key}`.")


def _text(value: Any, what: str, *place: str | int) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"{what} is {_shown(value)}, not a text; put it in quotes if it is meant as one.", *place)
    if not value.strip():
        raise SchemaError(f"{what} is an empty text.", *place)
    return value


def _texts(value: Any, what: str, key: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{what} is {_shown(value)}, not a list; write [{value if isinstance(value, str) else '…'}].", key)
    return tuple(_text(entry, f"an entry of {what}", key, i) for i, entry in enumerate(value))


def _shown(value: Any) -> str:
    text = "empty" if value is None else reprlib.repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _line(node: yaml.Node, place: Iterable[str | int]) -> int:
    """The line of the entry at ``place`` in a YAML file, or of what is nearest above it."""
    line = node.start_mark.line
    for step in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
    return int(line) + 1


def _check_once(root: yaml.Node, where: str) -> None:
    """Refuse a key given twice, of which YAML would silently take the last."""
    values = [value for _, value in root.value] if isinstance(root, yaml.MappingNode) else []
    entries = [entry for value in values if isinstance(value, yaml.SequenceNode) for entry in value.value]
    for node in (root, *entries):
        keys: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value in keys:
                raise UserError(f"{where}:{key.start_mark.line + 1}: the key {key.value} is given twice.")
            keys.add(key.value)
