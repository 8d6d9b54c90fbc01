"""Docstrings as Markdown: ``:class:`~mhgrn.Answer``` becomes the name as code, and an example a block of code."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).+)*", re.MULTILINE)  # up to a blank line
ROLE = re.compile(r":(?:py:)?\w+:`(?P<path>[^`]+)`")


def as_markdown(docstring: str) -> str:
    """A docstring without reStructuredText.

    >>> as_markdown("See :meth:`~mhgrn.config.Config.load` and :func:`mhgrn.train`::")
    'See `load` and `mhgrn.train`:'
    >>> as_markdown(">>> [1][0]")
    '```pycon\\n>>> [1][0]\\n```'
    """
    fenced = DOCTEST.sub(lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```", docstring)
    return re.sub(r"::$", ":", ROLE.sub(_name, fenced), flags=re.MULTILINE)


def _name(role: re.Match[str]) -> str:
    path = role["path"]
    return f"`{path.rpartition('.')[2] if path.startswith('~') else path}`"


class MarkdownDocstrings(griffe.Extension):
    """Converts each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **arguments: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
