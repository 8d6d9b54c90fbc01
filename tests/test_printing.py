"""Texts of other people in messages: escaped, and cut before they are formatted."""

import datetime
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.printing import LONGEST, printable, shortened

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_a_printable_text_is_utf_8_and_xml(text):
    shown = printable(text)
    shown.encode()
    root = ElementTree.Element("text")
    root.text = shown
    assert ElementTree.fromstring(ElementTree.tostring(root)).text == (shown or None)


@given(ANY)
def test_printing_twice_changes_nothing_more(text):
    assert printable(printable(text)) == printable(text)


CODES = [*range(0x20), 0x7F, 0x85, 0x9F, 0x61C, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069, 0xFFFE, 0xD800]


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_control_characters_are_escaped(code):
    character = chr(code)
    shown = printable(f"a{character}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{character}b"


@pytest.mark.parametrize("text", ["", "Ärger 日本 😀 e\u0301", "a\\b 'c' \"d\"", "\u200d\u00a0"])
def test_other_characters_stay(text):
    assert printable(text) is text


@given(ANY)
def test_an_escaped_json_document_has_the_same_content(text):
    assert json.loads(printable(json.dumps([text], ensure_ascii=False))) == [text]


def test_named_characters_are_kept():
    assert printable("a\tb\nc\r", keep="\n\t") == "a\tb\nc\\r"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_a_short_value_is_written_as_python_writes_it(value):
    written = printable(repr(value))
    shown = shortened(value)
    assert len(shown) <= LONGEST
    if len(written) <= LONGEST and "…" not in shown:
        assert shown == written


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(10**10_000, "an integer of 33,220 bits", id="long integer"),
        (datetime.date(2024, 1, 2), "datetime.date(2024, 1, 2)"),
        (Path("a/b"), "a/b"),
        (int, "int"),
        (object(), "<object>"),
        ([[[[[[[[1]]]]]]]], "[[[[[[…]]]]]]"),
        ("a" * 10**6, "'" + "a" * 198 + "…"),
    ],
)
def test_unusual_values(value, shown):
    assert shortened(value) == shown


class Counted(dict[str, Any]):
    """A mapping that counts how often its entries are read."""

    reads = 0

    def __getitem__(self, key):
        Counted.reads += 1
        return super().__getitem__(key)

    def __repr__(self):
        raise AssertionError("the whole value was formatted")


def test_only_the_shown_part_is_read():
    Counted.reads = 0
    assert len(shortened(Counted({str(i): i for i in range(100_000)}))) == LONGEST
    assert Counted.reads < LONGEST


def test_an_alias_bomb_is_cut():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    assert shortened(yaml.safe_load("\n".join(lines))).endswith("…")


def test_a_value_that_holds_itself_is_cut():
    value: list[object] = []
    value.append(value)
    assert shortened(value) == "[[[[[[…]]]]]]"
