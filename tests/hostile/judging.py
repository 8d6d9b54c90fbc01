"""Run something that may crash, hang or eat memory in a process of its own, and say how it ended."""

import io
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mhgrn.errors import UserError

SECONDS = 20  # of processor time; three times as many on the clock
MEMORY = 2 << 30  # bytes beyond what the process has
LONGEST = 2000  # characters of a message


class Judged(NamedTuple):
    """How a use ended.

    Args:
        verdict: ``done``; ``refused`` with one clear message; or a failure: ``hang``, ``crash``, ``unreadable message`` or the name
            of an exception.
        detail: the message, or where it failed.
        value: what the use returned, if it is done; JSON.
    """

    verdict: str
    detail: str = ""
    value: Any = None

    @property
    def is_clear(self) -> bool:
        return self.verdict in ("done", "refused")


def judge(use: Callable[[], Any], seconds: int = SECONDS, memory: int = MEMORY, verbose: bool = False) -> Judged:
    """Call ``use`` in a forked process with limits. It returns JSON values."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            _limit(seconds, memory)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(_ended(use, verbose)).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return Judged(*json.loads(told))
    ended = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    return Judged("hang" if status in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL) else "crash", ended)


def _limit(seconds: int, memory: int) -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(3 * seconds)


def _ended(use: Callable[[], Any], verbose: bool) -> Judged:
    sys.stderr = io.StringIO()
    try:
        return Judged("done", "", use())
    except UserError as error:
        message = str(error)
        if verbose:
            print(message)
        if not message.replace("\n", "").isprintable() or len(message) > LONGEST:
            return Judged("unreadable message", repr(message[:300]))
        return Judged("refused", message)
    except BaseException as error:
        if verbose:
            traceback.print_exc(file=sys.stdout)
        frames = traceback.extract_tb(error.__traceback__)
        ours = next((frame for frame in reversed(frames) if "/mhgrn/" in frame.filename), frames[-1])
        return Judged(type(error).__name__, f"{Path(ours.filename).name}:{ours.lineno}: {str(error)[:200]!r}")
