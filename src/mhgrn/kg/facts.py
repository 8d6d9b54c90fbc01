"""One fact of a knowledge graph, by names."""

import hashlib
from typing import NamedTuple


class Fact(NamedTuple):
    """One edge of a knowledge graph, by names and in the direction in which the graph stores it.

    Args:
        head: Name of the concept the edge starts at.
        relation: Name of the relation.
        tail: Name of the concept the edge ends at.

    >>> fact = Fact("desk", "AtLocation", "classroom")
    >>> fact.relation
    'AtLocation'
    """

    head: str
    relation: str
    tail: str

    @property
    def id(self) -> str:
        """16 hexadecimal digits made of the names. A fact has the same id in every graph, however it is built."""
        return hashlib.blake2b("\t".join(self).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
