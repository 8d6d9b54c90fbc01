"""Only one process at a time holds a lock."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from mhgrn.errors import UserError
from mhgrn.io.locks import locked

HOLDING = """
import sys, time
from pathlib import Path
from mhgrn.io.locks import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_held_lock_is_refused_or_waited_for_and_a_killed_process_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".thing.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(lock)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another process holds it"), locked(lock, busy="another process holds it"):
            pass
        waited = list[bool]()
        thread = Thread(target=lambda: waited.append(hold_once(lock)))
        thread.start()
        thread.join(0.3)
        assert not waited
        other.kill()
        thread.join(60)
    assert waited
    assert not lock.exists()


def hold_once(lock: Path) -> bool:
    with locked(lock, wait=True):
        return True


def test_only_one_thread_at_a_time_holds_a_lock_and_its_file_is_deleted(tmp_path: Path) -> None:
    lock, at_once, most = tmp_path / "lock", 0, 0

    def work(_: int) -> None:
        nonlocal at_once, most
        with locked(lock, wait=True):
            at_once += 1
            most = max(most, at_once)
            sleep(0.0005)
            at_once -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(40)))
    assert most == 1
    assert not lock.exists()
