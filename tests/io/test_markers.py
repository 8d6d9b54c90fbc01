"""A folder's marker file says what kind of folder it is, or why it cannot be used."""

from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.io.markers import read_marker, write_json
from mhgrn.io.replacing import PARTIAL

MARKER = "thing.json"


def test_a_partial_folder_is_refused(tmp_path: Path) -> None:
    partial = tmp_path / f".target{PARTIAL}123"
    partial.mkdir()
    write_json(partial / MARKER, {"format": 1})
    with pytest.raises(UserError, match="half-written"):
        read_marker(partial, MARKER, "thing", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a thing: it holds no thing.json"),
        ("{", "damaged"),
        ("\udcff", "damaged"),
        ("[1]", "has format None"),
        ("{}", "has format None"),
        ('{"format": 2}', "has format 2, this version of mhgrn reads format 1"),
    ],
)
def test_an_unusable_marker_is_a_message(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / MARKER).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_marker(tmp_path, MARKER, "thing", 1)
    with pytest.raises(UserError, match="does not exist"):
        read_marker(tmp_path / "nowhere", MARKER, "thing", 1)
