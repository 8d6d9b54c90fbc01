"""An answer as HTML, for Jupyter: bars, the facts as sentences, and a picture of the question's part of the graph.

All texts are escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from mhgrn.explain import ReasoningPath
from mhgrn.kg.sentences import label
from mhgrn.printing import printable

if TYPE_CHECKING:
    from mhgrn.inference.answer import Answer

BLUE, LIGHT, GRAY, PALE, DARK = "#2563eb", "#dbeafe", "#cbd5e1", "#94a3b8", "#0f172a"
COLUMN, ROW, HEIGHT, LETTER = 250, 48, 28, 7.2  # pixels: distance of columns and rows, height of a concept, width of a letter
LONGEST = 22  # letters of a concept or relation in the picture
MOST = 30  # choices
ROLES = {"question": 0, "between": 1, "choice": 2}  # the columns of the picture, from left to right
IN_COLUMN, MOST_EDGES = 9, 60  # concepts of a column, and facts of the picture
SWEEPS = 12  # of the ordering of rows
DRAWN = 6  # answers of a ranking whose paths are shown


def answer_html(answer: "Answer", view: dict[str, Any] | None = None) -> str:
    """The answer as a piece of HTML without scripts, styles and links of its own.

    Args:
        answer: The answer.
        view: The question's part of the graph, see :func:`mhgrn.inference.view.view_of`. None: the picture has the paths only.
    """
    parts = [f"<p><b>{_text(answer.question)}</b></p>", _bars(answer)]
    paths = [path for path in answer.paths if path.facts]
    ranked = [one.paths[0] for one in answer.ranking or () if one.paths and one.paths[0].facts][:DRAWN]
    if answer.ranking is not None:
        said = "".join(f"<li><b>{_text(label(path.entity))}</b>: {_text(str(path))}</li>" for path in ranked)
        parts.append(f"<ul>{said}</ul>" if said else "")
        shared = f"Path to the answers: {_text(answer.ranking.shared)}. " if answer.ranking.shared else ""
        parts.append(f"<p>{shared}{answer.ranking.candidates:,} candidates.</p>")
    evidence = answer.evidence
    if evidence is not None:
        lines = evidence.lines(answer.choice, answer.probabilities[answer.choice])
        indented = [line for line in lines if line.startswith("  ")]
        rest = [line for line in lines if not line.startswith("  ")]
        if indented:
            said = "".join(f"<li>{_text(' '.join(line.split()))}</li>" for line in indented)
            parts += [f"<p>{_sentence(rest.pop(0))}</p>", f"<ul>{said}</ul>"]
        parts += ["<p>", "<br>".join(_sentence(line) for line in rest), "</p>"]
    elif paths and answer.ranking is None:
        said = "".join(f"<li>{_text(' '.join(path.sentences) or str(path))} <small>({_share(path)})</small></li>" for path in paths)
        parts.append(f"<ul>{said}</ul>")
    shown = [fact for path in paths for fact in path.facts] if evidence is None else [one.fact for one in evidence.facts]
    view = view_of_paths(ranked or paths) if view is None else view
    if view["edges"]:
        parts.append(picture(view, {tuple(fact) for fact in shown}))
    if evidence is None and answer.without_graph is not None:
        parts.append(f"<p>Without the graph: {answer.probabilities[answer.choice]:.1%} → {answer.without_graph:.1%}</p>")
    parts += [f"<p><small>{_text(note)}</small></p>" for note in answer.notes]
    return f'<div style="max-width: 780px">{"".join(parts)}</div>'


def _bars(answer: "Answer") -> str:
    rows = []
    ranked = sorted(answer.probabilities.items(), key=lambda item: -item[1])
    chosen = {answer.choice, *((answer.ranking and answer.ranking.full) or ())}
    for choice, probability in ranked[:MOST]:
        weight, color = ("bold", BLUE) if choice in chosen else ("normal", GRAY)
        name = choice if answer.ranking is None else label(choice)
        bar = f'<div style="background: {color}; height: 1em; width: {100 * probability:.1f}%; min-width: 2px"></div>'
        rows.append(
            f'<tr><td style="text-align: right; font-weight: {weight}">{_text(name)}</td>'
            f'<td style="width: 300px; text-align: left">{bar}</td><td>{probability:.1%}</td></tr>'
        )
    more = f"<p>and {len(ranked) - MOST} more choices</p>" if len(ranked) > MOST else ""
    return f'<table style="margin: 0">{"".join(rows)}</table>{more}'


def view_of_paths(paths: Sequence[ReasoningPath]) -> dict[str, Any]:
    """The concepts and facts of paths in the form of :func:`mhgrn.inference.view.view_of`."""
    roles: dict[str, str] = {}
    for path in paths:
        for concept in path.concepts[1:-1]:
            roles.setdefault(concept, "between")
        roles[path.concepts[0]], roles[path.concepts[-1]] = "question", "choice"
    place = {concept: number for number, concept in enumerate(roles)}
    facts = dict.fromkeys(fact for path in paths for fact in path.facts)
    return {
        "nodes": [{"name": name, "label": label(name), "role": role} for name, role in roles.items()],
        "edges": [
            {"head": place[fact.head], "relation": fact.relation, "tail": place[fact.tail], "sentence": " ".join(fact)}
            for fact in facts
        ],
        "left_out": {"nodes": 0, "edges": 0},
    }


class _Place(NamedTuple):
    """The center of a concept in the picture, and half of its width."""

    x: float
    y: float
    half: float


def picture(view: dict[str, Any], shown: set[tuple[str, ...]]) -> str:
    """The question's part of the graph as SVG: concepts of the question on the left, of the choices on the right.

    Args:
        view: See :func:`mhgrn.inference.view.view_of`; its most important nodes and edges come first.
        shown: The facts of the explanation, by names. They are drawn bold and with their relations.
    """
    columns: list[list[int]] = [[], [], []]
    for number, node in enumerate(view["nodes"]):
        column = columns[ROLES[node["role"]]]
        if len(column) < IN_COLUMN:
            column.append(number)
    drawn = {number for column in columns for number in column}
    edges = [edge for edge in view["edges"] if edge["head"] in drawn and edge["tail"] in drawn][:MOST_EDGES]
    places = _places(columns, edges, [node["label"] for node in view["nodes"]])
    names = [node["name"] for node in view["nodes"]]
    bold = [(names[edge["head"]], edge["relation"], names[edge["tail"]]) in shown for edge in edges]
    parts = [_arrow(edge, places, False)[0] for edge, is_bold in zip(edges, bold, strict=True) if not is_bold]
    said = [_arrow(edge, places, True) for edge, is_bold in zip(edges, bold, strict=True) if is_bold]
    parts += [line for line, _ in said]
    parts += [_node(node["label"], node["role"], places[number]) for number, node in enumerate(view["nodes"]) if number in drawn]
    parts += [relation for _, relation in said]
    nodes, facts = len(names) + view["left_out"]["nodes"], len(view["edges"]) + view["left_out"]["edges"]
    if (len(drawn), len(edges)) != (nodes, facts):
        parts.append(_label(COLUMN, 14, f"{len(drawn)} of {nodes:,} concepts, {len(edges)} of {facts:,} facts", 11, "#475569"))
    width, height = 2 * COLUMN + LETTER * LONGEST + 60, max(map(len, columns)) * ROW + 40
    tips = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{color}"/></marker>'
        for name, color in (("tip", PALE), ("bold-tip", BLUE))
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Graph" width="{width:.0f}" height="{height}"'
    style = 'style="max-width: 100%; background: white"'
    return f'{head} {style} viewBox="0 0 {width:.0f} {height}"><defs>{tips}</defs>{"".join(parts)}</svg>'


def _places(columns: Sequence[list[int]], edges: Sequence[dict[str, Any]], labels: Sequence[str]) -> dict[int, _Place]:
    """Positions of concepts in their columns; rows are sorted by the mean height of their neighbors, so that few lines cross."""
    tallest = max(map(len, columns))
    height: dict[int, float] = {}

    def spread(column: list[int]) -> None:
        for row, number in enumerate(column):
            height[number] = 44 + (row + (tallest - len(column)) / 2) * ROW

    for column in columns:
        spread(column)
    near: dict[int, list[int]] = {number: [] for number in height}
    for edge in edges:
        near[edge["head"]].append(edge["tail"])
        near[edge["tail"]].append(edge["head"])

    def wanted(number: int) -> float:
        heights = [height[other] for other in near[number]] or [height[number]]
        return sum(heights) / len(heights)

    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 else columns[::-1]:
            column.sort(key=wanted)
            spread(column)
    left = LETTER * LONGEST / 2 + 20
    return {
        number: _Place(left + place * COLUMN, height[number], len(_short(labels[number])) * LETTER / 2 + 10)
        for place, column in enumerate(columns)
        for number in column
    }


def _node(name: str, role: str, place: _Place) -> str:
    fill, stroke = {"question": (LIGHT, BLUE), "between": ("#ffffff", PALE), "choice": ("#dcfce7", "#16a34a")}[role]
    return (
        f'<rect x="{place.x - place.half:.0f}" y="{place.y - HEIGHT / 2:.0f}" width="{2 * place.half:.0f}" height="{HEIGHT}"'
        f' rx="14" fill="{fill}" stroke="{stroke}"/>{_label(place.x, place.y + 4, _short(name), 13, DARK)}'
    )


def _arrow(edge: dict[str, Any], places: dict[int, _Place], is_bold: bool) -> tuple[str, str]:
    """A curve from head to tail, and its label. Concepts of one column are joined by an arc on their right."""
    a, b = places[edge["head"]], places[edge["tail"]]
    if a.x == b.x:
        x1, x2 = a.x + a.half, b.x + b.half
        reach = max(x1, x2) + 18 + abs(a.y - b.y) / 6
        bends, middle = (reach, reach), (max(x1, x2) * 0.25 + reach * 0.75, (a.y + b.y) / 2)
    else:
        to_right = 1 if b.x > a.x else -1
        x1, x2 = a.x + to_right * a.half, b.x - to_right * b.half
        share, fall = (
            (0.5, 0.5) if abs(b.x - a.x) < 1.5 * COLUMN else (0.3, 0.16)
        )  # a long line has its label before the middle column
        bends, middle = ((x1 + x2) / 2, (x1 + x2) / 2), (x1 + share * (x2 - x1), a.y + fall * (b.y - a.y))
    color, width, tip = (BLUE, 2.2, "bold-tip") if is_bold else (GRAY, 1, "tip")
    line = (
        f'<path d="M{x1:.0f} {a.y:.0f} C{bends[0]:.0f} {a.y:.0f} {bends[1]:.0f} {b.y:.0f} {x2:.0f} {b.y:.0f}" fill="none"'
        f' stroke="{color}" stroke-width="{width}" marker-end="url(#{tip})"><title>{_text(edge["sentence"])}</title></path>'
    )
    return line, _label(middle[0], middle[1] - 5, _short(edge["relation"]), 11, BLUE)


def _label(x: float, y: float, text: str, size: int, color: str) -> str:
    style = f'font-size="{size}" fill="{color}" text-anchor="middle" font-family="monospace"'
    halo = 'stroke="white" stroke-width="3" paint-order="stroke"' if color == BLUE else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" {style} {halo}>{_text(text)}</text>'


def _share(path: ReasoningPath) -> str:
    return f"{path.probability:.0%} of attention" if path.probability >= 0.005 else "under 1% of attention"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _sentence(text: str) -> str:
    return _text(text[:1].upper() + text[1:])


def _text(text: str) -> str:
    return escape(printable(text))
