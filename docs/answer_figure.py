"""Draw an answer as SVG: a bar for each choice, and the best path with the effect of removing it.

mhgrn ask starter "After hours of heavy rain, what do you find on the street?" -c puddle -c umbrella -c desert -c cloud \
    -c car --by attention --json | python docs/answer_figure.py docs/answer.svg

`make plots` runs this.
"""

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

WIDTH, MARGIN, BAR_LEFT, BAR_WIDTH = 760, 28, 150, 500
BLUE, LIGHT, GRAY, TEXT, SOFT = "#2563eb", "#dbeafe", "#cbd5e1", "#0f172a", "#64748b"
SANS, MONO = (
    "ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif",
    "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace",
)


def text(x: float, y: float, content: str, size: int = 15, color: str = TEXT, **attributes: str) -> str:
    style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in {"font_family": SANS, **attributes}.items())
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}"{style}>{escape(content)}</text>'


def bars(probabilities: dict[str, float], choice: str, top: float) -> list[str]:
    parts = []
    for row, (name, probability) in enumerate(sorted(probabilities.items(), key=lambda item: -item[1])):
        y, chosen = top + 30 * row, name == choice
        weight, color = ("600", BLUE) if chosen else ("400", GRAY)
        length = probability * BAR_WIDTH
        parts += [
            text(BAR_LEFT - 12, y + 16, name, text_anchor="end", font_weight=weight),
            f'<rect x="{BAR_LEFT}" y="{y:.0f}" width="{max(length, 2):.1f}" height="22" rx="3" fill="{color}"/>',
            text(
                BAR_LEFT + length + 10,
                y + 16,
                f"{probability:.1%}",
                color=TEXT if chosen else SOFT,
                font_weight=weight,
            ),
        ]
    return parts


def path(concepts: list[str], facts: list[list[str]], y: float) -> list[str]:
    """Concepts as boxes, facts as arrows in the direction in which the graph stores them."""
    parts, x = [], float(MARGIN)
    for place, concept in enumerate(concepts):
        name = concept.replace("_", " ")
        box = 9 * len(name) + 26
        parts += [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{box}" height="34" rx="17" fill="{LIGHT}" stroke="{BLUE}"/>',
            text(x + box / 2, y + 22, name, font_family=MONO, text_anchor="middle"),
        ]
        x += box
        if place < len(facts):
            head, relation, _ = facts[place]
            arrow = 8 * len(relation) + 44
            start, end = (x + 4, x + arrow - 6) if head == concept else (x + arrow - 4, x + 6)
            parts += [
                f'<path d="M{start:.0f} {y + 17:.0f}H{end:.0f}" stroke="{TEXT}" marker-end="url(#arrow)"/>',
                text(x + arrow / 2, y + 9, relation, 13, SOFT, font_family=MONO, text_anchor="middle"),
            ]
            x += arrow
    return parts


def figure(answer: dict[str, Any]) -> str:
    best, before = answer["paths"][0], answer["probabilities"][answer["choice"]]
    under = 74 + 30 * len(answer["probabilities"])
    left = " or ".join(dict.fromkeys(f"{after:.1%}" for after in best["without"]))
    effect = f"Without {'this fact' if len(best['facts']) == 1 else 'one of these facts'}: {before:.1%} → {left}"
    height = under + 146
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        f'<path d="M0 0 8 4 0 8z" fill="{TEXT}"/></marker></defs>',
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10" fill="#fff" stroke="{GRAY}"/>',
        text(MARGIN, 40, answer["question"], 18, font_weight="600"),
        *bars(answer["probabilities"], answer["choice"], 60),
        text(MARGIN, under + 18, f"Reasoning path ({best['probability']:.0%} of attention)", 14, SOFT),
        *path(best["concepts"], best["facts"], under + 34),
        text(MARGIN, under + 102, effect, 14),
        text(MARGIN, under + 124, f"Without the graph: {before:.1%} → {answer['without_graph']:.1%}", 14),
        "</svg>",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(figure(json.load(sys.stdin)) + "\n", encoding="utf-8")
