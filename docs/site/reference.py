"""The reference, generated from the code: public names, commands and settings."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from typer.main import get_command

import mhgrn
from mhgrn import Settings, UserError
from mhgrn.cli import build_app
from mhgrn.config import PRESETS, Config, section
from mhgrn.encoders import graph_encoders
from mhgrn.features.loading import FEATURE_SOURCES
from mhgrn.settings import as_yaml

KINDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", Path: "path"}
LARGE = 10**8  # bounds beyond it only guard against damaged files
BOUNDS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))


@cache
def reference_pages() -> dict[str, tuple[str, str]]:
    """The generated pages: the place of each in the site, with its title and its Markdown."""
    return {
        "reference/api.md": ("Python API", api_page()),
        "reference/commands.md": ("Commands", commands_page()),
        "reference/settings.md": ("Settings", settings_page()),
    }


def api_page() -> str:
    """Every public name of the package, by package, for mkdocstrings to fill in."""
    groups: dict[str, list[str]] = {}
    for name in mhgrn.__all__:
        found = getattr(mhgrn, name)
        groups.setdefault(".".join(found.__module__.split(".")[:2]), []).append(name)
    lines = ["# Python API", "", "All public names, from their docstrings. Each is an attribute of the package: `mhgrn.NAME`."]
    for package, names in groups.items():
        summary = (inspect.getdoc(import_module(package)) or "").partition("\n")[0]
        lines += ["", f"## {package}", "", summary]
        for name in names:
            found = getattr(mhgrn, name)
            path = f"{found.__module__}.{found.__qualname__}"
            lines += ["", f"::: {path}", "    options:", f"      heading: mhgrn.{name}", f"      toc_label: {name}"]
    lines += [
        "",
        "## Other libraries",
        "",
        "To be imported from their modules, which need the library. See [Other libraries](../other-libraries.md).",
    ]
    for path in integrations():
        lines += ["", f"::: {path}", "    options:", f"      heading: {path}", f"      toc_label: {path.rpartition('.')[2]}"]
    return "\n".join(lines) + "\n"


def integrations() -> Iterator[str]:
    """The places of the public names for other libraries. Their modules are not imported, since libraries may be missing."""
    package = Path(mhgrn.__file__).parent
    for file in [*sorted((package / "integrations").rglob("*.py")), package / "training" / "loggers.py"]:
        module = ".".join(file.relative_to(package.parent).with_suffix("").parts)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{module}.{node.name}"


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` says them."""
    lines = ["# Commands", "", "Generated from `mhgrn COMMAND --help`. `mhgrn --help` lists the commands."]
    for path, command in commands():
        parameters = [parameter for parameter in command.params if parameter.name != "help" and not parameter.hidden]
        lines += ["", f"## {path}", "", "```", _usage(path, parameters), "```", "", *_paragraphs(command.help or "")]
        if parameters:
            lines += ["", "| argument or option | default | meaning |", "|---|---|---|"]
        for parameter in parameters:
            names = " ".join(f"`{name}`" for name in _names(parameter))
            lines.append(f"| {names} | {_default(parameter)} | {_line(parameter.help or '')} |")
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be called, with the words that call it."""

    def refuse(error: UserError) -> None:
        raise error

    def below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(f"{path} {name}", inner)
        if not hasattr(command, "commands"):
            yield path, command

    yield from below("mhgrn", get_command(build_app(refuse)))


def settings_page() -> str:
    """Every setting with its default, its possible values and its meaning."""
    lines = ["# Settings", "", "`mhgrn train --set KEY=VALUE` and files of settings use these names."]
    lines += [f"The setting `preset` chooses the defaults: {', '.join(f'`{name}`' for name in PRESETS)}."]
    for title, prefix, kind in settings_classes():
        lines += ["", f"## {title}", ""]
        rows = [_setting(prefix + name, field) for name, field in kind.model_fields.items() if name not in kind.sections()]
        lines += ["| setting | default | values | meaning |", "|---|---|---|---|", *rows] if rows else ["No settings."]
    return "\n".join(lines) + "\n"


def settings_classes() -> Iterator[tuple[str, str, type[Settings]]]:
    """The title, the prefix of the names and the class of each section of settings."""
    yield "General", "", Config
    for name, kind in Config.sections().items():
        yield f"Section {name}", f"{name}.", kind
    for name, encoder in graph_encoders.load_all().items():
        yield f"Graph encoder {name}", f"{section(name)}.", encoder.Settings
    for name, source in FEATURE_SOURCES.load_all().items():
        yield f"Node features from {name}", "", source.Settings


def _names(parameter: Any) -> list[str]:
    names = [*parameter.opts, *parameter.secondary_opts]
    return names if parameter.param_type_name == "option" else [(parameter.metavar or parameter.name).upper()]


def _usage(path: str, parameters: list[Any]) -> str:
    words = [path]
    for parameter in parameters:
        value = (parameter.metavar or parameter.name).upper()
        more = "..." if parameter.nargs == -1 or getattr(parameter, "multiple", False) else ""
        if parameter.param_type_name == "argument":
            words.append(f"{value}{more}" if parameter.required else f"[{value}{more}]")
        elif parameter.required:
            words.append(f"{parameter.opts[0]} {value}{more}")
    return " ".join([*words, "[OPTIONS]"])


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or value is None or callable(value) or value is False or value in ((), []):
        return "required" if parameter.required else ""
    return f"`{_line(str(value))}`"


def _setting(name: str, field: FieldInfo) -> str:
    default = as_yaml(field.get_default(call_default_factory=True))
    return f"| `{name}` | `{default}` | {_values(field)} | {_line(field.description or '')} |"


def _values(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(mark, key):,}"
        for mark in _marks(field)
        for kind, key, sign in BOUNDS
        if isinstance(mark, kind) and abs(getattr(mark, key)) < LARGE
    ]
    return ", ".join([_kind(field.annotation), *bounds])


def _marks(field: FieldInfo) -> list[Any]:
    inner = [getattr(part, "metadata", ()) for part in field.metadata]
    return [*field.metadata, *(mark for marks in inner for mark in marks)]


def _kind(annotation: Any) -> str:
    """A type in words: ``int or null``."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{as_yaml(choice)}`" for choice in get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_kind, get_args(annotation))))
    if annotation is type(None):
        return "`null`"
    return KINDS.get(annotation, _line(getattr(annotation, "__name__", str(annotation))))


def _paragraphs(text: str) -> list[str]:
    """A help text as Markdown; blocks that keep their lines (marked by a backspace character) become code."""
    done: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            done += ["```", paragraph.removeprefix("\b").strip("\n"), "```", ""]
        else:
            done += [_escaped(paragraph), ""]
    return done


def _line(text: str) -> str:
    """A text for a cell of a table."""
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[") if "`" not in text else text.replace("<", "&lt;")
