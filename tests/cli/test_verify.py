"""mhgrn verify."""

import json
from pathlib import Path

from harness import Command, Project, Refused

from mhgrn.io.checksums import CHECKSUMS


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 4
    path.write_bytes(content)


def test_all_folders_of_a_project_are_as_written(here: Command, project: Project) -> None:
    outcome = here("verify", project.graph, project.data, project.run)
    assert outcome.code == 0, outcome
    assert outcome.out.endswith("files checked, all as they were written.\n")
    for folder in (project.graph, project.data, project.run):
        listed = json.loads((folder / CHECKSUMS).read_text())["files"]
        assert listed.keys() == {path.name for path in folder.iterdir() if path.is_file()} - {CHECKSUMS}


def test_a_flipped_bit_is_named(here: Command, own: Project) -> None:
    flip(own.graph / "tail.npy", 200)
    flip(own.run / "model.safetensors", 5000)
    (own.data / "used.npy").unlink()
    outcome = here("verify", own.graph, own.data, own.run)
    assert outcome.code == 1
    assert outcome.out.splitlines()[:2] == [
        f"{own.graph / 'tail.npy'} is damaged: bytes 0 to {(own.graph / 'tail.npy').stat().st_size:,} have another checksum.",
        f"{own.data / 'used.npy'} is missing.",
    ]
    found = json.loads(here("verify", own.root, "--json").out)
    assert {Path(entry["file"]).name for entry in found["damaged"]} == {"tail.npy", "used.npy", "model.safetensors"}


def test_removed_checksums_are_reported(here: Command, refused: Refused, own: Project) -> None:
    (own.run / CHECKSUMS).unlink()
    outcome = here("verify", own.root)
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == f"{own.run / CHECKSUMS} is missing; build its folder again."
    refused(["eval", str(own.run)], ["checksums.json is missing", "run.json"])


def test_a_folder_without_checksums_is_an_error(here: Command, tmp_path: Path) -> None:
    outcome = here("verify", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{tmp_path} has no checksums.json" in outcome.err
