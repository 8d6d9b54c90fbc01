"""The text of schema files: their header, scalars, lines of entries, repeated keys."""

from collections.abc import Iterable

import yaml

from mhgrn.errors import UserError
from mhgrn.printing import shown

HEADER = """\
# The relations of a graph. To build another graph, edit this file and run: mhgrn kg build FILES --schema THIS -o GRAPH
#   name       a relation; its position is its id, which trained models depend on
#   members    the source relations that are imported as this one (default: its own name); "*x" is x with head and tail swapped
#   gloss      the relation in words
#   templates  sentences that state a fact, each with {head} and {tail} once (default: "{head} gloss {tail}")
#   symmetric  true: each fact is stored in both directions
#   ask_tail, ask_head            questions for one end of a fact, each with the other end, {head} or {tail}, once
#   describe_tail, describe_head  noun phrases for one end of a fact, for questions about two facts; [] if there are none
#   statement  a sentence that tells a layperson the fact, with {head} and {tail} once; {tail:verb} and others choose a form
# Source relations that are not a member of any relation are not imported. Facts with a pruned relation or concept are left out;
# a pruned relation keeps its id."""


def flow(text: str) -> str:
    """Return a text as a YAML scalar, quoted if necessary."""
    style = None if text.splitlines() == [text] else '"'  # YAML's other styles fold line breaks
    dumped: str = yaml.safe_dump([text], default_style=style, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return dumped.strip()[1:-1]


def line_of(node: yaml.Node, place: Iterable[str | int]) -> int:
    """Return the line of the entry at ``place`` in a YAML file, or of the nearest one above it."""
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


def check_once(root: yaml.Node, where: str) -> None:
    """Refuse a repeated key; YAML would silently use the last."""
    values = [value for _, value in root.value] if isinstance(root, yaml.MappingNode) else []
    entries = [entry for value in values if isinstance(value, yaml.SequenceNode) for entry in value.value]
    for node in (root, *entries):
        keys: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value in keys:
                raise UserError(f"{where}:{key.start_mark.line + 1}: the key {shown(key.value)} is given twice.")
            keys.add(key.value)
