"""Readers of graph formats, one file for each. The file's name is the format's name."""

from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.kg.reader import GraphReader
from mhgrn.kg.readers._lines import OPENERS, first_line
from mhgrn.kg.readers._tables import delimiter_of
from mhgrn.plugins import Plugins
from mhgrn.progress import say

READERS: Plugins[type[GraphReader]] = Plugins(
    "graph format", "mhgrn.graph_readers", "mhgrn.kg.readers", "mhgrn.kg.reader:GraphReader"
)


def find_reader(path: Path, name: str | None = None, delimiter: str | None = None) -> type[GraphReader]:
    """Return the reader of a file.

    Args:
        path: The file.
        name: The name of its format; by default the file's ending or its first line decides.
        delimiter: The delimiter of tables, if it is known.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of triples.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the files of triples in it.")
    if not path.is_file():
        raise UserError(f"{path} is not a regular file, so it cannot be read twice; write its content to a file first.")
    if name is not None:
        return READERS.load(name)
    readers = READERS.load_usable(lambda error: say(f"warning: {error}")).values()
    ending = next((ending for ending in reversed(path.suffixes) if ending not in OPENERS), "")
    found = [reader for reader in readers if ending in reader.endings]
    if not found:
        line = first_line(path)
        found = [reader for reader in readers if reader.recognizes(line)]
        known = [reader for reader in found if not reader.is_any_table]
        found = [reader for reader in known if not reader.is_vague] or known or found
        if delimiter is not None and all(reader.is_any_table for reader in found):
            found = [READERS.load("tsv" if delimiter_of(delimiter) == "\t" else "csv")]
    if len(found) > 1:
        names = " and ".join(reader.name for reader in found)
        raise UserError(f"{path} may have the formats {names}; name one (--format).")
    if not found:
        raise UserError(f"{path} has no known format; name one (--format). Known: {', '.join(READERS.names())}.")
    return found[0]
