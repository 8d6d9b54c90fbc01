"""The schema of a graph: its relations and their order, the source relations they gather, templates, and pruning."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.default_wording import default_statement, default_templates, default_wordings, in_words
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema_yaml import HEADER, check_once, flow, line_of
from mhgrn.printing import LONGEST, shortened, shown
from mhgrn.settings import check_yaml_size, load_yaml

MAX_RELATIONS = 30_000  # and their reverses must fit 16 bits

Span = tuple[int, int]
Side = Literal["head", "tail"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("blank")
    return text


Text = Annotated[str, Field(strict=True), AfterValidator(_not_blank)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]

WORDINGS = ("ask_tail", "ask_head", "describe_tail", "describe_head")  # fields that word questions and change no fact

FORMS = (
    "noun",
    "act",
    "doing",
    "verb",
    "done",
    "to",
    "bare",
    "word",
    "plain",
)  # of a concept in a statement, see mhgrn.kg.sentences
STATEMENT_PLACEHOLDER = re.compile(r"\{(head|tail)(?::(\w+))?\}")
_PLACEHOLDER = re.compile(r"(\{head\}|\{tail\})")


class SchemaError(UserError):
    """An invalid schema. ``place`` holds the keys and positions that lead to the error."""

    def __init__(self, message: str, *place: str | int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Relation:
    """One relation of a graph.

    Args:
        name: The name of the relation.
        members: The source relations that are imported as this one; ``*x`` is x with head and tail swapped. By default its own
            name.
        gloss: The relation in words. By default the words of its name.
        templates: Sentences with ``{head}`` and ``{tail}`` that state a fact. By default the gloss between head and tail.
        symmetric: Import facts in both directions.
        ask_tail: Questions with ``{head}`` whose answer is the tail. By default head, gloss and "what".
        ask_head: Questions with ``{tail}`` whose answer is the head. By default "what", gloss and tail.
        describe_tail: Noun phrases with ``{head}`` that describe the tail, for questions about paths of two facts. By default
            "something that", head and gloss. Empty: there are none, and such questions do not use the relation in this way.
        describe_head: Noun phrases with ``{tail}`` that describe the head.
        statement: A sentence with ``{head}`` and ``{tail}`` that tells a layperson the fact; see :mod:`mhgrn.kg.sentences`. By
            default the first template, or made of the gloss.

    >>> Relation("MadeOf")
    Relation(name='MadeOf', members=('MadeOf',), gloss='made of', templates=('{head} made of {tail}',), symmetric=False)
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Text
    members: Texts = ()
    gloss: Text = ""
    templates: Texts = ()
    symmetric: Annotated[bool, Field(strict=True)] = False
    ask_tail: Texts = field(default=(), repr=False)
    ask_head: Texts = field(default=(), repr=False)
    describe_tail: tuple[Text, ...] | None = field(default=None, repr=False)
    describe_head: tuple[Text, ...] | None = field(default=None, repr=False)
    statement: Text = field(default="", repr=False)

    def __post_init__(self) -> None:
        members = self.members or (self.name,)
        gloss = self.gloss or in_words(self.name)
        templates = self.templates or default_templates(gloss)
        for i, member in enumerate(members):
            if not member.removeprefix("*").strip():
                raise SchemaError("a member without a name.", "members", i)
        if "{" in gloss or "}" in gloss:
            raise SchemaError(f"the gloss {shortened(gloss)} contains a brace; only templates may have braces.", "gloss")
        for i, template in enumerate(templates):
            pieces = _PLACEHOLDER.split(template)
            braces = re.search("[{}]", "".join(pieces[::2]))
            if sorted(pieces[1::2]) != ["{head}", "{tail}"] or braces:
                problem = f"the template {shortened(template)} must contain {{head}} and {{tail}} once and no other brace."
                raise SchemaError(problem, "templates", i)
        wordings = default_wordings(gloss)
        for name in WORDINGS:
            texts = getattr(self, name)
            needed = "{head}" if name.endswith("tail") else "{tail}"
            for i, text in enumerate(texts or ()):
                if text.count(needed) != 1 or re.search("[{}]", text.replace(needed, "")):
                    raise SchemaError(f"{shortened(text)} must contain {needed} once and no other brace.", name, i)
            if texts or (texts is not None and name.startswith("describe")):
                wordings[name] = texts
        statement = self.statement or default_statement(gloss, templates)
        parts = STATEMENT_PLACEHOLDER.split(statement)
        if sorted(parts[1::3]) != ["head", "tail"] or re.search("[{}]", "".join(parts[::3])):
            problem = f"the statement {shortened(statement)} must contain {{head}} and {{tail}} once and no other brace."
            raise SchemaError(problem, "statement")
        if unknown := [form for form in parts[2::3] if form and form not in FORMS]:
            problem = f"{shown(unknown[0])} is not a form of a concept in a statement.{did_you_mean(unknown[0], FORMS)}"
            raise SchemaError(problem, "statement")
        texts = {"members": members, "gloss": gloss, "templates": templates, **wordings, "statement": statement}
        for name, value in texts.items():
            object.__setattr__(self, name, value)

    def sentence(self, head: str, tail: str, pick: int = 0) -> tuple[str, Span, Span]:
        """Return a fact as a sentence, and the spans of head and tail in it.

        Args:
            head: Name of the head.
            tail: Name of the tail.
            pick: Which template to use; any number is valid.

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

    def question(self, name: str, asked: Side, pick: int = 0) -> str:
        """Return a question for one end of a fact.

        Args:
            name: Name of the other end.
            asked: The end that is asked for.
            pick: Which question to use; any number is valid.

        >>> Relation("AtLocation", gloss="is found in").question("office_desk", "tail")
        'Office desk is found in what?'
        """
        text = filled(self.ask_tail if asked == "tail" else self.ask_head, name, pick)
        return text[:1].upper() + text[1:]

    def description(self, name: str, described: Side, pick: int = 0) -> str | None:
        """Return a noun phrase for one end of a fact; None if the relation has none.

        Args:
            name: Name of the other end.
            described: The end to describe.
            pick: Which noun phrase to use; any number is valid.

        >>> Relation("AtLocation", gloss="is found in").description("office_desk", "tail")
        'something that office desk is found in'
        """
        phrases = self.describe_tail if described == "tail" else self.describe_head
        return filled(phrases, name, pick) if phrases else None


@dataclass(frozen=True)
class Schema:
    """The relations of a graph in the order of their ids. Id ``r + len(relations)`` is the reverse of ``r``.

    Args:
        name: The name of the schema.
        relations: The relations.
        pruned_relations: Names of relations whose facts are left out; they keep their ids.
        pruned_concepts: Names of concepts whose facts are left out.

    >>> conceptnet = Schema.shipped("conceptnet")
    >>> len(conceptnet.relations), conceptnet.relations[5].name
    (17, 'IsA')
    >>> conceptnet.lookup["hasa"]   # (id of PartOf, head and tail are swapped)
    (8, True)
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Text
    relations: tuple[Relation, ...]
    pruned_relations: tuple[Text, ...] = ()
    pruned_concepts: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        if len(self.relations) > MAX_RELATIONS:
            raise SchemaError(f"{len(self.relations):,} relations, more than {MAX_RELATIONS:,}.", "relations")
        spelling: dict[str, str] = {}
        owner: dict[str, str] = {}
        for i, relation in enumerate(self.relations):
            name = relation.name
            if name.lower() in spelling:
                before = spelling[name.lower()]
                other = f" ({shown(before)} before; case does not count)" if before != name else ""
                raise SchemaError(f"relation {shown(name)} is given twice{other}.", "relations", i, "name")
            spelling[name.lower()] = name
            for j, member in enumerate(m.removeprefix("*") for m in relation.members):
                before = owner.setdefault(member.lower(), name)
                if before != name:
                    two = f"{shown(before)} and {shown(name)}"
                    raise SchemaError(f"{shown(member)} is a member of two relations, {two}.", "relations", i, "members", j)
            if len({member.removeprefix("*").lower() for member in relation.members}) < len(relation.members):
                raise SchemaError(f"relation {shown(name)}: a member is given twice.", "relations", i, "members")
        pruned = []
        for i, name in enumerate(self.pruned_relations):
            if name.lower() not in spelling:
                known = did_you_mean(name, spelling.values())
                raise SchemaError(f"pruned relation {shown(name)} is not one of the relations.{known}", "pruned_relations", i)
            pruned.append(spelling[name.lower()])
        object.__setattr__(self, "pruned_relations", tuple(pruned))
        object.__setattr__(self, "pruned_concepts", tuple(map(concept_name, self.pruned_concepts)))

    @classmethod
    def from_dict(cls, data: Any) -> "Schema":
        """Return the schema of plain data, as YAML or JSON holds it; raise :class:`SchemaError` if it is invalid."""
        try:
            return _adapter().validate_python(_with_shipped_wordings(data))
        except ValidationError as error:
            raise _worded(error, data) from None

    @classmethod
    def shipped(cls, name: str) -> "Schema":
        """Return a schema of this package."""
        if name not in shipped_schemas():
            raise UserError(f"{shortened(name)} is not a shipped schema.{did_you_mean(name, shipped_schemas())}")
        return cls._read(_SHIPPED.joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")

    @classmethod
    def derived(cls, names: Iterable[str]) -> Self:
        """Return a schema with one relation for each name, in alphabetical order.

        Names that differ only in case are one relation, spelled as the first of them.
        """
        spelling: dict[str, str] = {}
        for name in sorted(set(names)):
            if name.startswith("*"):
                raise UserError(
                    f"the relation {shortened(name)} begins with *, which a schema uses to swap head and tail; rename it."
                )
            spelling.setdefault(name.lower(), name)
        return cls("derived", tuple(map(Relation, spelling.values())))

    @classmethod
    def _read(cls, text: str, where: str) -> "Schema":
        try:
            data, root = load_yaml(text), yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
            hint = "a text that begins with { or * needs quotes"
            raise UserError(f"{where}{line}: not YAML ({error.problem or error.context}); {hint}.") from None
        except (yaml.YAMLError, LookupError, AttributeError, ValueError, RecursionError) as error:  # an invalid tagged value
            raise UserError(f"{where} is not YAML ({' '.join(str(error).split())}).") from None
        if data is None:
            raise UserError(f"{where} is empty; a schema needs `name` and `relations`.")
        check_once(root, where)
        try:
            schema = cls.from_dict(data)
            if not schema.relations:
                raise SchemaError("relations is empty; name at least one.", "relations")
        except SchemaError as error:
            raise UserError(f"{where}:{line_of(root, error.place)}: {error}") from None
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, without question wordings that :meth:`from_dict` adds."""
        data = self.identity()
        for entry, relation in zip(data["relations"], self.relations, strict=True):
            known = _known_wordings(self.name, relation)
            entry |= {name: value for name in WORDINGS if (value := getattr(relation, name)) != known[name]}
            if relation.statement != _known_statement(self.name, relation):
                entry["statement"] = relation.statement
        return data

    def identity(self) -> dict[str, Any]:
        """Return what makes up a graph's fingerprint: the schema without the wording of questions."""
        data = asdict(self)
        left_out = (*WORDINGS, "statement")
        data["relations"] = tuple({k: v for k, v in entry.items() if k not in left_out} for entry in data["relations"])
        return data

    def to_yaml(self) -> str:
        """Return the schema as the text of a YAML file with comments, which :func:`load_schema` reads."""
        lines = [HEADER, f"name: {flow(self.name)}", "relations:"]
        for relation in self.relations:
            lines += [
                f"  - name: {flow(relation.name)}",
                f"    members: [{', '.join(map(flow, relation.members))}]",
                f"    gloss: {flow(relation.gloss)}",
            ]
            if relation.templates != default_templates(relation.gloss):  # else they follow the gloss when it is edited
                lines += ["    templates:", *(f"      - {flow(template)}" for template in relation.templates)]
            if relation.symmetric:
                lines.append("    symmetric: true")
            known, default = _known_wordings(self.name, relation), default_wordings(relation.gloss)
            for name in WORDINGS:
                texts = getattr(relation, name)
                if not texts:
                    lines.append(f"    {name}: []")
                elif not texts == known[name] == default[name]:
                    lines += [f"    {name}:", *(f"      - {flow(text)}" for text in texts)]
            default_said = default_statement(relation.gloss, relation.templates)
            if not relation.statement == _known_statement(self.name, relation) == default_said:
                lines.append(f"    statement: {flow(relation.statement)}")
        lines += [
            f"pruned_relations: [{', '.join(map(flow, self.pruned_relations))}]",
            f"pruned_concepts: [{', '.join(map(flow, self.pruned_concepts))}]",
        ]
        return "\n".join(lines) + "\n"

    @cached_property
    def lookup(self) -> dict[str, tuple[int, bool]]:
        """For each source relation, in lower case, the id of its relation and whether head and tail are swapped."""
        return {
            member.removeprefix("*").lower(): (number, member.startswith("*"))
            for number, relation in enumerate(self.relations)
            for member in relation.members
        }

    @cached_property
    def pruned_ids(self) -> frozenset[int]:
        """The ids of pruned relations."""
        return frozenset(i for i, r in enumerate(self.relations) if r.name in self.pruned_relations)

    @cached_property
    def symmetric_ids(self) -> frozenset[int]:
        """The ids of symmetric relations."""
        return frozenset(i for i, r in enumerate(self.relations) if r.symmetric)

    def __len__(self) -> int:
        return len(self.relations)


_SHIPPED = resources.files("mhgrn.kg").joinpath("schemas")


def shipped_schemas() -> list[str]:
    """Return the names of the schemas of this package.

    >>> shipped_schemas()
    ['conceptnet']
    """
    return sorted(file.name.removesuffix(".yaml") for file in _SHIPPED.iterdir() if file.name.endswith(".yaml"))


def load_schema(name_or_path: str | Path) -> Schema:
    """Return a shipped schema by name, or the schema of a YAML file."""
    if str(name_or_path) in shipped_schemas():
        return Schema.shipped(str(name_or_path))
    path = Path(name_or_path)
    if path.is_dir():
        raise UserError(f"schema {path} is a folder; name a YAML file.")
    if not path.is_file():
        known = did_you_mean(str(path), shipped_schemas())
        raise UserError(f"schema {shortened(str(name_or_path))} is neither a shipped schema nor a file.{known}")
    check_yaml_size(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return Schema._read(text, str(path))


def _known_statement(schema: str, relation: Relation) -> str:
    """Return the statement that a relation gets if it does not give its own."""
    return _shipped_statements(schema).get(relation.name) or default_statement(relation.gloss, relation.templates)


@cache
def _shipped_statements(schema: str) -> dict[str, str]:
    """Return the statement of each relation of a shipped schema that has one; empty if there is no such schema."""
    if schema not in shipped_schemas():
        return {}
    data = load_yaml(_SHIPPED.joinpath(f"{schema}.yaml").read_text(encoding="utf-8"))
    return {entry["name"]: entry["statement"] for entry in data["relations"] if "statement" in entry}


@cache
def _shipped_wordings(schema: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the question wordings of each relation of a shipped schema; empty if there is no such schema."""
    if schema not in shipped_schemas():
        return {}
    data = load_yaml(_SHIPPED.joinpath(f"{schema}.yaml").read_text(encoding="utf-8"))
    return {entry["name"]: {k: tuple(entry[k]) for k in WORDINGS if k in entry} for entry in data["relations"]}


def _known_wordings(schema: str, relation: Relation) -> dict[str, tuple[str, ...]]:
    """Return the question wordings that a relation gets if it does not give its own."""
    return default_wordings(relation.gloss) | _shipped_wordings(schema).get(relation.name, {})


def _with_shipped_wordings(data: Any) -> Any:
    """Return plain data of a shipped schema, or of an edited copy, with the question wordings that it lacks.

    Graphs and schemas that were written before there were such wordings get them here.
    """
    name = data.get("name") if isinstance(data, dict) else None
    if not isinstance(name, str):
        return data
    shipped = _shipped_wordings(name)
    if not shipped or not isinstance(data.get("relations"), list | tuple):
        return data
    entries = [
        shipped.get(entry["name"], {}) | _said(name, entry["name"]) | entry
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        else entry
        for entry in data["relations"]
    ]
    return {**data, "relations": entries}


def _said(schema: str, relation: str) -> dict[str, str]:
    statement = _shipped_statements(schema).get(relation)
    return {} if statement is None else {"statement": statement}


def filled(texts: Sequence[str], name: str, pick: int = 0) -> str:
    """One of the texts, with the name of a concept in its place."""
    return re.sub(_PLACEHOLDER, lambda _: name.replace("_", " "), texts[pick % len(texts)])


@cache
def _adapter() -> TypeAdapter[Schema]:
    return TypeAdapter(Schema)


_UNKNOWN_KEY = "unexpected_keyword_argument"


def _worded(error: ValidationError, data: Any) -> SchemaError:
    """Return the first error of validation in plain words, an unknown key before others."""
    first = min(error.errors(), key=lambda found: found["type"] != _UNKNOWN_KEY)
    place, kind, value = tuple(first["loc"]), first["type"], first["input"]
    if "ctx" in first and isinstance(problem := first["ctx"].get("error"), SchemaError):
        return SchemaError(_of_relation(place, data) + str(problem), *place, *problem.place)
    in_relation = place[:1] == ("relations",) and len(place) > 1
    what, needed = ("a relation", "`name`") if in_relation else ("a schema", "`name` and `relations`")
    if kind == _UNKNOWN_KEY:
        known = [field.name for field in fields(Relation if in_relation else Schema)]
        return SchemaError(f"unknown key {shown(place[-1])} of {what}.{did_you_mean(str(place[-1]), known)}", *place)
    if kind == "missing":
        return SchemaError(f"{what} needs `{place[-1]}`.", *place[:-1])
    if kind == "dataclass_type":
        return SchemaError(f"{what} is a mapping with {needed}, not {_shown(value)}.", *place)
    key = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
    prefix = "" if key == "name" else _of_relation(place, data)
    field = f"an entry of {prefix}{key}" if isinstance(place[-1], int) else f"{prefix}{key}"
    problems = {
        "tuple_type": f"{_shown(value)}, not a list; write [{value if isinstance(value, str) and len(value) <= LONGEST else '…'}].",
        "bool_type": f"{_shown(value)}, not true or false.",
        "string_type": f"{_shown(value)}, not a text; put it in quotes if it is meant as one.",
        "too_short": "empty; leave it out or name some.",
    }
    return SchemaError(f"{field} is {problems.get(kind, 'an empty text.')}", *place)


def _of_relation(place: tuple[str | int, ...], data: Any) -> str:
    """Return which relation an error is in, as the beginning of a message."""
    if place[:1] != ("relations",) or len(place) < 2:
        return ""
    return f"relation {shown(data['relations'][place[1]]['name'])}: "


def _shown(value: Any) -> str:
    return "empty" if value is None else shortened(value)
