"""Tensors and their metadata round-trip through safetensors files; damaged files are user errors."""

import os
from pathlib import Path

import pytest
import torch

from mhgrn.errors import UserError
from mhgrn.io.tensors import load_metadata, load_tensors, save_tensors


def test_tensors_round_trip_and_damage_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.safetensors"
    with pytest.raises(UserError, match="missing"):
        load_tensors(path)
    x = torch.arange(6.0).view(2, 3)
    save_tensors(path, {"x": x.T.requires_grad_()})
    assert torch.equal(load_tensors(path)["x"], x.T)
    assert list(path.parent.iterdir()) == [path]
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="damaged"):
        load_tensors(path)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="Linux")
def test_a_file_that_cannot_be_read_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.symlink_to("/proc/self/mem")
    with pytest.raises(UserError, match=r"x\.safetensors: Input/output error"):
        load_tensors(path)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_tensor_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("", encoding="utf-8")
    save_tensors(tmp_path / "tensors", {"x": torch.zeros(1)})
    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "text").stat().st_mode


def test_metadata_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(UserError, match="missing"):
        load_metadata(path)
    metadata = {"ü": [1, 0.1 + 0.2, None], "deep": {"a": True}}
    save_tensors(path, {"x": torch.ones(2)}, metadata)
    assert load_metadata(path) == metadata
    assert torch.equal(load_tensors(path)["x"], torch.ones(2))
    save_tensors(path, {"x": torch.ones(2)})
    with pytest.raises(UserError, match="damaged"):
        load_metadata(path)


def test_an_own_file_has_its_checksum(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = tmp_path / "x.safetensors"
    save_tensors(path, {"x": torch.ones(3)})
    assert load_tensors(path, is_own=True)["x"].tolist() == [1, 1, 1]
    save_file({"x": load_file(path)["x"] * 2}, path)  # another program, without our checksum
    assert load_tensors(path)["x"].tolist() == [2, 2, 2]
    with pytest.raises(UserError, match="no checksum"):
        load_tensors(path, is_own=True)
