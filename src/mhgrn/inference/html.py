"""An answer as HTML, for Jupyter: bars, the facts as sentences, and a picture of the paths. All texts are escaped."""

from html import escape
from typing import TYPE_CHECKING

from mhgrn.explain import ReasoningPath
from mhgrn.printing import printable

if TYPE_CHECKING:
    from mhgrn.inference.answer import Answer

BLUE, LIGHT, GRAY = "#2563eb", "#dbeafe", "#cbd5e1"
COLUMN, ROW, HEIGHT, LETTER = 210, 56, 28, 7.2  # pixels: distance of columns and rows, height of a concept, width of a letter
LONGEST = 22  # letters of a concept or relation in the picture
MOST = 30  # choices, and concepts of the picture


def answer_html(answer: "Answer") -> str:
    """The answer as a piece of HTML without scripts, styles and links of its own."""
    parts = [f"<p><b>{_text(answer.question)}</b></p>", _bars(answer)]
    paths = [path for path in answer.paths if path.facts]
    if paths:
        said = [f"<li>{_text(' '.join(path.sentences) or str(path))} <small>({_share(path)})</small></li>" for path in paths]
        parts += [f"<ul>{''.join(said)}</ul>", picture_of_paths(paths)]
    if answer.without_graph is not None:
        parts.append(f"<p>Without the graph: {answer.probabilities[answer.choice]:.1%} → {answer.without_graph:.1%}</p>")
    parts += [f"<p><small>{_text(note)}</small></p>" for note in answer.notes]
    return f'<div style="max-width: 760px">{"".join(parts)}</div>'


def _bars(answer: "Answer") -> str:
    rows = []
    ranked = sorted(answer.probabilities.items(), key=lambda item: -item[1])
    for choice, probability in ranked[:MOST]:
        weight, color = ("bold", BLUE) if choice == answer.choice else ("normal", GRAY)
        bar = f'<div style="background: {color}; height: 1em; width: {100 * probability:.1f}%; min-width: 2px"></div>'
        rows.append(
            f'<tr><td style="text-align: right; font-weight: {weight}">{_text(choice)}</td>'
            f'<td style="width: 300px; text-align: left">{bar}</td><td>{probability:.1%}</td></tr>'
        )
    more = f"<p>and {len(ranked) - MOST} more choices</p>" if len(ranked) > MOST else ""
    return f'<table style="margin: 0">{"".join(rows)}</table>{more}'


def picture_of_paths(paths: list[ReasoningPath]) -> str:
    """The facts of some paths as SVG: the concepts of the question on the left, the answer on the right."""
    place: dict[str, tuple[int, int]] = {}  # column and row of each concept
    columns = max(len(path.concepts) for path in paths)
    used = [0] * columns
    for path in paths:
        for step, concept in enumerate(path.concepts):
            column = columns - len(path.concepts) + step
            if concept not in place and len(place) < MOST:
                place[concept] = (column, used[column])
                used[column] += 1
    width, height = (columns - 1) * COLUMN + LETTER * LONGEST + 40, max(used) * ROW + 36
    facts = dict.fromkeys(fact for path in paths for fact in path.facts if fact.head in place and fact.tail in place)
    drawn = [_arrow(_center(place[fact.head]), _center(place[fact.tail]), fact.tail, fact.relation) for fact in facts]
    drawn += [_node(concept, _center(where)) for concept, where in place.items()]
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#64748b"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Paths" width="{width:.0f}" height="{height:.0f}"'
    return f'{head} style="max-width: 100%" viewBox="0 0 {width:.0f} {height:.0f}">{marker}{"".join(drawn)}</svg>'


def _center(place: tuple[int, int]) -> tuple[float, float]:
    column, row = place
    return LETTER * LONGEST / 2 + 20 + column * COLUMN, 44 + row * ROW


def _node(concept: str, center: tuple[float, float]) -> str:
    (x, y), name = center, _short(concept.replace("_", " "))
    half = _half(concept)
    return (
        f'<rect x="{x - half:.0f}" y="{y - HEIGHT / 2:.0f}" width="{2 * half:.0f}" height="{HEIGHT}" rx="14" fill="{LIGHT}"'
        f' stroke="{BLUE}"/>{_label(x, y + 4, name, 13, "#0f172a")}'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], tail: str, relation: str) -> str:
    """A line between two concepts that ends at the border of the second. It bends around concepts between them."""
    (x1, y1), (x2, y2) = start, end
    bend = ROW * 0.9 if abs(x2 - x1) > COLUMN * 1.5 else 0.0
    middle = (x1 + x2) / 2, (y1 + y2) / 2 - bend
    dx, dy = x2 - middle[0], y2 - middle[1]
    shares = [_half(tail) / abs(dx)] if dx else []
    shares += [HEIGHT / 2 / abs(dy)] if dy else []
    share = min([*shares, 0.9])  # of the last part of the line, which the concept hides
    x3, y3 = x2 - share * dx, y2 - share * dy
    line = f'<path d="M{x1:.0f} {y1:.0f} Q{middle[0]:.0f} {middle[1]:.0f} {x3:.0f} {y3:.0f}" fill="none" stroke="#64748b"'
    return f'{line} marker-end="url(#tip)"/>' + _label(middle[0], middle[1] + bend / 2 - 6, _short(relation), 11, "#475569")


def _half(concept: str) -> float:
    """Half of the width of a concept."""
    return len(_short(concept.replace("_", " "))) * LETTER / 2 + 10


def _label(x: float, y: float, text: str, size: int, color: str) -> str:
    style = f'font-size="{size}" fill="{color}" text-anchor="middle" font-family="monospace"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{_text(text)}</text>'


def _share(path: ReasoningPath) -> str:
    return f"{path.probability:.0%} of attention" if path.probability >= 0.005 else "under 1% of attention"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(text: str) -> str:
    return escape(printable(text))
