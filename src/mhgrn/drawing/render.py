"""Drawing a picture to an SVG or PNG file."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.drawing.figures import check_image, plotting, write_figure
from mhgrn.drawing.layout import HEAD, LABEL_TEXT, LINE, NODE_TEXT, TITLE_TEXT, Item, Layout, Measure, lay_out, wrapped
from mhgrn.drawing.picture import Picture
from mhgrn.printing import shown
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {QUESTION: "#9dbcf2", ANSWER: "#ffb6c1", OTHER: "#e3e3e3"}
BORDERS = {QUESTION: "#3e6fc4", ANSWER: "#d76a80", OTHER: "#9a9a9a"}
LINES, LABELS = "#7d7d7d", "#222222"
MARGIN = 0.25  # inches
LONGEST_NAME, LONGEST_TITLE = 100, 500  # characters
BOLD = 1.12  # width of bold letters relative to normal ones
HALF_HEAD = 0.035  # half the width of an arrowhead


def draw(picture: Picture, path: str | Path) -> None:
    """Write a picture to a ``.svg`` or ``.png`` file. The same picture gives the same bytes."""
    path = Path(path)
    check_image(path)
    picture = _drawable(picture)
    with plotting():
        from matplotlib.figure import Figure

        measure = _measure()
        layout = lay_out(picture, measure)
        legend = _legend(picture)
        widest = sum(measure(text, LABEL_TEXT + 1) + 0.5 for _, text in legend)
        width = max(layout.width, widest, 5.0)
        title = [
            (line, not place)
            for place, text in enumerate(picture.title)
            for line in wrapped(text.split(), width, " ", lambda line: BOLD * measure(line, TITLE_TEXT))
        ]
        above, below = len(title) * TITLE_TEXT * LINE + 0.2, 0.4
        size = (width + 2 * MARGIN, layout.height + above + below + 2 * MARGIN)
        figure = Figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-MARGIN - (width - layout.width) / 2, size[0] - MARGIN - (width - layout.width) / 2)
        axes.set_ylim(-MARGIN - below, size[1] - MARGIN - below)
        left = axes.get_xlim()[0] + MARGIN
        for number, (line, first) in enumerate(title):
            y = layout.height + above - (number + 0.5) * TITLE_TEXT * LINE
            weight = "bold" if first else "normal"
            axes.text(left, y, line, fontsize=TITLE_TEXT, va="center", weight=weight, parse_math=False)
        _draw_arrows(axes, layout)
        _draw_nodes(axes, picture, layout)
        _draw_legend(axes, legend, left, -below + 0.1, measure)
        write_figure(figure, path)


def _drawable(picture: Picture) -> Picture:
    """The picture with texts of limited length and without control characters, which SVG cannot contain."""

    def text(given: str, limit: int = LONGEST_NAME) -> str:
        return shown(" ".join(given[: 10 * limit].split()), limit)

    return replace(
        picture,
        title=tuple(text(line, LONGEST_TITLE) for line in picture.title),
        legend={kind: text(meaning) for kind, meaning in picture.legend.items()},
        nodes=[replace(node, name=text(node.name)) for node in picture.nodes],
        arrows=[replace(arrow, relations=tuple(map(text, arrow.relations))) for arrow in picture.arrows],
    )


def _measure() -> Measure:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    to_path = TextToPath()

    def width(text: str, size: float) -> float:
        return float(to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0]) / 72

    return width


def _legend(picture: Picture) -> list[tuple[int | None, str]]:
    used = {node.type for node in picture.nodes}
    return [*((kind, text) for kind, text in picture.legend.items() if kind in used), (None, picture.shown)]


def _draw_legend(axes: "Axes", legend: list[tuple[int | None, str]], x: float, y: float, measure: Measure) -> None:
    from matplotlib.patches import Rectangle

    size = LABEL_TEXT + 1
    for kind, text in legend:
        if kind is not None:
            axes.add_patch(Rectangle((x, y - 0.07), 0.2, 0.14, facecolor=COLORS[kind], edgecolor=BORDERS[kind], linewidth=0.8))
            x += 0.27
        axes.text(x, y, text, fontsize=size, va="center", color=LABELS)
        x += measure(text, size) + 0.3


def _draw_nodes(axes: "Axes", picture: Picture, layout: Layout) -> None:
    from matplotlib.patches import FancyBboxPatch

    for number, (node, item) in enumerate(zip(picture.nodes, layout.nodes, strict=True)):
        box = FancyBboxPatch(
            (item.x - item.width / 2, item.y - item.height / 2),
            item.width,
            item.height,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=COLORS[node.type],
            edgecolor=BORDERS[node.type],
            linewidth=0.9,
            zorder=3,
        )
        box.set_gid(f"node-{number}")
        axes.add_patch(box)
        _write(axes, item, NODE_TEXT, 4)


def _write(axes: "Axes", item: Item, size: float, zorder: int) -> None:
    top = item.y + (len(item.lines) - 1) / 2 * size * LINE
    for number, line in enumerate(item.lines):
        y = top - number * size * LINE
        # a dollar sign in a name does not begin a formula
        axes.text(item.x, y, line, fontsize=size, ha="center", va="center", color=LABELS, zorder=zorder, parse_math=False)


def _draw_arrows(axes: "Axes", layout: Layout) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    for number, (route, strokes) in enumerate(zip(layout.routes, layout.strokes(), strict=True)):
        points: list[tuple[float, float]] = []
        codes: list[Any] = []
        for stroke in strokes:
            y, to = stroke.heights
            bend = (stroke.leave + stroke.arrive) / 2
            points += [(stroke.start, y), (stroke.leave, y), (bend, y), (bend, to), (stroke.arrive, to), (stroke.end, to)]
            codes += [Curve.MOVETO, Curve.LINETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4, Curve.LINETO]
        tip, height = points[-1]
        back = tip - HEAD if strokes[-1].arrive < tip else tip + HEAD
        points[-1] = (back, height)
        line = PathPatch(Curve(points, codes), facecolor="none", edgecolor=LINES, linewidth=0.75, zorder=1)
        line.set_gid(f"arrow-{number}")
        axes.add_patch(line)
        corners = [(tip, height), (back, height + HALF_HEAD), (back, height - HALF_HEAD)]
        axes.add_patch(Polygon(corners, closed=True, facecolor=LINES, edgecolor="none", zorder=2))
        _write(axes, route.label, LABEL_TEXT, 2)
