"""Functions that the tests of engines map; worker processes import them from here."""

import os
import resource
import signal
import time
from pathlib import Path
from uuid import uuid4

import numpy as np

from mhgrn.engines.engine import Context, Item
from mhgrn.subgraphs.extracting import subgraphs_of_part


def logged(context: Context, items: list[Item]) -> bytes:
    """Leave a file for each call, after a while, and return the ids."""
    time.sleep(items[0].get("seconds", 0))
    (Path(context["log"]) / f"{items[0]['id']}-{uuid4().hex}").touch()
    return ",".join(item["id"] for item in items).encode()


def poisoned(context: Context, rows: list[Item]) -> bytes:
    """The subgraphs of questions, but one question raises."""
    if any(row["id"] == context["poison"] for row in rows):
        raise ZeroDivisionError("this question is poisoned")
    return subgraphs_of_part({name: value for name, value in context.items() if name != "poison"}, rows)


def hungry(context: Context, items: list[Item]) -> bytes:
    """Need more memory than the process may have."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), before[1]))
    try:
        return np.ones(1 << 32, dtype=np.uint8).tobytes()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def dying(context: Context, items: list[Item]) -> bytes:
    """End the worker process as the kernel does when the memory is used up."""
    os.kill(os.getpid(), signal.SIGKILL)
    return b""
