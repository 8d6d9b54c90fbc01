"""Plug-ins: graph encoders, readers, commands and other parts that are used by name.

A part of this package is one file in the folder of its kind; the file's name is the part's name, with ``_`` for ``-``. Another
package declares its part as an entry point in ``pyproject.toml``::

    [project.entry-points."mhgrn.graph_encoders"]
    my-encoder = "my_package.my_encoder"

Both are loaded in the same way, when they are first used by name.
"""

import os
import pkgutil
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module, metadata
from types import ModuleType
from typing import Generic, TypeVar

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown

T = TypeVar("T")


class MissingPlugin(UserError):
    """No installed package has a plug-in of this name."""


class Plugins(Generic[T]):
    """All plug-ins of one kind.

    Args:
        kind: What messages call such a plug-in, for example ``"graph encoder"``.
        group: The entry-point group of other packages' plug-ins.
        package: The package whose modules are the built-in plug-ins. Modules whose name begins with an underscore are not.
        base: ``"module:name"`` of the class that a plug-in is a subclass of. Without it, a plug-in is any object; where a module
            is named, it is the module's ``app``, or else the object named like the module.
        not_plugins: Modules of ``package`` that are no plug-ins.
    """

    def __init__(self, kind: str, group: str, package: str, base: str | None = None, not_plugins: tuple[str, ...] = ()) -> None:
        self.kind, self.group, self.package, self.base, self.not_plugins = kind, group, package, base, not_plugins

    def built_in(self) -> dict[str, str]:
        """The name and module of every built-in plug-in; none is imported."""
        modules = [
            name
            for name in _modules(tuple(import_module(self.package).__path__))
            if not name.startswith("_") and name not in self.not_plugins
        ]
        return {name.replace("_", "-"): f"{self.package}.{name}" for name in modules}

    def entry_points(self) -> dict[str, metadata.EntryPoint]:
        """The plug-ins of other packages; none is imported."""
        found: dict[str, metadata.EntryPoint] = {}
        built_in = self.built_in()
        for point in _entry_points(self.group):
            if point.name in found or point.name in built_in:
                other = _origin(found[point.name]) if point.name in found else "a built-in one"
                raise UserError(f"two {self.kind}s are called {point.name!r}: {other} and {_origin(point)}; uninstall one.")
            found[point.name] = point
        return found

    def names(self) -> list[str]:
        """All names: the built-in plug-ins, then those of other packages."""
        return [*self.built_in(), *sorted(self.entry_points())]

    def check(self, name: object) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if no plug-in has this name."""
        if not isinstance(name, str) or (name not in self.built_in() and name not in self.entry_points()):
            raise MissingPlugin(
                f"unknown {self.kind} {shortened(name)}.{did_you_mean(shown(name), self.names())}"
                f" A {self.kind} of another package can be used once that package is installed."
            )

    def package_of(self, name: str) -> str | None:
        """The distribution of another package that has this plug-in; None for a built-in one."""
        if name in self.built_in():
            return None
        point = self.entry_points().get(name)
        return point.dist.name if point is not None and point.dist is not None else None

    def load(self, name: str) -> T:
        """The plug-in of this name, imported."""
        built_in = self.built_in()
        if name in built_in:  # finding the entry points of all installed packages takes longer
            return self._pick(import_module(built_in[name]), name, built_in[name])
        self.check(name)
        return self._import(self.entry_points()[name])

    def load_all(self) -> dict[str, T]:
        """Every plug-in, imported."""
        return {name: self.load(name) for name in self.names()}

    def load_usable(self, report: Callable[[UserError], object]) -> dict[str, T]:
        """Every plug-in that can be imported. For each other one of another package, ``report`` is called with the reason."""
        found = {name: self._pick(import_module(module), name, module) for name, module in self.built_in().items()}
        for point in sorted(_entry_points(self.group), key=lambda point: point.name):
            try:
                if point.name in found:
                    raise UserError(f"two {self.kind}s are called {point.name!r}; {_origin(point)} is not used.")
                found[point.name] = self._import(point)
            except UserError as error:
                report(error)
        return found

    def _import(self, point: metadata.EntryPoint) -> T:
        try:
            found = point.load()
        except Exception as error:  # importing another package may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"the {self.kind} {point.name!r} ({_origin(point)}) cannot be loaded: {reason}.") from error
        return self._pick(found, point.name, _origin(point))

    def _pick(self, found: object, name: str, origin: str) -> T:
        """The plug-in itself, where a module is named: the one in it that is called ``name``."""
        if isinstance(found, ModuleType) and self.base is None:
            inside = found
            found = getattr(inside, "app", None) or getattr(inside, inside.__name__.rpartition(".")[2], None)
            if found is None:
                raise UserError(f"the {self.kind} {name!r} ({origin}) has neither an `app` nor a function named like the module.")
        if isinstance(found, ModuleType) and self.base is not None:
            named = [o for o in vars(found).values() if self._fits(o) and getattr(o, "name", None) == name]
            if len(named) != 1:
                raise UserError(f"{origin} should have one subclass of {self._base_name()} with name = {name!r}, not {len(named)}.")
            found = named[0]
        if not self._fits(found):
            raise UserError(f"the {self.kind} {name!r} ({origin}) is not a subclass of {self._base_name()}.")
        return found  # type: ignore[return-value]

    def _fits(self, found: object) -> bool:
        if self.base is None:
            return True
        module, _, attribute = self.base.partition(":")
        base = getattr(import_module(module), attribute)
        return isinstance(found, type) and issubclass(found, base) and found is not base

    def _base_name(self) -> str:
        return (self.base or "object").replace(":", ".")


@lru_cache
def _modules(folders: tuple[str, ...]) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(folders))


def _entry_points(group: str) -> tuple[metadata.EntryPoint, ...]:
    return _entry_points_in(group, tuple((place, _changed_at(place)) for place in sys.path))


@lru_cache
def _entry_points_in(group: str, places: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of all installed packages, read again only after a folder of the search path has changed."""
    return tuple(metadata.entry_points(group=group))


def _changed_at(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


def _origin(point: metadata.EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"{point.value} of {package}"
