"""The public names: what a user builds with, each documented with its arguments and an example."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

import mhgrn

# Types that a user receives or subclasses rather than constructs: their fields or methods are documented in place.
WITHOUT_ARGUMENTS = {"UserError", "Settings"}


def test_every_name_is_there_and_listed_once() -> None:
    assert sorted(set(mhgrn.__all__)) == mhgrn.__all__ == sorted(mhgrn._MODULES)
    for name in mhgrn.__all__:
        found = getattr(mhgrn, name)
        assert found.__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Graph'"):
        mhgrn.Graph  # noqa: B018


@pytest.mark.parametrize("name", mhgrn.__all__)
def test_every_name_documents_its_arguments_and_shows_an_example(name: str) -> None:
    found = getattr(mhgrn, name)
    doc = inspect.getdoc(found) or ""
    assert doc, "no docstring"
    members = [member for key, member in vars(found).items() if not key.startswith("_")] if inspect.isclass(found) else []
    functions = [member.__func__ if isinstance(member, classmethod | staticmethod) else member for member in members]
    texts = [doc, *(inspect.getdoc(member) or "" for member in functions if inspect.isfunction(member))]
    assert any(">>>" in text for text in texts), "no doctest"
    if name in WITHOUT_ARGUMENTS:
        return
    if dataclasses.is_dataclass(found) or (inspect.isclass(found) and issubclass(found, tuple)):
        return  # each field is documented where it is declared
    signature = inspect.signature(found.__init__ if inspect.isclass(found) else found)
    arguments = [p for p in signature.parameters.values() if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if arguments:
        assert "Args:" in doc, "no Args section"
        missing = [p.name for p in arguments if f"{p.name}:" not in doc]
        assert not missing, f"undocumented arguments: {missing}"


def test_importing_the_package_imports_nothing_slow() -> None:
    code = "import sys, mhgrn; mhgrn.KnowledgeGraph, mhgrn.Question, mhgrn.UserError; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
