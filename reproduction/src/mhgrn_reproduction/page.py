"""All results of a folder as one self-contained HTML page."""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn_reproduction import printed, tables
from mhgrn_reproduction.summary import SUMMARY, read_summary
from mhgrn_reproduction.titles import NOT_IN_PAPER, PRINTED, TRAINED

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 3rem; border-bottom: 1px solid #bbb; padding-bottom: .3rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #777; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; height: auto; margin: 1rem 0; }
.notes, .meta { color: #444; font-size: 13px; }
.case { border-left: 3px solid #3e6fc4; padding: .2rem 1rem; margin: 1rem 0; }
.case.wrong { border-color: #b3261e; }
pre { white-space: pre-wrap; font-size: 13px; background: #f5f5f5; padding: .6rem; }
nav li { display: inline; margin-right: 1.2rem; }
nav ul { padding: 0; }
"""


def write_page(results: str | Path, output: str | Path | None = None) -> Path:
    """Write the page of a folder of results; by default to ``report.html`` in it."""
    folder = Path(results)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a folder of results of `mhgrn reproduce`.")
    output = Path(output) if output is not None else folder / "report.html"
    if output.is_dir():
        raise UserError(f"{output} is a folder; name a file to write to.")
    write_text(output, page(folder))
    return output


def page(folder: Path) -> str:
    """The page's HTML."""
    sections = _sections(folder)
    if not sections:
        raise UserError(f"{folder} has no results ({SUMMARY} or {printed.RESULT} in its folders); run `mhgrn reproduce` first.")
    links = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in sections)
    body = "\n".join(f'<h2 id="{_anchor(name)}">{escape(name)}</h2>\n{_about(name)}{content}' for name, content in sections.items())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>mhgrn: results</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<style>{STYLE}</style></head>\n<body>\n<h1>Reproduction of the paper's experiments</h1>\n"
        f"<nav><ul>{links}</ul></nav>\n{body}\n</body></html>\n"
    )


def _sections(folder: Path) -> dict[str, str]:
    """Sections by experiment, in the paper's order. ``folder`` can also be that of one experiment or of one text encoder."""
    if (folder / SUMMARY).is_file():
        return {folder.resolve().parent.name: _trained(folder)}
    if own := _section(folder):
        return {folder.resolve().name: own}
    names = [*TRAINED, *PRINTED]
    inside = sorted(p.name for p in folder.iterdir() if p.is_dir())
    ordered = [n for n in names if n in inside] + [n for n in inside if n not in names]
    return {name: section for name in ordered if (section := _section(folder / name))}


def _section(folder: Path) -> str:
    """An experiment's results with all text encoders; empty if there are none."""
    parts = [_printed(folder)] if (folder / printed.RESULT).is_file() else []
    parts += [_trained(path.parent) for path in sorted(folder.glob(f"*/{SUMMARY}"))]
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)


def _about(name: str) -> str:
    about = {**TRAINED, **PRINTED}.get(name)
    if about is None:
        return ""
    place = "Not in the paper" if about.place == NOT_IN_PAPER else f"The paper's {escape(about.place)}"
    return f"<p>{place}: {escape(about.title)}.</p>\n"


def _trained(folder: Path) -> str:
    summary = read_summary(folder)
    columns, rows = tables.table(summary)
    settings = json.dumps({"settings": summary["settings"], "changes": summary["changes"], "data": summary["data"]}, indent=1)
    return "\n".join(
        [
            f"<h3>{escape(summary['encoder_label'])}</h3>",
            _table(columns, rows),
            _figure(folder / tables.FIGURE, f"{summary['experiment']}, {summary['encoder_label']}"),
            _list(tables.remarks(summary)),
            f"<details><summary>settings and data</summary><pre>{escape(settings)}</pre></details>",
        ]
    )


def _printed(folder: Path) -> str:
    found = printed.read(folder)
    cases = found.get("cases")
    content = "\n".join(map(_case, cases)) if cases else _table(found["columns"], found["rows"])
    return "\n".join([content, _figure(folder / tables.FIGURE, found["experiment"]), _list(printed.remarks(found))])


def _case(case: dict[str, Any]) -> str:
    kind = "case" if case["answer"] == case["right"] else "case wrong"
    return (
        f'<div class="{kind}"><p class="meta">{escape(case["id"])}: {escape(case["why"])}</p>'
        f"<pre>{escape(case['text'])}</pre><p>Right: {escape(case['right'])}</p></div>"
    )


def _table(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _cell(text: str) -> str:
    is_number = text[:1].isdigit() or text[:1] in "+−–"
    return f'<td class="number">{escape(text)}</td>' if is_number else f"<td>{escape(text)}</td>"


def _figure(path: Path, what: str) -> str:
    if not path.is_file():
        return ""
    return f'<img alt="{escape(what)}" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode("ascii")}">'


def _list(lines: list[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'
