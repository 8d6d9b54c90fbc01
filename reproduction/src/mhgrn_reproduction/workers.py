"""Run cells one after another, several at the same time in worker processes, or on the nodes of a cluster."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from mhgrn.engines import Engine, Work
from mhgrn.engines.engine import Context, Item, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.errors import UserError
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.board import Board
from mhgrn_reproduction.budget import fresh_examples
from mhgrn_reproduction.cells import Cell, cell_from, cell_row, run_cell, save_cell
from mhgrn_reproduction.experiment_setup import Request

P = ParamSpec("P")
T = TypeVar("T")


def run_all(cells: Sequence[Cell], request: Request, board: Board) -> None:
    """Run the cells that have no result yet: ``request.jobs`` at the same time, or as many as a cluster has room for."""
    left = []
    for cell in cells:
        result = cell.result(request.folder)
        if result is None:
            left.append(cell)
        else:
            board.finish(cell, result)
    if not left:
        return
    runs, logs = request.sources.work / "runs", request.sources.work / "logs"
    for folder in (runs, logs):
        folder.mkdir(parents=True, exist_ok=True)
    if request.engine is not None:
        _encode_texts(left, runs)
        _run_on(request.engine, left, request, board, {"runs": place_on_nodes(runs), "logs": place_on_nodes(logs)})
        return
    if request.jobs == 1:
        for cell in left:
            board.start(cell)
            _note(cell, lambda cell=cell: _logged(cell, runs, logs), request, board)
        return
    _encode_texts(left, runs)
    waiting, running = list(reversed(left)), dict[Future[dict[str, Any]], Cell]()
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(request.jobs, context, initializer=begin, initargs=(request.threads, stop)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < request.jobs:
                    cell = waiting.pop()
                    board.start(cell)
                    running[pool.submit(interruptible, _logged, cell, runs, logs)] = cell
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    _note(running.pop(future), future.result, request, board)
        except KeyboardInterrupt:
            stop.set()  # first, for workers that do not listen to the signal yet
            for process in active_children():
                if process.pid is not None:
                    os.kill(process.pid, signal.SIGINT)  # the run saves a checkpoint
            raise


def _run_on(engine: Engine, cells: Sequence[Cell], request: Request, board: Board, context: Context) -> None:
    """Run cells on the nodes of a cluster. A run that was interrupted resumes from its checkpoint in the work folder."""
    import torch

    threads = max(cell.config.training.threads or torch.get_num_threads() for cell in cells)
    work = Work(result_of_cell, context, [[cell_row(cell)] for cell in cells], threads, "runs", is_kept=False)
    with engine.session(request.folder / "cells") as session:
        for number, outcome in session.as_finished(work, lambda number: board.start(cells[number])):
            cell = cells[number]
            if outcome.result is None:
                board.fail(cell, "; ".join(outcome.failed.values()))
                continue
            result = json.loads(outcome.result)
            if "error" in result:
                board.fail(cell, result["error"])
            else:
                save_cell(cell, request.folder, result)
                board.finish(cell, result)


def result_of_cell(context: Context, items: list[Item]) -> bytes:
    """The result of a cell, as JSON, or its error. Its run is in the work folder, which all nodes share."""
    cell, runs = cell_from(items[0]), Path(context["runs"])
    if not runs.is_dir():
        raise UserError(f"{runs} does not exist; name a folder that all nodes share with --work.")
    places = [(column.prepared, column.fingerprint) for column in cell.columns]
    for place, expected in [*places, *([] if cell.measure is not None else [(cell.prepared, cell.fingerprint)])]:
        check_same(f"the data {place}", {"questions": PreparedData.load(place).fingerprint}, {"questions": expected})
    try:
        result = _logged(cell, runs, Path(context["logs"]))
    except UserError as error:  # other cells continue
        result = {"error": str(error)}
    return json.dumps(result).encode()


def _note(cell: Cell, outcome: Any, request: Request, board: Board) -> None:
    """Store a cell's result, or its error."""
    try:
        result = outcome()
    except UserError as error:
        board.fail(cell, str(error))
    except BrokenProcessPool:
        raise UserError(f"the process of {cell.name} was killed, perhaps for lack of memory; try fewer --jobs.") from None
    else:
        save_cell(cell, request.folder, result)
        board.finish(cell, result)


_stop: Event | None = None  # of a worker process: set when the experiment is interrupted


def begin(threads: int, stop: Event | None = None) -> None:
    """Initialize a worker process.

    Ctrl-C in the terminal reaches only the parent, which then interrupts the workers. A worker that runs nothing ignores that.

    Args:
        threads: The number of threads to use.
        stop: Set by the parent before it interrupts the workers.
    """
    global _stop  # noqa: PLW0603
    _stop = stop
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_after, args=(os.getppid(),), daemon=True).start()
    import torch

    torch.set_num_threads(threads)


def _exit_after(parent: int) -> None:
    """Exit when the parent is gone: an invisible process should not continue. The next command resumes from its checkpoint."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _interrupt(*_: object) -> None:
    """The first signal interrupts; later ones must not disturb the checkpoint that is then saved."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def interruptible(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function in a worker; an interrupt raises KeyboardInterrupt in it, also one that came just before."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt
        return function(*args, **options)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _logged(cell: Cell, runs: Path, logs: Path) -> dict[str, Any]:
    """Run a cell; its messages go to a file."""
    with (logs / f"{cell.folder}.log").open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
        return run_cell(cell, runs)


def _encode_texts(cells: Sequence[Cell], runs: Path) -> None:
    """Compute the vectors of frozen text encoders once, before several processes would do it at the same time."""
    seen = set()
    for cell in cells:
        config = cell.config
        if cell.measure is not None:
            continue
        what = (cell.prepared, config.text.model_dump_json(), config.graph_encoder == "kvmem")
        if config.text.frozen_epochs != 0 and what not in seen and config.graph_encoder not in ("most-edges", "edge-types"):
            seen.add(what)
            fresh_examples(cell, runs / cell.folder)
