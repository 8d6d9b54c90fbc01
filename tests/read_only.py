"""Folders that cannot be written, also by root: a process without the capabilities that overrule permissions."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

DROP, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2  # of prctl(2) and capabilities(7)
CHILD = f"""
import ctypes, os, sys
prctl = ctypes.CDLL(None).prctl
if os.geteuid() == 0 and any(prctl({DROP}, capability, 0, 0, 0) for capability in {(DAC_OVERRIDE, DAC_READ_SEARCH)}):
    sys.exit(77)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def make_read_only(folder: Path) -> None:
    """Take the right to write from a folder and everything in it."""
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def make_writable(folder: Path) -> None:
    """Undo :func:`make_read_only`, so that the folder can be deleted."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def run_obeying_permissions(*arguments: str | Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments, with no right to overrule permissions. Skips the test where root keeps that right."""
    if not hasattr(os, "geteuid") or not hasattr(ctypes, "CDLL"):
        pytest.skip("no permissions as on Unix")
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("root cannot drop its right to overrule permissions here")
    return done
