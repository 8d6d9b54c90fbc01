"""Update the tables of results in Markdown documents. Each table is between two comments."""

import re
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError, did_you_mean
from mhgrn.io.atomic import write_text
from mhgrn_reproduction import printed, tables
from mhgrn_reproduction.summary import SUMMARY, read_summary
from mhgrn_reproduction.titles import PRINTED, TRAINED

BEGIN = r"^<!-- (?!end -->)(?P<name>[\w-]+)(?: (?P<encoder>[\w-]+))? -->\n"
PLACE = re.compile(rf"(?P<begin>{BEGIN})(?P<table>(?:(?!^<!-- ).)*?)(?P<end>^<!-- end -->$)", re.M | re.S)


def results_of(results: Path, name: str, encoder: str | None = None) -> list[dict[str, Any]]:
    """The results of an experiment with one text encoder, or with all that have results."""
    folder = results / Path(name).stem
    if not _is_known(name, results):
        known = {*TRAINED, *PRINTED, *(p.name for p in results.glob("*") if p.is_dir())}
        raise UserError(f"there is no experiment {name}.{did_you_mean(name, known)}")
    if name in PRINTED:
        return [printed.read(folder)]
    folders = sorted(path.parent for path in folder.glob(f"*/{SUMMARY}"))
    if not folders:
        raise UserError(f"{folder} has no results; run `mhgrn reproduce {name}` first, or name their folder with --results.")
    if encoder is not None:
        others = ", ".join(each.name for each in folders)
        folders = [each for each in folders if each.name == Path(encoder).stem]
        if not folders:
            raise UserError(f"{folder} has no results with the text encoder {encoder}, only with {others}.")
    return [read_summary(each) for each in folders]


def _is_known(name: str, results: Path) -> bool:
    return name in (*TRAINED, *PRINTED) or (results / Path(name).stem).is_dir()


def refresh(path: Path, results: Path) -> int:
    """Update every table of a Markdown file between ``<!-- NAME ENCODER -->`` and ``<!-- end -->``; returns their number."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from None
    whole = {match.start() for match in PLACE.finditer(text)}
    begun = [m.start() for m in re.finditer(BEGIN, text, re.M) if m.start() not in whole and _is_known(m["name"], results)]
    if begun:
        line = text.count("\n", 0, begun[0]) + 1
        raise UserError(
            f"{path}, line {line}: {text.splitlines()[line - 1]} has no <!-- end --> before the next comment; write one."
        )
    fresh, count = PLACE.subn(lambda match: match["begin"] + _table(match["name"], match["encoder"], results) + match["end"], text)
    if not count:
        raise UserError(
            f"{path} has no place for a table; write <!-- csqa-inhouse minilm --> and <!-- end -->, each on a separate line."
        )
    if fresh != text:
        write_text(path, fresh)
    return count


def _table(name: str, encoder: str | None, results: Path) -> str:
    """The table and its notes, without the heading."""
    shown = [printed.markdown(f) if name in PRINTED else tables.markdown(f) for f in results_of(results, name, encoder)]
    return "\n".join(each.partition("\n\n")[2] for each in shown)
