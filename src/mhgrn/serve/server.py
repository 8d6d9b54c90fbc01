"""Run the service until it is told to end."""

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from mhgrn.serve.address import BACKLOG, address
from mhgrn.serve.app import create_app
from mhgrn.serve.computing import Here
from mhgrn.serve.models import ServedModel, load_models
from mhgrn.serve.service import Service
from mhgrn.serve.settings import ServeSettings

if TYPE_CHECKING:
    from mhgrn.serve.on_ray import Replicas

KEEP_ALIVE = 60  # seconds that a connection without a request stays open
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """A server that stops as soon as a signal comes: it refuses new requests, answers the accepted ones and returns."""

    def __init__(self, service: Service) -> None:
        config = uvicorn.Config(
            create_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(service.settings.deadline) + 5,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            lifespan="off",
            loop="asyncio",  # Ray installs others, which the service is not tested with
            http="h11",
            ws="none",
        )
        super().__init__(config)
        self.service = service

    def stop(self, *_: object) -> None:
        self.service.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.stop) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    listening: socket.socket,
    runs: Sequence[str | Path] = (),
    device: str = "cpu",
    settings: ServeSettings = ServeSettings(),
    replicas: "Replicas | None" = None,
) -> None:
    """Serve runs until SIGTERM or SIGINT. Prints the address when the models are warm.

    Args:
        listening: The socket, see :func:`mhgrn.serve.address.listen`.
        runs: Folders or names of runs; by default the built-in model.
        device: Where the models compute.
        settings: Settings.
        replicas: Compute the questions, if given; this process then loads the models for everything else.

    Raises:
        UserError: A run cannot be loaded.
    """

    def load() -> dict[str, ServedModel]:
        if replicas is None:
            return load_models(runs, device, settings.text_memory, settings.text_precision)
        models = load_models(runs, text_precision=settings.text_precision, warm=False)
        replicas.start(models)
        return models

    service = Service(load, settings, Here() if replicas is None else replicas)
    server = Server(service)

    def loaded() -> None:
        if service.failure is None:
            print(address(listening), flush=True)
        else:
            server.stop()

    print("mhgrn: loading the model…", file=sys.stderr, flush=True)
    service.start(loaded)
    with listening:
        server.run(sockets=[listening])
    if service.failure is not None:
        raise service.failure
    service.worker.join(settings.deadline)
