"""The cache folder is where it was before, and can be moved."""

import sys
from pathlib import Path

import pytest

from mhgrn.io.cache import user_cache


def test_an_environment_variable_moves_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path))
    assert user_cache() == tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own cache folder")
def test_on_linux_the_cache_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MHGRN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert user_cache() == tmp_path / ".cache" / "mhgrn"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_cache() == tmp_path / "xdg" / "mhgrn"
