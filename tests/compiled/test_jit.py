"""Kernels call only kernels of their own file: numba keeps compiled code for as long as the file of the kernel is the same."""

import pkgutil
from importlib import import_module

from numba.core.registry import CPUDispatcher

import mhgrn


def test_no_kernel_calls_one_of_another_file() -> None:
    found = 0
    for info in pkgutil.walk_packages(mhgrn.__path__, "mhgrn."):
        module = import_module(info.name)
        for kernel in vars(module).values():
            if isinstance(kernel, CPUDispatcher) and kernel.py_func.__module__ == info.name:
                found += 1
                called = [vars(module).get(name) for name in kernel.py_func.__code__.co_names]
                others = [c.py_func.__module__ for c in called if isinstance(c, CPUDispatcher)]
                assert set(others) <= {info.name}, f"{kernel} calls kernels of {others}"
    assert found > 20
