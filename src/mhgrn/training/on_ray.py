"""Training on a Ray cluster: Ray Train starts :func:`mhgrn.training.loop.train` in workers. Needs ``pip install 'mhgrn[ray]'``."""

import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

from mhgrn.config import Config
from mhgrn.engines.engine import place_on_nodes
from mhgrn.engines.ray_engine import MISSING, connected
from mhgrn.engines.worker import software
from mhgrn.errors import UserError
from mhgrn.io.folders import check_replaceable
from mhgrn.io.locks import locked
from mhgrn.io.remote import local_folder
from mhgrn.io.signals import StopSignals, ask_to_stop
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.printing import shown
from mhgrn.progress import Event, Relayed, say, send_to
from mhgrn.runs import MARKER, Run, read_about
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.checkpoints import CHECKPOINT
from mhgrn.training.loop import train

RETRIES = 3  # after which workers that die without a new checkpoint between two deaths are given up
MINUTES = 10  # to wait for nodes with enough processors
LOCKED = 120  # seconds that a new worker waits for the lock of one that died
POLL = 0.3  # seconds between two looks at what the workers say
_SHARED = "Run folder, data and graph must be on a path that all nodes see, such as a network folder."
Task = dict[str, Any]  # what a worker is told: values that JSON can hold, and the mailbox


def train_on_ray(
    data: PreparedData,
    config: Config,
    folder: Path,
    graph: KnowledgeGraph,
    force: bool = False,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
    start_from: str | Path | None = None,
    address: str = "auto",
    workers: int | None = None,
) -> Run:
    """Train with :func:`mhgrn.training.loop.train` in processes of a Ray cluster.

    The weights and metrics are those of as many processes of ``torchrun``. If a worker or its node dies, the training resumes from
    the last checkpoint as soon as the cluster has room for a new worker.

    Args:
        data: See :func:`mhgrn.training.loop.train`, also for the arguments up to ``start_from``.
        config: The settings.
        folder: The folder of the run, on a path that all nodes see.
        graph: The graph that the data was prepared from.
        force: Start over, and replace the run in the folder.
        encoder: The place of the text encoder.
        allow_download: Download the text encoder if it is not on a node.
        allow_pickle: Load a text encoder whose weights are a pickle file.
        start_from: The folder of a trained run.
        address: Of the cluster that this machine belongs to: ``auto`` or ``host:port``.
        workers: The number of processes. By default that of the unfinished run in the folder, otherwise the number of nodes.

    Returns:
        The trained run.
    """
    if address.startswith("ray://"):
        raise UserError("training runs on a machine of the cluster; use --address HOST:PORT there, not ray://.")
    if "RANK" in os.environ:
        raise UserError("--engine ray starts the processes of a training; run it without torchrun.")
    folder = check_replaceable(folder, MARKER).absolute()
    unfinished = read_about(folder) if (folder / MARKER).is_file() and not force else {}
    if unfinished.get("finished"):
        raise UserError(f"{folder} contains a trained run; name another folder, or replace it with --force.")
    assert graph.folder is not None
    with connected(address) as ray, _place_of_ray(folder) as place:
        nodes = sum(node["Alive"] for node in ray.nodes())
        count = workers or unfinished.get("processes") or nodes
        say(f"Ray cluster of {nodes} nodes: {count} processes train together")
        task: Task = {
            "software": software(),
            "here": os.getcwd(),
            "seen": str(place / "seen"),
            "token": (place / "seen").read_text(encoding="utf-8"),
            "data": [place_on_nodes(data.folder), data.fingerprint],
            "graph": [place_on_nodes(graph.folder), graph.fingerprint],
            "config": config.model_dump(),
            "folder": str(folder),
            "encoder": None if encoder is None else place_on_nodes(encoder),
            "access": [allow_download, allow_pickle],
            "start_from": None if start_from is None else place_on_nodes(start_from),
        }
        _Driver(ray, task, count, config.training.threads or 1, place).run(folder, force)
    return Run.load(folder, graph.folder, None, encoder, allow_download, allow_pickle)


@contextmanager
def _place_of_ray(folder: Path) -> Iterator[Path]:
    """A folder beside the run for the files of Ray Train, with a token by which workers know that they see the same folder."""
    place = folder.with_name(f".{folder.name}.ray-{secrets.token_hex(4)}")
    place.mkdir(parents=True)
    try:
        (place / "seen").write_text(secrets.token_hex(16), encoding="utf-8")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Mailbox:
    """What workers tell the process that started them, and whether they are asked to stop. Runs as an actor beside that process."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._refusal: str | None = None
        self._is_idle, self._asked_to_stop = True, False

    def show(self, event: Event) -> None:
        self._events.append(event)

    def refuse(self, message: str) -> None:
        """A worker cannot train; the first reason counts, the others may be consequences."""
        self._refusal = self._refusal or message

    def set_idle(self, is_idle: bool) -> None:
        """Say whether there is nothing to save when the workers are asked to stop."""
        self._is_idle = is_idle

    def stop(self) -> None:
        self._asked_to_stop = True

    def asked_to_stop(self) -> bool:
        return self._asked_to_stop

    def take(self) -> tuple[list[Event], str | None, bool]:
        """New events, the reason of a refusal, and whether the workers have nothing to save."""
        events, self._events = self._events, []
        return events, self._refusal, self._is_idle


class _Driver:
    """Starts the workers, shows what they say, starts new ones when some die, and stops them.

    Args:
        ray: The module, connected.
        task: What the workers are told.
        workers: Their number.
        threads: Processors of each.
        place: A folder for the files of Ray Train.
    """

    def __init__(self, ray: Any, task: Task, workers: int, threads: int, place: Path) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if find_spec("pyarrow") is None or find_spec("pandas") is None:  # of Ray Train
            raise UserError(MISSING)
        self.ray, self.task, self.workers, self.threads, self.place = ray, task, workers, threads, place
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self.shown = Relayed()
        self.signals = StopSignals()

    def run(self, folder: Path, force: bool) -> None:
        """Train until the run is complete.

        Raises:
            KeyboardInterrupt: A signal came, and the workers have saved a checkpoint.
            UserError: A worker refuses, or workers die again and again.
        """
        marker, checkpoint, deaths = _stamp(folder / MARKER), _stamp(folder / CHECKPOINT), 0
        with self.signals.handled():
            while True:
                again = {"force": force and _stamp(folder / MARKER) == marker, "is_again": deaths > 0}
                error = self._attempt(self.task | again)
                if self.signals.asked_to_stop:
                    raise KeyboardInterrupt
                if error is None:
                    return
                before, checkpoint = checkpoint, _stamp(folder / CHECKPOINT)
                deaths = deaths + 1 if before == checkpoint else 1
                if deaths > RETRIES or not self._is_retried(error):
                    raise UserError(self._explained(error)) from None
                say(f"note: a worker died ({_reason(error)}); the training resumes from its last checkpoint.")

    def _attempt(self, task: Task) -> BaseException | None:
        """Start workers and wait until they end. Returns their error."""
        self._say_if_too_small()
        self.mailbox.set_idle.remote(True)
        errors: list[BaseException] = []
        thread = Thread(target=self._fit, args=(task, errors), daemon=True)
        thread.start()
        try:
            is_told = False
            while thread.is_alive():
                thread.join(POLL)
                events, refusal, is_idle = self.ray.get(self.mailbox.take.remote())
                for event in events:
                    self.shown.show(event)
                if refusal is not None:
                    raise UserError(refusal)
                if not self.signals.asked_to_stop:
                    continue
                if is_idle:
                    raise KeyboardInterrupt
                if not is_told:
                    is_told = True
                    self.mailbox.stop.remote()
                    say("stopping after this step; Ctrl-C again stops at once.")
        finally:
            self.shown.close()
        return errors[0] if errors else None

    def _fit(self, task: Task, errors: list[BaseException]) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.train.v2.api.config import LoggingConfig

        resources = self.ray.cluster_resources()
        try:
            TorchTrainer(
                work,
                train_loop_config=task | {"mailbox": self.mailbox},
                scaling_config=ScalingConfig(
                    num_workers=self.workers,
                    use_gpu=resources.get("GPU", 0) >= self.workers,
                    resources_per_worker={"CPU": self.threads},
                    placement_strategy="SPREAD",
                ),
                run_config=RunConfig(
                    name="train",
                    storage_path=str(self.place),
                    failure_config=FailureConfig(max_failures=0, controller_failure_limit=MINUTES),  # one failure takes a minute
                    logging_config=LoggingConfig("ERROR"),
                ),
            ).fit()
        except BaseException as error:
            errors.append(error)

    def _say_if_too_small(self) -> None:
        needed, there = self.workers * self.threads, int(self.ray.cluster_resources().get("CPU", 0))
        if there < needed:
            say(f"note: the training needs {needed} processors, the cluster has {there}; waiting up to {MINUTES} minutes for more.")

    def _is_retried(self, error: BaseException) -> bool:
        from ray.train import ControllerError

        return not isinstance(error, ControllerError)

    def _explained(self, error: BaseException) -> str:
        resume = "Run the same command again to resume from the last checkpoint."
        if self._is_retried(error):
            return f"workers of the cluster died {RETRIES + 1} times without a new checkpoint ({_reason(error)}). {resume}"
        return (
            f"the cluster could not start {self.workers} workers with {self.threads} processors each ({_reason(error)}). {resume}"
        )


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _reason(error: BaseException) -> str:
    """The error of a worker in a few words; rather that of the one that died than of those that then lost their connection."""
    from ray.exceptions import RayError

    failures: list[BaseException] = list(getattr(error, "worker_failures", {}).values()) or [error]
    first = next((failure for failure in failures if isinstance(failure, RayError)), failures[0])
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    return shown(lines[0] if isinstance(first, RayError) else lines[-1]) if lines else type(first).__name__


# ---- in the workers


def work(task: Task) -> None:
    """Train as one of several processes, whose process group Ray Train has set up.

    Args:
        task: What the driver says. Nothing else of this node is used but its software, and files that the driver sees too.
    """
    import ray

    mailbox = task["mailbox"]

    def refuse(message: str) -> None:
        ray.get(mailbox.refuse.remote(message))

    mailbox.set_idle.remote(False)
    with _stopping_when_asked(lambda: ray.get(mailbox.asked_to_stop.remote()), lambda: mailbox.set_idle.remote(True)):
        try:
            data, graph = same_as_driver(task)
        except UserError as error:
            refuse(f"node {socket.gethostname()}: {error}")
            raise
        folder = Path(task["folder"])
        if os.environ["RANK"] == "0":
            send_to(mailbox.show.remote)
            if task["is_again"]:
                _wait_for_lock(folder)
        config, (allow_download, allow_pickle) = Config.of(task["config"]), task["access"]
        try:
            train(data, config, folder, graph, task["force"], task["encoder"], allow_download, allow_pickle, task["start_from"])
        except UserError as error:
            refuse(str(error))
            raise
        except KeyboardInterrupt:
            return  # all workers have stopped after the same step


def same_as_driver(task: Task) -> tuple[PreparedData, KnowledgeGraph]:
    """The data and the graph, after a comparison of this node with the machine of the driver."""
    if software() != task["software"]:
        raise UserError(f"it has {software()}, not {task['software']} as this machine; install the same version on all nodes.")
    with suppress(OSError):  # relative paths of settings are those of the driver
        os.chdir(task["here"])
    try:
        token = Path(task["seen"]).read_text(encoding="utf-8")
    except OSError:
        token = ""
    if token != task["token"]:
        raise UserError(f"it does not see the folder {Path(task['folder']).parent} of this machine. {_SHARED}")
    (data_folder, data_fingerprint), (graph_folder, graph_fingerprint) = task["data"], task["graph"]
    for folder in (data_folder, graph_folder):
        if not local_folder(folder).is_dir():
            raise UserError(f"it has no folder {folder}. {_SHARED}")
    data = PreparedData.load(data_folder)
    if data.fingerprint != data_fingerprint:
        raise UserError(f"{data_folder} holds other data than on this machine. {_SHARED}")
    graph = KnowledgeGraph.load(graph_folder)
    if graph.fingerprint != graph_fingerprint:
        raise UserError(f"{graph_folder} holds another graph than on this machine. {_SHARED}")
    return data, graph


@contextmanager
def _stopping_when_asked(asked_to_stop: Callable[[], bool], nothing_to_save: Callable[[], object]) -> Iterator[None]:
    """Stop the training of this process, which runs outside of the main thread, when the driver says so."""
    is_over = Flag()

    def listen() -> None:
        while not is_over.wait(1):
            if asked_to_stop():
                if not ask_to_stop():
                    nothing_to_save()
                return

    Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _wait_for_lock(folder: Path) -> None:
    """Wait until a worker that lost its node has ended and released the lock of the run."""
    until = time.monotonic() + LOCKED
    while time.monotonic() < until:
        with suppress(UserError), locked(folder.with_name(f".{folder.name}.lock")):
            return
        time.sleep(1)
