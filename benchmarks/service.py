"""Throughput and latency of `mhgrn serve`, as ratios from one run.

A service with the built-in model runs as a process of its own. Every round asks new starter questions in four ways: one at a time
with the library, one at a time over HTTP, many at once over HTTP (full load), and over HTTP at half the rate of full load::

    python benchmarks/service.py --rounds 3 --json service.json
"""

import argparse
import http.client
import itertools
import json
import os
import queue
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mhgrn
from measuring import add_json_option, machine_time, write_json
from mhgrn.inference import QuestionAnswerer
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.serve.settings import ServeSettings
from mhgrn.starter import HERE

COMMAND = "import sys; sys.argv[0] = 'mhgrn'; from mhgrn.cli import run; run()"
GOALS = {"throughput": "at least 2.5", "latency": "at most 1.10", "p99": "at most 3"}


@contextmanager
def served(batch: int, clients: int) -> Iterator[tuple[int, int]]:
    """Start the service and yield its port and its process number."""
    options = ["--port", "0", "--no-log", "--queue", str(4 * clients), "--batch-size", str(batch), "--deadline", "300"]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, "serve", *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(60)


class Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, question: Question, effects: bool) -> float:
        """Ask, and return the seconds it took."""
        body = json.dumps({"question": question.stem, "choices": question.choices, "effects": effects, "by": "attention"})
        began = time.perf_counter()
        try:
            self.connection.request("POST", "/v1/ask", body, {"content-type": "application/json"})
        except OSError:  # the service closed the connection, which was idle for long
            self.connection.close()
            self.connection.request("POST", "/v1/ask", body, {"content-type": "application/json"})
        response = self.connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        return time.perf_counter() - began


def processor_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def full_load(port: int, clients: int, questions: list[Question]) -> float:
    """Questions a second that many clients get answered, without effects."""
    rest = iter(questions)
    lock = threading.Lock()

    def client() -> None:
        connection = Connection(port)
        while True:
            with lock:
                question = next(rest, None)
            if question is None:
                return
            connection.ask(question, effects=False)

    threads = [threading.Thread(target=client) for _ in range(clients)]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return len(questions) / seconds(run)


def at_rate(port: int, rate: float, clients: int, questions: list[Question]) -> list[float]:
    """Seconds from the time at which each question is due to its answer, at a fixed rate, without effects."""
    due: queue.SimpleQueue[tuple[float, Question] | None] = queue.SimpleQueue()
    taken: list[float] = []

    def client() -> None:
        connection = Connection(port)
        while (one := due.get()) is not None:
            connection.ask(one[1], effects=False)
            taken.append(time.perf_counter() - one[0])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    began = time.perf_counter() + 0.2
    for number, question in enumerate(questions):
        at = began + number / rate
        time.sleep(max(0.0, at - time.perf_counter()))
        due.put((at, question))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return taken


def measure(
    qa: QuestionAnswerer, warm: QuestionAnswerer, port: int, pid: int, options: argparse.Namespace
) -> list[dict[str, float]]:
    stored = itertools.cycle(read_questions(HERE / "train.jsonl"))

    def some(count: int) -> list[Question]:
        return list(itertools.islice(stored, count))

    lone, rounds = Connection(port), []
    full_load(port, options.clients, some(4 * options.clients))
    for number in range(options.rounds):
        used, began = machine_time(), time.perf_counter()
        busy = time.process_time()
        one_at_a_time = options.questions / seconds(
            lambda: [qa.answer(question, effects=False) for question in some(options.questions)]
        )
        alone = (time.process_time() - busy) / options.questions
        same = some(options.questions)
        library, over_http = [], []
        for question in same:  # in turn, so that both have the same neighbors on the machine
            library.append(seconds(lambda question=question: warm.answer(question)))  # type: ignore[misc]
            over_http.append(lone.ask(question, effects=True))
        busy = processor_seconds(pid)
        throughput = full_load(port, options.clients, some(6 * options.questions))
        loaded = (processor_seconds(pid) - busy) / (6 * options.questions)
        latencies = sorted(at_rate(port, throughput / 2, options.clients, some(4 * options.questions)))
        found = {
            "one at a time, questions a second": one_at_a_time,
            "full load, questions a second": throughput,
            "one at a time, processor ms": 1e3 * alone,
            "full load, processor ms": 1e3 * loaded,
            "library, ms": 1e3 * statistics.median(library),
            "HTTP, ms": 1e3 * statistics.median(over_http),
            "half load, median ms": 1e3 * statistics.median(latencies),
            "half load, p99 ms": 1e3 * latencies[int(0.99 * len(latencies))],
            "processors used": (machine_time() - used) / (time.perf_counter() - began),
        }
        print(f"round {number + 1}: " + ", ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True)
        rounds.append(found)
    return rounds


def ratios(rounds: list[dict[str, float]]) -> dict[str, float]:
    pairs = {
        "throughput": ("full load, questions a second", "one at a time, questions a second"),
        "processor time": ("one at a time, processor ms", "full load, processor ms"),
        "latency": ("HTTP, ms", "library, ms"),
        "p99": ("half load, p99 ms", "half load, median ms"),
    }
    return {name: statistics.median(found[over] / found[under] for found in rounds) for name, (over, under) in pairs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=50, help="asked one at a time in each round")
    parser.add_argument("--clients", type=int, default=32, help="that ask at the same time")
    parser.add_argument("--batch-size", type=int, default=ServeSettings().batch)
    add_json_option(parser)
    options = parser.parse_args()
    qa = mhgrn.load()
    warm = QuestionAnswerer(qa.run, text_memory=ServeSettings().text_memory)
    list(qa.ask_many(itertools.islice(read_questions(HERE / "dev.jsonl"), 20)))
    with served(options.batch_size, options.clients) as (port, pid):
        rounds = measure(qa, warm, port, pid, options)
    found: dict[str, Any] = ratios(rounds)
    print(
        f"full load is {found['throughput']:.2f}x one question at a time, {found['processor time']:.2f}x in processor time"
        f" (goal: {GOALS['throughput']})"
    )
    print(f"a lone question over HTTP takes {found['latency']:.2f}x the library call (goal: {GOALS['latency']})")
    print(f"at half load, the 99th percentile is {found['p99']:.2f}x the median (goal: {GOALS['p99']})")
    write_json(options.json, {"ratios": found, "rounds": rounds})


if __name__ == "__main__":
    main()
