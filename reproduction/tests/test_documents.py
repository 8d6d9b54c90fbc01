from pathlib import Path
from shutil import copyfile

import pytest

from mhgrn.errors import UserError
from mhgrn_reproduction import encoder_tables, printed, tables
from mhgrn_reproduction.documents import refresh, results_of
from mhgrn_reproduction.experiment_setup import Request

ROOT = Path(__file__).parents[2]


def test_tables_stand_between_their_comments(own_copy: Request, tmp_path: Path) -> None:
    printed.save(encoder_tables.properties(), own_copy.results / "properties")
    file = tmp_path / "results.md"
    places = "<!-- own minilm -->\nold\n<!-- end -->\n\ntext\n<!-- properties -->\n<!-- end -->\n"
    file.write_text(f"# Results\n\n{places}<!-- toc -->\n", encoding="utf-8")  # the last one is not ours
    assert refresh(file, own_copy.results) == 2
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Results\n\n<!-- own minilm -->\n| system | dev, ours |")
    assert "old" not in text
    assert "\ntext\n<!-- properties -->\n| " in text
    assert "Measured " in text
    (summary,) = results_of(own_copy.results, "own")
    assert tables.markdown(summary).partition("\n\n")[2] in text
    refresh(file, own_copy.results)
    assert file.read_text(encoding="utf-8") == text


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.md"
    with pytest.raises(UserError, match=r"results.md cannot be read"):
        refresh(file, tmp_path)
    file.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no place for a table"):
        refresh(file, tmp_path)
    file.write_text("<!-- hops minilm -->\n<!-- end -->\n", encoding="utf-8")
    with pytest.raises(UserError, match="hops"):
        refresh(file, tmp_path)
    assert file.read_text(encoding="utf-8") == "<!-- hops minilm -->\n<!-- end -->\n"
    with pytest.raises(UserError, match=r"no experiment hop\. Did you mean hops\?"):
        results_of(tmp_path, "hop")


@pytest.mark.parametrize("rest", ["text\n<!-- properties -->\n<!-- end -->\n", "text\n"])
def test_a_place_without_its_end_is_named_and_nothing_is_written(own_copy: Request, tmp_path: Path, rest: str) -> None:
    printed.save(encoder_tables.properties(), own_copy.results / "properties")
    file, text = tmp_path / "results.md", "# Results\n<!-- own minilm -->\nold\n" + rest
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"results\.md, line 2: <!-- own minilm --> has no <!-- end -->"):
        refresh(file, own_copy.results)
    assert file.read_text(encoding="utf-8") == text


def test_the_documented_tables_are_those_of_the_results(tmp_path: Path) -> None:
    documented = ROOT / "docs" / "results.md"
    copyfile(documented, tmp_path / "copy.md")
    assert refresh(tmp_path / "copy.md", ROOT / "reproduction" / "results") > 0
    assert (tmp_path / "copy.md").read_text(encoding="utf-8") == documented.read_text(encoding="utf-8"), (
        "bring it up to date: mhgrn reproduce table --into docs/results.md --results reproduction/results"
    )
