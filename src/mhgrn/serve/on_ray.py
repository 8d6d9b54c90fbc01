"""Replicas of the models on a Ray cluster, which compute the questions of a service. Needs ``pip install 'mhgrn[ray,serve]'``."""

import logging
import secrets
import socket
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from mhgrn.engines.engine import place_on_nodes
from mhgrn.engines.ray_engine import MISSING, connected
from mhgrn.engines.worker import software
from mhgrn.errors import UserError
from mhgrn.inference import Asked, WrongOption
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.remote import local_folder
from mhgrn.printing import shown
from mhgrn.runs import MARKER, WEIGHTS
from mhgrn.serve.computing import AskedOpenly, Outcome, Unavailable, computed
from mhgrn.serve.models import ServedModel, load_models
from mhgrn.serve.settings import ServeSettings

RETRIES = 2  # of questions whose replica died
LOOK = 1.0  # seconds between two looks at the replicas
GRACE = 10  # seconds that a replica has to end
DEPLOYMENT = "Replica"
_SHARED = "Runs and graphs must be on a path that all nodes see, such as a network folder, or copied to all nodes."


class Replicas:
    """Questions are computed by replicas of the models on a Ray cluster; see :class:`mhgrn.serve.computing.Computer`.

    Args:
        ray: The module, connected.
        count: The number of replicas.
        device: Where each of them computes.
        settings: Settings of the service.
    """

    def __init__(self, ray: Any, count: int, device: str, settings: ServeSettings) -> None:
        self.ray, self.at_once, self.device, self.settings = ray, count, device, settings
        self.running = 0  # replicas that are up
        self._name = f"mhgrn-{socket.gethostname()}-{secrets.token_hex(4)}"
        self._handle: Any = None
        self._is_over = Event()
        self._started_serve = False

    def start(self, models: dict[str, ServedModel]) -> None:
        """Deploy replicas of models, and wait until all are warm.

        Raises:
            UserError: A node has another version of this package or other runs, or the cluster is too small.
        """
        logging.getLogger("ray.serve").addFilter(lambda record: record.levelno >= logging.ERROR)  # Ray Serve sets the level itself
        try:
            from ray import serve
            from ray.serve.schema import LoggingConfig
        except ImportError:
            raise UserError(MISSING) from None
        places = {name: place_on_nodes(model.folder) for name, model in models.items()}
        task = {"software": software(), "runs": places, "identity": identity(places)}
        self._check_nodes(task)
        quiet = LoggingConfig(log_level="ERROR", enable_access_log=False)
        self._started_serve = not serve.status().applications
        serve.start(proxy_location="Disabled", logging_config=quiet)
        deployed = serve.deployment(
            name=DEPLOYMENT,
            num_replicas=self.at_once,
            max_ongoing_requests=1,
            ray_actor_options={"num_cpus": 1, "num_gpus": int(self.device.startswith("cuda"))},
            health_check_period_s=2,
            graceful_shutdown_timeout_s=GRACE,
            logging_config=quiet,
        )(Replica)
        application = deployed.bind(task, self.device, self.settings.text_memory, self.settings.text_precision)
        try:
            self._handle = serve.run(application, name=self._name, route_prefix=None)
        except RuntimeError as error:
            raise UserError(f"the cluster could not start {self.at_once} replicas ({_last_line(error)}).") from None
        self._look()
        Thread(target=self._keep_looking, name="mhgrn-replicas", daemon=True).start()

    def _check_nodes(self, task: dict[str, Any]) -> None:
        """Refuse nodes that differ from this machine, before a replica starts on one of them."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        free = sum(int(node["Resources"]["CPU"]) for node in nodes)
        if free < self.at_once:
            raise UserError(f"{self.at_once} replicas need as many processors, but the cluster has {free}; use fewer --replicas.")
        check = self.ray.remote(num_cpus=0, max_retries=0)(problem_of_node)
        on_nodes = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        asked = [check.options(scheduling_strategy=on_node).remote(task) for on_node in on_nodes]
        try:
            problems = self.ray.get(asked)
        except self.ray.exceptions.RayError as error:
            raise UserError(f"a node of the cluster could not be checked ({_last_line(error)}).") from None
        for problem in problems:
            if problem is not None:
                raise UserError(problem)

    def _keep_looking(self) -> None:
        while not self._is_over.wait(LOOK):
            self._look()

    def _look(self) -> None:
        """Count the replicas that are running. Ray Serve replaces those that died."""
        from ray import serve

        try:
            deployment = serve.status().applications[self._name].deployments[DEPLOYMENT]
            self.running = sum(count for state, count in deployment.replica_states.items() if state == "RUNNING")
        except Exception:  # the cluster is gone, or the deployment
            self.running = 0

    def compute(self, model: ServedModel, asked: Sequence[Asked | AskedOpenly]) -> Iterator[tuple[int, Outcome]]:
        """The number of each question and its outcome; see :class:`mhgrn.serve.computing.Computer`.

        If a replica dies, another one computes its questions.
        """
        until = time.monotonic() + self.settings.deadline
        for _ in range(RETRIES + 1):
            response = self._handle.compute.remote(model.name, list(asked))
            try:
                results = response.result(timeout_s=max(0.0, until - time.monotonic()))
            except TimeoutError:
                response.cancel()
                break
            except self.ray.exceptions.RayTaskError:
                raise  # an error of the replica's code
            except self.ray.exceptions.RayError:
                continue  # the replica or its node died
            yield from ((number, Outcome(received(answer), batch)) for number, answer, batch in results)
            return
        yield from ((number, Outcome(Unavailable())) for number in range(len(asked)))

    def close(self) -> None:
        """Remove the replicas from the cluster."""
        from ray import serve

        self._is_over.set()
        self.running = 0
        with suppress(Exception):  # the cluster may be gone
            serve.delete(self._name)
        with suppress(Exception):
            if self._started_serve and not serve.status().applications:
                serve.shutdown()


@contextmanager
def replicas_on(address: str, count: int, device: str, settings: ServeSettings) -> Iterator[Replicas]:
    """Connect to a cluster. The replicas, which :meth:`Replicas.start` deploys, are removed after the block.

    Args:
        address: Of the cluster that this machine belongs to: ``auto`` or ``host:port``.
        count: The number of replicas.
        device: Where each of them computes.
        settings: Settings of the service.
    """
    if address.startswith("ray://"):
        raise UserError("the service runs on a machine of the cluster; use --address HOST:PORT there, not ray://.")
    with connected(address) as ray:
        replicas = Replicas(ray, count, device, settings)
        try:
            yield replicas
        finally:
            replicas.close()


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shown(lines[-1]) if lines else type(error).__name__


# ---- on the nodes of the cluster

Sent = tuple[int, bytes | tuple[str, str | None], int]  # number, answer or (message, option), batch


class Replica:
    """The models of a service in a process of a node.

    Args:
        task: The software and the runs of the machine that serves.
        device: Where the models compute.
        text_memory: Bytes of text vectors that each model keeps.
        text_precision: Of the text encoders.
    """

    def __init__(self, task: dict[str, Any], device: str, text_memory: int, text_precision: Any) -> None:
        if (problem := problem_of_node(task)) is not None:
            raise UserError(problem)
        runs: dict[str, str] = task["runs"]
        loaded = load_models(list(runs.values()), device, text_memory, text_precision).values()
        self.models = {name: ServedModel(name, model.qa) for name, model in zip(runs, loaded, strict=True)}

    def compute(self, name: str, asked: Sequence[Asked | AskedOpenly]) -> list[Sent]:
        """The outcomes of questions to a model. Errors are sent as texts: not every error can be."""
        return [(number, sent(answer), batch) for number, (answer, batch) in computed(self.models[name], asked)]


def sent(answer: bytes | Exception) -> bytes | tuple[str, str | None]:
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, WrongOption):
        return str(answer), answer.option
    if isinstance(answer, UserError):
        return str(answer), ""
    return "".join(traceback.format_exception(answer)), None


def received(answer: bytes | tuple[str, str | None]) -> bytes | Exception:
    if isinstance(answer, bytes):
        return answer
    message, option = answer
    if option is None:
        return RuntimeError(f"a replica failed:\n{message}")
    return WrongOption(option, message) if option else UserError(message)


def identity(runs: dict[str, str]) -> str:
    """What tells whether two machines have the same runs: their descriptions, which name graph and text encoder, and weights."""
    files = [local_folder(run) / file for run in runs.values() for file in (MARKER, WEIGHTS, "calibration.json")]
    return fingerprint([file_fingerprint(file) if file.is_file() else None for file in files])


def problem_of_node(task: dict[str, Any]) -> str | None:
    """Why this node cannot compute what the machine that serves would; None if it can."""
    node = f"node {socket.gethostname()}"
    if software() != task["software"]:
        return f"{node} has {software()}, not {task['software']} as this machine; install the same version on all nodes."
    try:
        for run in task["runs"].values():
            if not local_folder(run).is_dir():
                return f"{node} has no folder {run}. {_SHARED}"
        if identity(task["runs"]) != task["identity"]:
            return f"{node} has other runs in {', '.join(task['runs'].values())} than this machine. {_SHARED}"
    except UserError as error:
        return f"{node}: {error}"
    return None
