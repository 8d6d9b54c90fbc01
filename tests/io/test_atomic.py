"""Files are written completely or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mhgrn.io.atomic import append_text, write_text
from mhgrn.io.markers import write_json


def test_a_failed_write_keeps_the_previous_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "text.json"
    write_json(path, {"naïve": [1]})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "good start, then \ud800")
    assert json.loads(path.read_text(encoding="utf-8")) == {"naïve": [1]}
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_append_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert append_text(path, "naïve\n") == 7
    append_text(path, "second\n")
    limited = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from mhgrn.io.atomic import append_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: append_text(Path(sys.argv[1]), 'x' * 200)\n"
        "except OSError as error: print(error.filename)\n"
    )
    printed = subprocess.run([sys.executable, "-c", limited, str(path)], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(path)
    assert path.read_text(encoding="utf-8") == "naïve\nsecond\n"
