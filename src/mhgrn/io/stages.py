"""Long work in stages, in a folder beside its output: what is done survives a kill, and the same command goes on from there."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.io.folders import STAGES, lock_folder
from mhgrn.io.markers import write_json
from mhgrn.io.replacing import flush
from mhgrn.io.stored import parse_json

_STATE = "stages.json"


class Stages:
    """The folder of unfinished work. The process holds a lock on it; the folder of a killed process is taken over.

    Args:
        target: the folder that the work is for.
        identity: values that JSON can hold, by which the same work is recognized. The folder of other work is deleted.
    """

    def __init__(self, target: Path, identity: dict[str, Any]) -> None:
        self.folder = _folder(target)
        self.folder.mkdir(parents=True, exist_ok=True)
        busy = f"{target} is being built by another process; wait until it ends, or name another folder."
        self._lock = lock_folder(self.folder, wait=False, busy=busy)
        self._identity = identity
        _last(self.folder).unlink(missing_ok=True)
        self.done = stages_done(target, identity)
        if not self.done:
            for path in self.folder.iterdir():
                _delete(path)

    def run(self, name: str, work: Callable[[Path], Any], drops: Sequence[str] = ()) -> Any:
        """Do a stage, unless it is done, and return its result.

        Args:
            name: the stage's name, and that of its folder.
            work: called with the stage's empty folder; returns a value that JSON can hold.
            drops: folders that no stage needs any more when this one is done, relative to the folder of all stages.
        """
        if name not in self.done:
            folder = self.folder / name
            _delete(folder)
            folder.mkdir()
            result = work(folder)
            for path in (folder, *folder.rglob("*")):
                flush(path)
            self.record(name, result)
        for dropped in drops:
            _delete(self.folder / dropped)
        return self.done[name]

    def record(self, name: str, result: Any) -> None:
        """Record that a stage is done."""
        self.done[name] = result
        write_json(self.folder / _STATE, {"identity": self._identity, "done": self.done})

    def delete(self) -> None:
        """Delete the folder. What is done is known until all else is deleted: a kill before that leaves no riddle."""
        state = self.folder / _STATE
        if state.exists():
            state.replace(_last(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()
        _last(self.folder).unlink(missing_ok=True)

    def release(self) -> None:
        """Let other processes take over the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def stages_done(target: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Return the results of the stages of some work that are done; none if there are none of this identity."""
    path = _folder(target) / _STATE
    path = path if path.exists() else _last(_folder(target))
    try:
        found = parse_json(path.read_bytes(), path, "build")
    except (OSError, UserError):
        return {}
    is_same = isinstance(found, dict) and found.get("identity") == json.loads(json.dumps(identity))
    done: dict[str, Any] = found["done"] if is_same and isinstance(found.get("done"), dict) else {}
    return done


def delete_stages(target: Path) -> None:
    """Delete the folder of unfinished work for a folder."""
    shutil.rmtree(_folder(target), ignore_errors=True)
    _last(_folder(target)).unlink(missing_ok=True)


def _last(folder: Path) -> Path:
    """The file that says what was done while the folder is deleted."""
    return folder.with_name(f"{folder.name}.json")


def _folder(target: Path) -> Path:
    target = target.resolve()
    return target.parent / f".{target.name}{STAGES}"


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
