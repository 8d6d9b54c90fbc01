"""Real processes without their start-up time, for tests that kill, interrupt or limit a command.

Importing torch and transformers costs each new Python process six seconds of processor time. Here one server process imports
everything once and then forks. A forked process runs in its own memory with its own signals, limits and exit code, so a test can
treat it like one that was started with ``python -c``. Tests of the start-up itself use :mod:`subprocess`.
"""

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

SERVER = Path(__file__)
_servers: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []  # none or one


class Forked:
    """A forked process; a subset of :class:`subprocess.Popen`.

    Args:
        code: what the process runs, as after ``python -c``.
        argv: its ``sys.argv[1:]``.
        cwd: its working directory.
        environment: additional environment variables; what imported modules have read already stays as it is.
    """

    def __init__(
        self, code: str, *argv: str, cwd: str | Path | None = None, environment: Mapping[str, object] | None = None
    ) -> None:
        streams = [os.pipe() for _ in range(3)]  # standard output, standard error, identity and exit code
        variables = {name: str(value) for name, value in (environment or {}).items()}
        request = json.dumps({"code": code, "argv": argv, "cwd": str(cwd or Path.cwd()), "environment": variables}).encode()
        server = _connect()
        socket.send_fds(server, [len(request).to_bytes(8, "big")], [write for _, write in streams])
        server.sendall(request)
        for _, write in streams:
            os.close(write)
        self._status = os.fdopen(streams[2][0], "rb", buffering=0)
        self.pid = int.from_bytes(self._status.read(8), "big")
        self.returncode: int | None = None
        self._read: list[bytes] = [b"", b""]
        self._readers = [
            threading.Thread(target=self._drain, args=(i, os.fdopen(streams[i][0], "rb")), daemon=True) for i in range(2)
        ]
        for reader in self._readers:
            reader.start()

    def _drain(self, number: int, stream: IO[bytes]) -> None:
        with stream:
            self._read[number] = stream.read()

    def poll(self, blocking: bool = False) -> int | None:
        if self.returncode is None:
            os.set_blocking(self._status.fileno(), blocking)
            if (status := self._status.read(8)) is not None:
                assert status, "the server of processes ended"
                self.returncode = int.from_bytes(status, "big", signed=True)
                self._status.close()
        return self.returncode

    def wait(self) -> int:
        code = self.poll(blocking=True)
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; returns standard output and standard error."""
        self.wait()
        for reader in self._readers:
            reader.join()
        out, err = (part.decode("utf-8").replace("\r\n", "\n") for part in self._read)
        return out, err


def _connect() -> socket.socket:
    """The server of this process, started at its first use."""
    if not _servers:
        ours, theirs = socket.socketpair()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, str(SERVER), str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, start_new_session=True)
        theirs.close()
        _servers.append((ours, process))
    return _servers[0][0]


def stop_server() -> None:
    """Stop the server of this process, if there is one."""
    while _servers:
        connection, process = _servers.pop()
        connection.close()
        process.wait()


def import_everything() -> None:
    models = ("bert.modeling_bert", "bert.tokenization_bert", "auto.modeling_auto", "auto.tokenization_auto")
    names = [f"transformers.models.{model}" for model in models]
    for package in ("mhgrn", "mhgrn_reproduction"):
        root = importlib.import_module(package)
        names += [m.name for m in pkgutil.walk_packages(root.__path__, f"{package}.") if not m.name.endswith("__main__")]
    for name in names:
        importlib.import_module(name)
    hush_compiler()


def hush_compiler() -> None:
    """Do not say that kernels are compiled: which test comes to it first depends on the machine's cache."""
    from mhgrn.compiled import jit

    jit._Announcer.on_start = lambda self, event: None  # type: ignore[method-assign]


def other_threads() -> set[str]:
    """Names of the threads beside the main one, on Linux."""
    tasks = (task for task in Path("/proc/self/task").glob("*") if task.name != str(os.getpid()))
    return {(task / "comm").read_text(encoding="ascii").strip() for task in tasks}


def serve(connection: socket.socket) -> tuple[str, list[str]]:
    """Fork for every request; returns in each forked process, with the code to run and its arguments."""
    while True:
        size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        reap(os.WNOHANG if size else 0)
        if not size:
            os._exit(0)
        files = array.array("i", ancillary[0][2]).tolist()
        content, length = b"", int.from_bytes(size, "big")
        while len(content) < length:
            content += connection.recv(length - len(content))
        if os.fork() == 0:
            connection.close()
            return run_watched(json.loads(content), *files)
        for file in files:
            os.close(file)


def reap(options: int) -> None:
    """Collect processes that ended, so that their processor time counts as that of the tests."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def run_watched(request: dict[str, Any], out: int, err: int, status: int) -> tuple[str, list[str]]:
    """Fork once more. The parent reports the identity and the exit code of the child; this returns in the child."""
    child = os.fork()
    if child:
        for file in (out, err):
            os.close(file)
        os.write(status, child.to_bytes(8, "big"))
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            os.write(status, ended.to_bytes(8, "big", signed=True))
        finally:
            os._exit(0)
    for source, target in ((out, 1), (err, 2)):
        os.dup2(source, target)
    for file in (out, err, status):
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(request["cwd"])
    del sys.modules["__main__"].__file__  # or processes that this one spawns would import it
    os.environ.update(request["environment"])
    return request["code"], request["argv"]


if __name__ == "__main__":
    import_everything()
    gc.collect()
    gc.freeze()  # forked processes leave these pages shared
    assert other_threads() <= {"jemalloc_bg_thd"}, "a thread may hold a lock while the process forks; jemalloc sees to that itself"
    requested, arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["-c", *arguments]
    code = 0
    try:
        exec(compile(requested, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)  # taking down all modules would cost half a second
