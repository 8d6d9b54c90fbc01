"""Positions in a drawing, such that no text covers another.

Nodes are in columns. Between two columns is a lane with one row for each arrow's label. An arrow runs from its node to its row,
through the label, and on to the other node. Lines cross only between a column and the rows of a lane.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mhgrn.drawing.picture import Picture

NODE_TEXT, LABEL_TEXT, TITLE_TEXT = 9.5, 7.5, 11.0  # points
LINE = 1.25 / 72  # height of a line of text in inches per point
ROW_GAP, NODE_GAP = 0.03, 0.12  # inches between labels, between nodes
BREAK = 0.04  # inches between a label and its line
PAD = 0.09  # inches between a node's name and its border
PORT = 0.085  # inches between two lines that end at the same side of a node
TURN, TURN_MORE = 0.9, 0.035  # inches between a column and a lane; the second is added for each inch of height
HEAD = 0.1  # inches, length of an arrowhead
SWEEPS = 40

Measure = Callable[[str, float], float]  # a text's width in inches, given its size in points


@dataclass
class Item:
    """A node, a label, or a point where a long arrow passes. ``rail`` counts columns and lanes from left to right."""

    rail: int
    height: float
    lines: tuple[str, ...] = ()
    width: float = 0.0
    links: list["Item"] = field(default_factory=list)
    y: float = 0.0  # of the center; upwards
    x: float = 0.0
    band: float = 0.0  # width of its rail, in which its lines are horizontal


@dataclass(frozen=True)
class Route:
    """The items along an arrow, from its head; ``label`` is one of them."""

    items: list[Item]
    label: Item


@dataclass(frozen=True)
class Stroke:
    """A part of an arrow: horizontal from ``start`` to ``leave``, a bend, horizontal from ``arrive`` to ``end``."""

    start: float
    leave: float
    arrive: float
    end: float
    heights: tuple[float, float]


@dataclass(frozen=True)
class Layout:
    nodes: list[Item]  # in the order of the picture
    routes: list[Route]  # in the order of the picture's arrows
    width: float
    height: float

    def strokes(self) -> list[list[Stroke]]:
        """The strokes of every arrow, from head to tail; the last one ends in the arrowhead."""
        ports = self._ports()
        found = []
        for number, route in enumerate(self.routes):
            heights = [item.y for item in route.items]
            heights[0], heights[-1] = ports[number, 0], ports[number, 1]
            strokes = []
            for place, (one, other) in enumerate(pairwise(route.items)):
                right = 1 if other.rail > one.rail else -1
                end = other.x - right * other.width / 2
                arrive = other.x - right * other.band / 2
                if place == len(route.items) - 2 and abs(end - arrive) < HEAD:
                    arrive = end - right * HEAD  # an arrowhead is horizontal
                start, leave = one.x + right * one.width / 2, one.x + right * one.band / 2
                strokes.append(Stroke(start, leave, arrive, end, (heights[place], heights[place + 1])))
            found.append(strokes)
        return found

    def _ports(self) -> dict[tuple[int, int], float]:
        """The height at which a line ends at a node, by route number and end (0: head, 1: tail)."""
        ends: dict[tuple[int, int], list[tuple[float, int, int]]] = {}  # (node, side) → (height of the next item, route, end)
        for number, route in enumerate(self.routes):
            for end, (item, after) in enumerate((route.items[:2], route.items[:-3:-1])):
                ends.setdefault((id(item), after.rail - item.rail), []).append((after.y, number, end))
        nodes = {id(node): node for node in self.nodes}
        found = {}
        for (node, _), arriving in ends.items():
            for place, (_, number, end) in enumerate(sorted(arriving)):
                found[number, end] = nodes[node].y + (place - (len(arriving) - 1) / 2) * PORT
        return found


def wrapped(words: Sequence[str], most: float, between: str, size: Callable[[str], float] = len) -> tuple[str, ...]:
    """Wrap words into lines of at most size ``most``; a longer word gets its own line.

    >>> wrapped(["IsA", "AtLocation", "RelatedTo"], 16, ", ")
    ('IsA, AtLocation,', 'RelatedTo')
    """
    lines = [""]
    for word in words:
        longer = lines[-1] + between + word if lines[-1] else word
        if lines[-1] and size(longer) > most:
            lines[-1] += between.rstrip()
            lines.append(word)
        else:
            lines[-1] = longer
    return tuple(lines)


def lay_out(picture: Picture, measure: Measure) -> Layout:
    """Compute positions in inches; the lower left corner is (0, 0)."""
    columns = sorted({node.column for node in picture.nodes})
    # column c is rail 2c + 1, the lane to its right is 2c + 2
    nodes = []
    for node in picture.nodes:
        lines = wrapped(node.name.split(), 30, " ")
        width = max(measure(line, NODE_TEXT) for line in lines) + 2 * PAD
        nodes.append(Item(2 * columns.index(node.column) + 1, len(lines) * NODE_TEXT * LINE + PAD, lines, width))
    passing: list[Item] = []
    routes = []
    for arrow in picture.arrows:
        lines = wrapped(arrow.relations, 24, ", ")
        width = max(measure(line, LABEL_TEXT) for line in lines) + 2 * BREAK
        left, right = sorted((nodes[arrow.head], nodes[arrow.tail]), key=lambda item: item.rail)
        if left.rail == right.rail:
            lane = 0 if left.rail == 1 else left.rail + 1
            between = [Item(lane, 0, lines, width)]
        else:
            between = [Item(rail, 0) for rail in range(left.rail + 1, right.rail)]
            between[-1].lines, between[-1].width = lines, width
        label = between[-1]
        label.height = len(lines) * LABEL_TEXT * LINE + ROW_GAP
        for item in between[:-1]:
            item.height = PORT
        passing += between
        on_way = [left, *between, right] if left is nodes[arrow.head] else [right, *between[::-1], left]
        for one, other in pairwise(on_way):
            one.links.append(other)
            other.links.append(one)
        routes.append(Route(on_way, label))
    for box in nodes:
        to_left = sum(link.rail < box.rail for link in box.links)
        box.height = max(box.height, max(to_left, len(box.links) - to_left) * PORT + PAD) + NODE_GAP
    items = nodes + passing
    _settle(items)
    for box in nodes:
        box.height -= NODE_GAP
    low = min((item.y - item.height / 2 for item in items), default=0.0)
    for item in items:
        item.y -= low
    height = max((item.y + item.height / 2 for item in items), default=0.0)
    return Layout(nodes, routes, _place_rails(items, TURN + TURN_MORE * height), height)


def _settle(items: list[Item]) -> None:
    """Set heights such that linked items are close and items of a rail do not overlap; keeps the best of several sweeps."""
    rails: dict[int, list[Item]] = {}
    for item in items:
        rails.setdefault(item.rail, []).append(item)
    for rail in rails.values():
        total = sum(item.height for item in rail)
        for item in rail:
            item.y = total / 2 - item.height / 2
            total -= 2 * item.height
    best: tuple[float, list[float]] = (float("inf"), [])
    for sweep in range(SWEEPS):
        for number in sorted(rails, reverse=bool(sweep % 2)):
            rail = rails[number]
            wanted = {id(item): _wanted(item) for item in rail}
            rail.sort(key=lambda item: -wanted[id(item)])  # stable sort: ties keep their order
            _spread(rail, [wanted[id(item)] for item in rail])
        length = sum(abs(item.y - link.y) for item in items for link in item.links)
        if length < best[0] - 1e-9:
            best = (length, [item.y for item in items])
    for item, y in zip(items, best[1], strict=True):
        item.y = y


def _wanted(item: Item) -> float:
    """The mean height of an item's links; a link with few links of its own weighs more, so that its lines are straight."""
    if not item.links:
        return item.y
    weights = [1 / len(link.links) for link in item.links]
    return sum(w * link.y for w, link in zip(weights, item.links, strict=True)) / sum(weights)


def _spread(rail: list[Item], wanted: list[float]) -> None:
    """Set heights in this order, from the top, as close to the wanted ones as possible without overlap (least squares)."""
    blocks: list[tuple[float, int]] = []  # mean wanted height of touching items, and their number
    offset, offsets = 0.0, []
    for place, item in enumerate(rail):
        offset += item.height / 2 + (rail[place - 1].height / 2 if place else 0)
        offsets.append(offset)
        mean, count = -wanted[place] - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, number = blocks.pop()
            mean, count = (mean * count + before * number) / (count + number), count + number
        blocks.append((mean, count))
    place = 0
    for mean, count in blocks:
        for _ in range(count):
            rail[place].y = -(mean + offsets[place])
            place += 1


def _place_rails(items: list[Item], turn: float) -> float:
    """Set x from left to right, and return the total width."""
    rails: dict[int, list[Item]] = {}
    for item in items:
        rails.setdefault(item.rail, []).append(item)
    x = 0.0
    for number in range(min(rails, default=0), max(rails, default=-1) + 1):
        rail = rails.get(number, [])
        width = max((item.width for item in rail), default=0.0)
        x += turn * (number > min(rails))
        for item in rail:
            item.x = x + width / 2
            item.band = width
        x += width
    return x
