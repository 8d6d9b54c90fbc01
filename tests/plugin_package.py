"""A temporary package with entry points, as an installer would leave it in a folder of the module search path."""

import sys
from pathlib import Path


def install(folder: Path, code: str, group: str, points: str, distribution: str = "my_package") -> None:
    """Write ``code`` to ``<distribution>/plugin.py`` in ``folder``, with entry points ``points`` (lines of name = value)."""
    for module in [name for name in sys.modules if name.partition(".")[0] == distribution]:  # of an earlier test
        del sys.modules[module]
    package = folder / distribution
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "plugin.py").write_text(code, encoding="utf-8")
    about = folder / f"{distribution}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{group}]\n{points}\n", encoding="utf-8")
