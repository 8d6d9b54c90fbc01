"""Layout: no text covers another, for any nodes and arrows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.drawing.layout import HEAD, Item, Layout, lay_out
from mhgrn.drawing.picture import Arrow, Node, Picture
from mhgrn.subgraphs.extract import OTHER

NAMES = ["a", "cat", "furniture store", "a very long name of a concept that needs more than one line"]
RELATIONS = ["IsA", "AtLocation", "HasPrerequisite", "RelatedTo", "MadeOf"]


def measure(text: str, size: float) -> float:
    return len(text) * size * 0.6 / 72


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    nodes = draw(st.lists(st.builds(Node, st.sampled_from(NAMES), st.just(OTHER), st.integers(0, 2)), max_size=9))
    pairs = [(a, b) for a in range(len(nodes)) for b in range(len(nodes)) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    relations = st.lists(st.sampled_from(RELATIONS), unique=True, min_size=1, max_size=4).map(tuple)
    return Picture((), {}, nodes, [Arrow(a, draw(relations), b) for a, b in chosen], len(nodes), 99)


def box(item: Item) -> tuple[float, float, float, float]:
    return item.x - item.width / 2, item.x + item.width / 2, item.y - item.height / 2, item.y + item.height / 2


def overlap(one: Item, other: Item) -> bool:
    a, b = box(one), box(other)
    return min(a[1], b[1]) - max(a[0], b[0]) > 1e-6 and min(a[3], b[3]) - max(a[2], b[2]) > 1e-6


def written(layout: Layout) -> list[Item]:
    return [*layout.nodes, *(route.label for route in layout.routes)]


@given(pictures())
@settings(max_examples=150)
def test_names_and_labels_do_not_overlap(picture: Picture) -> None:
    items = written(lay_out(picture, measure))
    assert not [(a.lines, b.lines) for i, a in enumerate(items) for b in items[:i] if overlap(a, b)]


@given(pictures())
@settings(max_examples=150)
def test_lines_run_over_no_name_and_no_label(picture: Picture) -> None:
    layout = lay_out(picture, measure)
    t = np.linspace(0, 1, 60)
    for strokes in layout.strokes():
        for stroke in strokes:
            y, to = stroke.heights
            middle = (stroke.leave + stroke.arrive) / 2
            bend_x = stroke.leave * (1 - t) ** 3 + 3 * middle * (t * (1 - t) ** 2 + t**2 * (1 - t)) + stroke.arrive * t**3
            bend_y = y * ((1 - t) ** 3 + 3 * t * (1 - t) ** 2) + to * (3 * t**2 * (1 - t) + t**3)
            xs = np.concatenate([np.linspace(stroke.start, stroke.leave, 20), bend_x, np.linspace(stroke.arrive, stroke.end, 20)])
            ys = np.concatenate([np.full(20, y), bend_y, np.full(20, to)])
            for item in written(layout):
                left, right, low, high = box(item)
                inside = (xs > left + 1e-6) & (xs < right - 1e-6) & (ys > low + 1e-6) & (ys < high - 1e-6)
                assert not inside.any(), item.lines


@given(pictures())
def test_arrows_lead_from_head_to_tail_and_their_tips_are_apart(picture: Picture) -> None:
    layout = lay_out(picture, measure)
    tips = []
    for arrow, strokes in zip(picture.arrows, layout.strokes(), strict=True):
        for node, x, y in (
            (layout.nodes[arrow.head], strokes[0].start, strokes[0].heights[0]),
            (layout.nodes[arrow.tail], strokes[-1].end, strokes[-1].heights[1]),
        ):
            left, right, low, high = box(node)
            assert min(abs(x - left), abs(x - right)) < 1e-6
            assert low <= y <= high
            tips.append((round(x, 6), round(y, 6)))
        assert abs(strokes[-1].end - strokes[-1].arrive) >= HEAD - 1e-9
    assert len(set(tips)) == len(tips)


@given(pictures())
def test_everything_lies_within_the_drawing(picture: Picture) -> None:
    layout = lay_out(picture, measure)
    for item in written(layout):
        left, right, low, high = box(item)
        assert left > -1e-6
        assert right < layout.width + 1e-6
        assert low > -1e-6
        assert high < layout.height + 1e-6
