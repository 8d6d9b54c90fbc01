"""The commands of this distribution are plug-ins of mhgrn's command line."""

import subprocess
import sys
from importlib import metadata

COMMANDS = ["experiments", "report", "reproduce"]

HIDE = """
import sys
from importlib import metadata
points = metadata.entry_points
metadata.entry_points = lambda **p: metadata.EntryPoints(e for e in points(**p) if not e.value.startswith("mhgrn_reproduction"))
sys.argv = ["mhgrn", "--help"]
from mhgrn.cli import main
main()
"""


def test_they_are_entry_points_of_this_distribution() -> None:
    points = metadata.entry_points(group="mhgrn.commands")
    ours = [point for point in points if point.dist is not None and point.dist.name == "mhgrn-reproduction"]
    assert sorted(point.name for point in ours) == COMMANDS


def test_they_exist_only_if_it_is_installed() -> None:
    without = subprocess.run([sys.executable, "-c", HIDE], capture_output=True, text=True, check=True).stdout
    installed = HIDE.replace('if not e.value.startswith("mhgrn_reproduction")', "")
    with_it = subprocess.run([sys.executable, "-c", installed], capture_output=True, text=True, check=True).stdout
    listed = {word for line in without.splitlines() for word in line.split()[:2]}
    for name in COMMANDS:
        assert name not in listed
        assert name in with_it
    assert "train" in listed
