"""Settings in general: their base class, their YAML form, and messages about invalid ones."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown

MOST_YAML = 1 << 24  # bytes of a file
MOST_YAML_VALUES = 1_000_000  # with every alias written out
DEEPEST_YAML = 50
LONGEST_NUMBER = 1_000  # characters; the conversion of a number takes quadratic time
INVALID_YAML = (
    yaml.YAMLError,
    LookupError,
    AttributeError,
    ValueError,
    RecursionError,
)  # the rest: invalid tagged values


@dataclass(frozen=True)
class FirstDefault:
    """The value that a setting had before its default changed, or before the setting existed.

    Stored identities omit settings with default values. Annotate a setting whose default changes, so that an identity without
    this setting keeps its meaning::

        layers: Annotated[int, FirstDefault(1)] = 2
    """

    value: Any


@dataclass(frozen=True)
class FormerName:
    """An earlier name of a setting, which files may still use: ``normalize: Annotated[str, FormerName("normalise")]``."""

    name: str


class NoEffect:
    """Marks a setting that cannot change a result and therefore is no part of an identity: ``Annotated[int, NoEffect()]``."""


class Settings(BaseModel):
    """Base class of settings: typed, immutable, unknown names are errors.

    >>> from pydantic import Field
    >>> class MySettings(Settings):
    ...     width: int = Field(100, ge=1, description="width of the output")
    >>> MySettings(width=50).differing()
    {'width': 50}
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def sections(cls) -> "dict[str, type[Settings]]":
        """The fields that are settings themselves."""
        found = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Settings)}

    @classmethod
    def first_defaults(cls) -> dict[str, Any]:
        """The value that each setting has in an identity that does not name it; no sections and no settings without effect."""
        found: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            if name in cls.sections() or any(isinstance(mark, NoEffect) for mark in field.metadata):
                continue
            first = [mark.value for mark in field.metadata if isinstance(mark, FirstDefault)]
            found[name] = first[0] if first else field.get_default(call_default_factory=True)
        return found

    def differing(self) -> dict[str, Any]:
        """The settings that can change a result and differ from their first default; sections are not included."""
        values = self.model_dump(mode="json")
        return {name: values[name] for name, default in self.first_defaults().items() if getattr(self, name) != default}

    @classmethod
    def with_current_names(cls, given: dict[str, Any]) -> dict[str, Any]:
        """``given`` with former names of settings replaced by today's."""
        former = {m.name: name for name, field in cls.model_fields.items() for m in field.metadata if isinstance(m, FormerName)}
        for old, new in former.items():
            if old in given and new in given:
                raise UserError(f"setting {old} is a former name of {new}; give one of them.")
        return {former.get(name, name): value for name, value in given.items()}

    def explained(self) -> str:
        """These settings as YAML, with a comment on each."""
        return "\n".join(_explained_lines(self))


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _explained_lines(settings: Settings, indent: str = "") -> Iterator[str]:
    for name, value in settings:
        if isinstance(value, Settings):
            inner = list(_explained_lines(value, indent + "  "))
            yield f"{indent}{name}:" if inner else f"{indent}{name}: {{}}"
            yield from inner
            continue
        field = type(settings).model_fields[name]
        options = [str(o) for o in get_args(field.annotation)] if get_origin(field.annotation) is Literal else []
        meaning = "; ".join(filter(None, [field.description, " | ".join(options)]))
        yield f"{indent}{name}: {as_yaml(value)}" + (f"  # {meaning}" if meaning else "")


def as_yaml(value: object) -> str:
    """A value as ``--set`` and a file of settings take it.

    >>> as_yaml(None), as_yaml(1e-15), as_yaml([1, "two"]), as_yaml("two\\nlines")
    ('null', '1.0e-15', '[1, two]', '"two\\\\nlines"')
    """
    style = '"' if isinstance(value, str) and "\n" in value else None  # one line
    return yaml.safe_dump(value, default_flow_style=True, default_style=style, width=math.inf).removesuffix("\n...\n").strip()


def parse_override(override: str) -> tuple[list[str], Any]:
    """The keys and the value of ``section.name=value``; the value is YAML.

    >>> parse_override("training.learning_rate=1.0e-4")
    (['training', 'learning_rate'], 0.0001)
    """
    key, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"--set {shown(override)}: write key=value, for example mhgrn.hops=3.")
    try:
        return key.strip().split("."), load_yaml(value)
    except INVALID_YAML:
        raise UserError(f"--set {shown(override)}: {shortened(value)} is not a value.") from None


def put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set the value at ``keys`` of a tree of dictionaries.

    >>> tree = {"seed": 1}
    >>> put(tree, ["mhgrn", "hops"], 3)
    >>> tree
    {'seed': 1, 'mhgrn': {'hops': 3}}
    """
    for key in keys[:-1]:
        if not isinstance(tree.setdefault(key, {}), dict):
            raise UserError(f"setting {shown(key)} is a value, not a section.")
        tree = tree[key]
    tree[keys[-1]] = value


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over``, section by section.

    >>> merged({"seed": 1, "mhgrn": {"hops": 2, "heads": 2}}, {"mhgrn": {"hops": 3}})
    {'seed': 1, 'mhgrn': {'hops': 3, 'heads': 2}}
    """
    both = dict(base)
    for key, value in over.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


class _Loader(yaml.SafeLoader):
    """Builds plain values. Refuses aliases that stand for too many values or contain themselves, and deep nesting."""

    def get_single_data(self) -> Any:
        root = self.get_single_node()
        if root is None:
            return None
        self._sizes: dict[int, int] = {}  # of nodes, with every alias written out; 0 until all parts are known
        self._measure(root, 0)
        return self.construct_document(root)

    def fetch_flow_collection_start(self, token: Any) -> None:
        super().fetch_flow_collection_start(token)  # type: ignore[no-untyped-call]
        if self.flow_level > DEEPEST_YAML:  # before the parser, whose work grows with the square of the depth
            raise _problem(self.get_mark(), _TOO_DEEP)  # type: ignore[no-untyped-call]

    def _measure(self, node: yaml.Node, depth: int) -> int:
        known = self._sizes.get(id(node))
        if known is not None:
            if not known:
                raise _problem(node.start_mark, "an alias that contains itself")
            return known
        if depth > DEEPEST_YAML:
            raise _problem(node.start_mark, _TOO_DEEP)
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
                raise _problem(node.start_mark, f"a number of more than {LONGEST_NUMBER:,} characters")
            return 1
        self._sizes[id(node)] = 0
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        size = 1 + sum(self._measure(part, depth + 1) for part in parts)
        if size > MOST_YAML_VALUES:
            raise _problem(node.start_mark, f"more than {MOST_YAML_VALUES:,} values, with every alias written out")
        self._sizes[id(node)] = size
        return size


_TOO_DEEP = f"nested more than {DEEPEST_YAML} levels deep"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def _problem(mark: Any, what: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=mark)


def load_yaml(text: str) -> Any:
    """The value of a YAML text. Its tags cannot run code, and its size with every alias written out is limited.

    >>> load_yaml("a: &x [1, 2]\\nb: *x")
    {'a': [1, 2], 'b': [1, 2]}
    """
    return yaml.load(text, _Loader)


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; ``what`` names its contents in messages."""
    if not path.is_file():
        raise UserError(f"{path} does not exist; name a YAML file of {what}.")
    check_yaml_size(path)
    try:
        data = load_yaml(path.read_text(encoding="utf-8")) or {}
    except INVALID_YAML as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        reason = " ".join(str(getattr(error, "problem", error)).split())
        raise UserError(f"{path}{line}: not YAML ({reason[:200]}).") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: {what} are `key: value` lines.")
    return data


def check_yaml_size(path: Path) -> None:
    """Refuse a file that is too large to be settings before it is read."""
    if (size := path.stat().st_size) > MOST_YAML:
        raise UserError(f"{path} has {size:,} bytes; a YAML file may have {MOST_YAML:,} at most.")


def validation_message(error: ValidationError, model: type[BaseModel], noun: str, section: str = "") -> str:
    """One sentence about the first invalid value.

    Args:
        error: The error of validating a ``model``.
        model: The class that was validated.
        noun: What messages call its fields, for example ``"setting"``.
        section: The name that ``model`` itself has in a larger one.
    """
    first = error.errors()[0]
    where: list[str] = []
    inner: Any = model
    for part in map(str, first["loc"]):  # pydantic adds the members of a union to the names of fields
        where.append(part)
        field = inner.model_fields.get(part)
        if field is None or not _is_section(field.annotation):
            break
        inner = field.annotation
    key = ".".join(shown(part) for part in ([section, *where] if section else where))
    if first["type"] == "extra_forbidden":
        return f"unknown {noun} {key}.{did_you_mean(where[-1], inner.model_fields)}"
    here = first["loc"][: len(where)]
    reasons = dict.fromkeys(_sentence(e["msg"]) for e in error.errors() if e["loc"][: len(where)] == here)
    return f"{noun} {key}: {' or '.join(reasons)}, not {shortened(first['input'])}."


def _sentence(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
