"""Which relations a graph has: their order, what is merged into them, what is pruned. Plain data, read from YAML."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Self

import yaml

from mhgrn.errors import UserError


@dataclass(frozen=True)
class Relation:
    """One relation of the graph. ``members`` are the source relations it gathers; ``*x`` swaps head and tail of x."""

    name: str
    members: tuple[str, ...]
    gloss: str
    symmetric: bool = False


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

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        relations = tuple(
            Relation(str(r["name"]), _names(r, "members"), str(r.get("gloss", r["name"])), bool(r.get("symmetric", False)))
            for r in data["relations"]
        )
        return cls(str(data["name"]), relations, _names(data, "pruned_relations"), _names(data, "pruned_concepts"))

    @classmethod
    def shipped(cls, name: str) -> Self:
        text = resources.files("mhgrn.kg").joinpath("schemas", f"{name}.yaml").read_text(encoding="utf-8")
        return cls.from_dict(yaml.safe_load(text))

    @classmethod
    def derived(cls, names: Iterable[str]) -> Self:
        """A schema for a graph of unknown make: every relation as it is named, in alphabetical order, nothing pruned.

        Names that differ in case alone are one relation, spelt as the first of them.
        """
        spelling: dict[str, str] = {}
        for name in sorted(set(names)):
            spelling.setdefault(name.lower(), name)
        return cls("derived", tuple(Relation(name, (name,), name.replace("_", " ")) for name in spelling.values()))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def lookup(self) -> dict[str, tuple[int, bool]]:
        """Source relation, lower-cased → (relation id, whether head and tail are swapped)."""
        table: dict[str, tuple[int, bool]] = {}
        for number, relation in enumerate(self.relations):
            for member in relation.members:
                key = member.removeprefix("*").lower()
                if key in table:
                    raise UserError(f"schema {self.name}: {member} is a member of two relations.")
                table[key] = (number, member.startswith("*"))
        return table

    @cached_property
    def pruned_ids(self) -> frozenset[int]:
        return frozenset(i for i, r in enumerate(self.relations) if r.name in self.pruned_relations)

    @cached_property
    def symmetric_ids(self) -> frozenset[int]:
        return frozenset(i for i, r in enumerate(self.relations) if r.symmetric)

    def __len__(self) -> int:
        return len(self.relations)


def _names(data: dict[str, Any], key: str) -> tuple[str, ...]:
    names = data[key] if key == "members" else data.get(key, ())
    if not isinstance(names, list | tuple):
        raise UserError(f"a schema's {key} are a list, not {names!r}.")
    return tuple(map(str, names))
