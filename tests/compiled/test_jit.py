"""Kernels: their arguments, and the cache of their machine code."""

import ast
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from numba.core.registry import CPUDispatcher

import mhgrn
from mhgrn.compiled.jit import KEPT, PACKAGE, kernel_sources
from read_only import make_read_only, make_writable, run_obeying_permissions

MOST_ARGUMENTS = 10


def kernels() -> Iterator[tuple[ModuleType, str, CPUDispatcher]]:
    for info in pkgutil.walk_packages(mhgrn.__path__, "mhgrn."):
        module = import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, CPUDispatcher) and value.py_func.__module__ == info.name:
                yield module, name, value


def test_no_kernel_has_more_than_ten_arguments() -> None:
    found = {f"{module.__name__}.{name}": len(inspect.signature(kernel.py_func).parameters) for module, name, kernel in kernels()}
    assert len(found) > 20
    assert {name: count for name, count in found.items() if count > MOST_ARGUMENTS} == {}


def test_everything_that_kernels_refer_to_is_in_a_hashed_file() -> None:
    hashed = set(kernel_sources())
    for module, name, kernel in kernels():
        assert Path(inspect.getfile(module)) in hashed
        imported = {
            alias.asname or alias.name: node.module
            for node in ast.parse(inspect.getsource(module)).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for used in kernel.py_func.__code__.co_names:
            origin = imported.get(used) or ""
            if used in kernel.py_func.__globals__ and origin.startswith("mhgrn."):
                assert Path(inspect.getfile(import_module(origin))) in hashed, f"{name} uses {used} of {origin}"


def test_a_constant_of_another_file_is_never_stale(tmp_path: Path) -> None:
    package = shutil.copytree(PACKAGE, tmp_path / "mhgrn", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "constants.py").write_text("FACTOR = 2\n")
    imports = "from mhgrn.compiled.jit import kernel\nfrom mhgrn.constants import FACTOR\n"
    (package / "probe.py").write_text(f"{imports}\n\n@kernel\ndef scale(x):\n    return FACTOR * x\n")
    for old in range(KEPT + 2):  # as if left by earlier versions
        (tmp_path / "cache" / "kernels" / f"old{old}").mkdir(parents=True)

    def run() -> tuple[str, bool]:
        command = [sys.executable, "-c", "from mhgrn.probe import scale; print(scale(21))"]
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "MHGRN_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), "compiling" in done.stderr

    assert run() == ("42", True)
    assert run() == ("42", False)
    (package / "constants.py").write_text("FACTOR = 3\n")
    assert run() == ("63", True)
    assert len(list((tmp_path / "cache" / "kernels").iterdir())) == KEPT


def test_a_cache_that_cannot_be_written_is_named_once(tmp_path: Path) -> None:
    code = (
        "from mhgrn.compiled.jit import kernel\n"
        "@kernel\ndef double(x):\n    return 2 * x\n"
        "@kernel\ndef half(x):\n    return x // 2\n"
        "print(double(21), half(84))"
    )
    (tmp_path / "probe.py").write_text(code, encoding="utf-8")
    cache = tmp_path / "cache"
    cache.mkdir()
    make_read_only(cache)
    try:
        done = run_obeying_permissions(tmp_path / "probe.py", environment={"MHGRN_CACHE": str(cache)})
    finally:
        make_writable(cache)
    assert (done.returncode, done.stdout) == (0, "42 42\n")
    assert done.stderr.count("cannot be stored") == 1
    assert str(cache) in done.stderr
