"""YAML of settings: what is refused, and that neither the refusal nor its message costs much."""

from pathlib import Path

import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.schema import load_schema
from mhgrn.questions.datasets import Dataset
from mhgrn.settings import load_yaml, parse_override, read_yaml


def repeated(levels: int, width: int = 9, form: str = "[{}]") -> str:
    """Lists of aliases of lists of aliases …: ``width ** levels`` values."""
    lines = ["a0: &a0 {k: v, l: w}"]
    lines += [f"a{i}: &a{i} {form.format(', '.join([f'*a{i - 1}'] * width))}" for i in range(1, levels)]
    return "\n".join(lines) + f"\nname: *a{levels - 1}\nseed: *a{levels - 1}\n"


HOSTILE = {
    "aliases": (repeated(12), "more than 1,000,000 values"),
    "merged aliases": (repeated(9, form="{{<<: [{}]}}"), "more than 1,000,000 values"),
    "alias of itself": ("name: &a [*a]", "an alias that contains itself"),
    "brackets": ("name: " + "[" * 100_000, "nested more than 50 levels deep"),
    "braces": ("name: " + "{a: " * 10_000, "nested more than 50 levels deep"),
    "indentation": ("".join(f"{' ' * i}k:\n" for i in range(200)), "nested more than 50 levels deep"),
    "number in base 60": ("name: 1" + ":1" * 50_000, "a number of more than 1,000 characters"),
    "digits": ("name: " + "1" * 100_000, "a number of more than 1,000 characters"),
}


@pytest.mark.parametrize(("text", "says"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    for read in (Config.load, Dataset.named, load_schema):
        with pytest.raises(UserError, match=says) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file}:")
        assert len(str(caught.value)) < 400


def test_a_message_shows_a_part_of_a_repeated_value(tmp_path: Path) -> None:
    """Few enough aliases to be read, too many to be written out in a message."""
    file = tmp_path / "settings.yaml"
    file.write_text(repeated(6), encoding="utf-8")
    kept = file.read_text(encoding="utf-8").replace("name:", "other:")
    for read in (Config.load, Dataset.named, load_schema):
        with pytest.raises(UserError) as caught:
            read(file)
        assert len(str(caught.value)) < 600
    value = load_yaml(kept)["seed"]
    with pytest.raises(UserError, match="setting seed: input should be a valid integer, not \\[\\[\\[") as caught:
        Config.of({"seed": value})
    assert len(str(caught.value)) < 400


def test_ordinary_aliases_are_read() -> None:
    assert load_yaml("a: &x {b: 1}\nc: {<<: *x, d: 2}") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(UserError, match="bytes; a YAML file may have 16,777,216 at most"):
        read_yaml(file, "settings")
    with pytest.raises(UserError, match="bytes; a YAML file may have 16,777,216 at most"):
        load_schema(file)


@pytest.mark.parametrize("value", ["[" * 100_000, "1" * 100_000, "v" * 100_000, "\x1b[2J\u202e"])
def test_long_and_odd_values_on_the_command_line(value: str) -> None:
    with pytest.raises(UserError) as caught:
        Config.load(overrides=[f"seed={value}"])
    assert len(str(caught.value)) < 700
    assert "\x1b" not in str(caught.value)
    with pytest.raises(UserError) as caught:
        Config.load(overrides=[f"{value}.{value}=3"])
    assert len(str(caught.value)) < 1_500
    with pytest.raises(UserError) as caught:
        parse_override(value)
    assert len(str(caught.value)) < 400


def test_long_lists_of_names_are_cut() -> None:
    known = [f"name{i}" for i in range(10_000)]
    for name in ("x" * 100_000, "zzz"):
        assert did_you_mean(name, known).startswith(" Known: name0, name1, name10, ")
        assert did_you_mean(name, known).endswith(" and 9,950 more.")
