"""Compiled kernels: numba functions whose machine code is cached under a hash of all kernel sources.

numba's own cache looks at the file of a function only. A kernel also depends on the kernels it calls and on constants, which may
be defined in other files. The cache folder is therefore named after a hash of all these files, so that an edit of any of them
compiles everything again.
"""

import hashlib
import os
import pickle
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import llvmlite
import numba
from numba import njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _Cache, _CacheLocator
from numba.core.environment import Environment, _rebuild_env, lookup_environment
from numba.core.runtime import rtsys

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
    with suppress(OSError):  # a folder that cannot be written is still read
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
            return cls(kernel_cache().joinpath(*module.parts), path, function.__code__.co_firstlineno)
        except (OSError, RuntimeError):  # no cache folder
            return None

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> object:
        stat = self._file.stat()
        return stat.st_size if self._file.is_relative_to(PACKAGE) else (stat.st_mtime, stat.st_size)

    def get_disambiguator(self) -> str:
        return str(self._line)


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Locator]  # noqa: RUF012


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _environment if name == "_rebuild_env" else super().find_class(module, name)


def _environment(module: str, constants: list[object], name: str) -> Any:
    """The environment of a function: its constants, and the names of its module, which no kernel looks up.

    numba imports the module, for example one that imports scipy.
    """
    if constants:
        return _rebuild_env(module, constants, name)
    found = lookup_environment(name)
    if found is None:
        found = Environment._memo[name] = Environment({"__name__": module})
        found.env_name = name
    return found


class _DataFile(IndexDataCacheFile):  # type: ignore[misc]
    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return _Unpickler(file).load()


class _CacheFiles(FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _DataFile


class _KernelCache(_Cache):  # type: ignore[misc]
    """The cached machine code of one kernel. Its files are looked for when the kernel is first used.

    numba loads everything that compiling needs before it looks into the cache, which takes longer than answering a question. This
    class loads the machine code only.
    """

    cannot_write = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _files(self) -> Any:
        with suppress(RuntimeError):  # no cache folder: each process compiles
            return _CacheFiles(self._function)
        return None

    @property
    def cache_path(self) -> str:
        return "" if self._files is None else str(self._files.cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._files is None:
            return None
        rtsys.initialize(target_context)  # the symbols that machine code refers to
        return self._files._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._files is None:
            return
        try:
            self._files.save_overload(sig, data)
        except OSError as error:
            if not _KernelCache.cannot_write:
                _KernelCache.cannot_write = True
                say(f"compiled code cannot be stored in {kernel_cache()} ({error.strerror}); every process compiles it again.")

    def enable(self) -> None:
        pass

    def disable(self) -> None:
        pass

    def flush(self) -> None:
        if self._files is not None:
            self._files.flush()


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
    dispatcher._cache = _KernelCache(function)
    return dispatcher
