"""Compiled kernels: numba functions whose machine code is cached under a hash of all kernel sources.

numba's own cache looks at the file of a function only. A kernel also depends on the kernels it calls and on constants, which may
be defined in other files. The cache folder is therefore named after a hash of all these files, so that an edit of any of them
compiles everything again.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import llvmlite
import numba
from numba import njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from mhgrn.io.cache import user_cache
from mhgrn.progress import say

PACKAGE = Path(__file__).parents[1]
KEPT = 16  # cache folders: one for each version of the kernels, of numba and of the processor
_IS_KERNEL_FILE = re.compile(rb"^from mhgrn\.compiled\.jit import", re.MULTILINE)
_CONSTANTS_FROM = re.compile(rb"^from (mhgrn[\w.]*) import (?:\([^)]*?)?[^()\n]*?\b[A-Z][A-Z0-9_]+\b", re.MULTILINE)


def kernel_sources(package: Path = PACKAGE) -> list[Path]:
    """Return the files that define kernels, and those that define constants for them."""
    contents = {file: file.read_bytes() for file in sorted(package.rglob("*.py"))}
    found = [file for file, content in contents.items() if _IS_KERNEL_FILE.search(content)]
    for file in found:  # grows
        for match in _CONSTANTS_FROM.finditer(contents[file]):
            module = package.parent.joinpath(*match[1].decode().split("."))
            source = module.with_suffix(".py") if module.with_suffix(".py") in contents else module / "__init__.py"
            if source in contents and source not in found:
                found.append(source)
    return sorted(found)


@lru_cache
def kernel_cache() -> Path:
    """Return the folder of the machine code of these sources, and delete the folders that were not used for longest."""
    about = [numba.__version__, llvmlite.__version__, llvmlite.binding.get_host_cpu_name()]
    digest = hashlib.sha256("\n".join(about).encode())
    for file in kernel_sources():
        digest.update(f"\n{file.relative_to(PACKAGE).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    parent = user_cache() / "kernels"
    folder = parent / digest.hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for old in sorted(parent.iterdir(), key=lambda other: -other.stat().st_mtime)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


class _Locator(_CacheLocator):  # type: ignore[misc]
    def __init__(self, folder: Path, file: Path, line: int) -> None:
        self._folder, self._file, self._line = folder, file, line

    @classmethod
    def from_function(cls, function: Any, file: str) -> Self | None:
        path = Path(file)
        try:
            module = path.relative_to(PACKAGE).with_suffix("")
        except ValueError:  # a kernel of another package
            module = Path(cls.get_suitable_cache_subpath(file))
        try:
            locator = cls(kernel_cache().joinpath(*module.parts), path, function.__code__.co_firstlineno)
            locator.ensure_cache_path()
        except OSError:  # no folder to write to
            return None
        return locator

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> object:
        stat = self._file.stat()
        return stat.st_size if self._file.is_relative_to(PACKAGE) else (stat.st_mtime, stat.st_size)

    def get_disambiguator(self) -> str:
        return str(self._line)


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Locator]  # noqa: RUF012


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImpl


class _Announcer(event.Listener):  # type: ignore[misc]
    """Reports, once per process, that kernels are being compiled."""

    def __init__(self) -> None:
        self.has_reported = False

    def on_start(self, event: Any) -> None:
        if not self.has_reported and (event.data["dispatcher"].py_func.__module__ or "").startswith("mhgrn."):
            self.has_reported = True
            say("compiling for this machine, once (up to half a minute) …")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, cache its machine code, and run it without the global interpreter lock."""
    return _compiled(function, fastmath=False)


def sum_kernel(function: Callable[..., Any]) -> Any:
    """A :func:`kernel` in which the compiler may reorder sums of floats to vectorize them. Infinities stay exact."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    dispatcher = njit(nogil=True, **options)(function)
    with suppress(RuntimeError):  # no folder to write to: each process compiles
        dispatcher._cache = _KernelCache(function)
    return dispatcher
