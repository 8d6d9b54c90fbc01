"""Readers of graph formats by name, by file ending and by first line; and those of other packages, by real entry points."""

import doctest
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Command

import mhgrn.kg.readers
from mhgrn.errors import UserError
from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, build
from mhgrn.kg.reader import GraphReader
from mhgrn.kg.readers import READERS, find_reader
from plugin_package import install

IMPORTS = "from mhgrn.kg.reader import BadRow, GraphReader\n\n"
ARROWS = (
    IMPORTS
    + '''
class Arrows(GraphReader):
    """Lines such as ``cat -IsA-> animal``."""

    name = "arrows"
    endings = (".arrows",)

    @classmethod
    def recognizes(cls, line):
        return "->" in line

    def rows(self):
        for number, line in self.lines():
            fields = line.replace("->", "-").split("-")
            yield number, fields if "->" in line else BadRow("no arrow")
'''
)
TEXT = "cat -IsA-> animal\n\nBlack cat -IsA-> cat\n"
FACTS = [Fact("cat", "IsA", "animal"), Fact("black_cat", "IsA", "cat")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to install packages into."""
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path / "site"
    for module in [name for name in sys.modules if name.split(".")[0] in ("my_package", "other")]:
        del sys.modules[module]


@pytest.fixture
def arrows(site: Path) -> None:
    install(site, ARROWS, "mhgrn.graph_readers", "arrows = my_package.plugin")


def test_every_file_is_a_format() -> None:
    files = {path.stem for path in Path(mhgrn.kg.readers.__file__).parent.glob("[!_]*.py")}
    assert {reader.name for reader in READERS.load_all().values()} == files


@pytest.mark.usefixtures("arrows")
@pytest.mark.parametrize(("file", "name"), [("facts.arrows", None), ("facts.txt", None), ("facts.tsv", "arrows")])
def test_a_reader_of_another_package_is_chosen_by_ending_content_or_name(tmp_path: Path, file: str, name: str | None) -> None:
    (tmp_path / file).write_text(TEXT, encoding="utf-8")
    graph, report = build([tmp_path / file], options=ImportOptions(format=name))
    assert graph.facts_of("cat") == FACTS
    assert report.rows == 2


@pytest.mark.usefixtures("arrows")
def test_the_command_builds_a_graph_with_a_reader_of_another_package(tmp_path: Path, here: Command) -> None:
    (tmp_path / "facts.txt").write_text(TEXT, encoding="utf-8")
    done = here("kg", "build", tmp_path / "facts.txt", "--format", "arrows", "-o", tmp_path / "graph")
    assert (done.code, done.err) == (0, "")
    assert KnowledgeGraph.load(tmp_path / "graph").facts_of("cat") == FACTS


@pytest.mark.usefixtures("arrows")
def test_a_malformed_row_of_another_package_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.arrows"
    path.write_text(f"{TEXT}dog\ndog -IsA-> \n", encoding="utf-8")
    with pytest.raises(UserError, match=r"2 of 4 rows are malformed.*\n.*arrows:4: no arrow\n.*arrows:5: an empty head"):
        build([path])


def test_the_example_of_the_documentation_reads(site: Path, tmp_path: Path) -> None:
    code = doctest.DocTestParser().get_examples(GraphReader.__doc__ or "")[0].source
    install(site, IMPORTS + code, "mhgrn.graph_readers", "arrows = my_package.plugin:Arrows")
    (tmp_path / "facts.arrows").write_text(TEXT, encoding="utf-8")
    assert build([tmp_path / "facts.arrows"])[0].facts_of("cat") == FACTS


def test_a_new_file_is_a_new_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arrows.py").write_text(ARROWS, encoding="utf-8")
    monkeypatch.setattr(mhgrn.kg.readers, "__path__", [*mhgrn.kg.readers.__path__, str(tmp_path)])
    (tmp_path / "facts.arrows").write_text(TEXT, encoding="utf-8")
    try:
        assert build([tmp_path / "facts.arrows"])[0].facts_of("cat") == FACTS
    finally:
        sys.modules.pop("mhgrn.kg.readers.arrows", None)


@pytest.mark.usefixtures("arrows")
def test_a_file_that_two_formats_claim_needs_a_name(site: Path, tmp_path: Path) -> None:
    install(site, ARROWS.replace('"arrows"', '"bows"'), "mhgrn.graph_readers", "bows = other.plugin", "other")
    (tmp_path / "facts.arrows").write_text(TEXT, encoding="utf-8")
    with pytest.raises(UserError, match=r"facts\.arrows may have the formats arrows and bows; name one \(--format\)"):
        build([tmp_path / "facts.arrows"])


def test_a_package_that_cannot_be_imported_does_not_break_the_other_formats(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "import nothing_of_this_name", "mhgrn.graph_readers", "odd = other.plugin", "other")
    (tmp_path / "facts.tsv").write_text("cat\tIsA\tanimal\n", encoding="utf-8")
    assert build([tmp_path / "facts.tsv"])[0].fact_count == 1
    assert "the graph format 'odd' (other.plugin of other) cannot be loaded" in capsys.readouterr().err


def test_an_unknown_format_suggests_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("cat\tIsA\tanimal\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"unknown graph format 'tvs'. Did you mean tsv\?"):
        build([tmp_path / "facts.tsv"], options=ImportOptions(format="tvs"))


ASSERTION = '/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": 1.0}'


@pytest.mark.parametrize(
    ("file", "line", "name"),
    [
        ("a.csv", ASSERTION, "conceptnet"),
        ("a.csv", "cat\tIsA\tanimal", "tsv"),
        ("a.tsv", "cat,IsA,animal", "csv"),
        ("a.txt", "", "tsv"),
        ("a.txt", "<cat> <IsA> <animal> .", "ntriples"),
        ("a.txt", "<cat>\t<IsA>\t<animal> .", "tsv"),
        ("a.nt", "cat,IsA,animal", "ntriples"),
        ("a.parquet", "cat,IsA,animal", "parquet"),
        ("a.b.nt.gz", "", "ntriples"),
    ],
)
def test_the_ending_or_else_the_first_line_decides(tmp_path: Path, file: str, line: str, name: str) -> None:
    (tmp_path / file).write_text(f"\n{line}\n", encoding="utf-8")
    assert find_reader(tmp_path / file).name == name
