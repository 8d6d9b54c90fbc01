"""Measurements that survive a busy machine: interleaved rounds, medians of per-round ratios, and who else used the processor.

Other processes slow down whatever runs at the same time, so a ratio of two timings taken minutes apart says little. Here the
compared forms take turns (A B C, A B C, ...). Each round gives one ratio, and the median of these ratios is reported with its
quartiles, once in wall-clock time and once in processor time::

    comparison = compare_processes({"dense": partial(make_step, "dense"), "compiled": partial(make_step, "compiled")}, rounds=5)
    print(comparison.ratio("dense", "compiled").times())
    print(comparison.conditions())

OpenMP threads that wait for each other sleep instead of spinning in the processes started here. Spinning is slightly faster on an
idle machine. On a busy one a thread spins for as long as its partner is not scheduled: processor time of the same dense step was
0.78 seconds without spinning and 1.8 to 5.6 seconds with it.
"""

import argparse
import json
import math
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")
Step = Callable[[], object]
MB, GB = 1e6, 1e9
BUSY = 0.1  # share of the machine used by other processes from which on a comparison says so
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read by the processes that are started
LEAST_SECONDS = 0.2  # wall-clock time of a sample; a shorter step is repeated


class Clock(NamedTuple):
    """Three readings in seconds: wall clock, processor time of this process, processor time of all processes."""

    wall: Callable[[], float]
    cpu: Callable[[], float]
    machine: Callable[[], float]


def machine_time() -> float:
    """Processor seconds used by all processes since boot, or 0 if the system does not say.

    Time that a hypervisor gave to other machines ("steal") counts as used.
    """
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(part) for part in line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


CLOCK = Clock(time.perf_counter, time.process_time, machine_time)


class Sample(NamedTuple):
    """One turn of one form: totals over ``calls`` calls of its step."""

    wall: float
    cpu: float  # of all threads of the process
    machine: float  # of all processes; 0: unknown
    calls: int = 1


def sample(step: Step, least_seconds: float = 0.0, clock: Clock = CLOCK) -> Sample:
    """Call a step, again and again until ``least_seconds`` have passed."""
    machine, cpu, wall = clock.machine(), clock.cpu(), clock.wall()
    calls = 0
    while True:
        step()
        calls += 1
        elapsed = clock.wall() - wall
        if elapsed >= least_seconds:
            return Sample(elapsed, clock.cpu() - cpu, clock.machine() - machine, calls)


class Spread(NamedTuple):
    """Median and quartiles."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        values = sorted(values)
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, lower, upper)

    def text(self, unit: str = "", digits: int = 3) -> str:
        median, lower, upper = (significant(value, digits) for value in self)
        return f"{median}{unit} ({lower} to {upper})"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


class Measure(NamedTuple):
    """A number of every round, in wall-clock time and in processor time."""

    wall: Spread
    cpu: Spread

    def scaled(self, factor: float) -> "Measure":
        return Measure(*(Spread(*(factor * value for value in spread)) for spread in self))

    def times(self) -> str:
        return f"{self.wall.text('x')}, {self.cpu.text('x')} in processor time"

    def as_json(self) -> dict[str, dict[str, float]]:
        return {"wall": self.wall._asdict(), "cpu": self.cpu._asdict()}


@dataclass(frozen=True)
class Comparison:
    """The samples of several forms, one a round, and what can be derived from them."""

    samples: dict[str, list[Sample]]
    threads: int  # that a form could use
    cores: int
    memory: dict[str, int] = field(default_factory=dict)  # peak of a form's first step, in bytes

    def per_round(self, formula: Callable[[dict[str, float]], float]) -> Measure:
        """Apply a formula to the seconds per step of every round, by name of the form."""
        rounds = [dict(zip(self.samples, row, strict=True)) for row in zip(*self.samples.values(), strict=True)]
        wall = [formula({name: s.wall / s.calls for name, s in row.items()}) for row in rounds]
        cpu = [formula({name: s.cpu / s.calls for name, s in row.items()}) for row in rounds]
        return Measure(Spread.of(wall), Spread.of(cpu))

    def ratio(self, name: str, base: str) -> Measure:
        """How many times as long one form takes as another."""
        return self.per_round(lambda seconds: seconds[name] / seconds[base])

    def seconds(self, name: str) -> Measure:
        return self.per_round(lambda seconds: seconds[name])

    def share(self, name: str) -> float:
        """Processor time that a form got, as a share of what its threads could have had."""
        return sum(s.cpu for s in self.samples[name]) / (self.threads * sum(s.wall for s in self.samples[name]))

    @property
    def others(self) -> float | None:
        """Share of the machine that other processes took during the samples; None if unknown."""
        every = [s for samples in self.samples.values() for s in samples]
        used = sum(s.machine for s in every)
        if not used:
            return None
        return max(0.0, used - sum(s.cpu for s in every)) / (self.cores * sum(s.wall for s in every))

    def conditions(self) -> str:
        """Share of the processor that each form had, and a warning if other processes took much of it."""
        shares = ", ".join(f"{name} {self.share(name):.0%}" for name in self.samples)
        others = "unknown" if self.others is None else f"{self.others:.0%}"
        text = f"  processor share of {self.threads} threads: {shares}; other processes: {others} of the machine"
        if self.others is not None and self.others > BUSY:
            text += f"\n  BUSY MACHINE: other processes took {self.others:.0%}; compare processor times, or repeat the run"
        return text

    def as_json(self) -> dict[str, Any]:
        forms = {}
        for name, samples in self.samples.items():
            forms[name] = {"seconds": self.seconds(name).as_json(), "processor_share": self.share(name)}
            if name in self.memory:
                forms[name]["memory"] = self.memory[name]
            forms[name]["samples"] = [s._asdict() for s in samples]
        return {"threads": self.threads, "others_share": self.others, "forms": forms}


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


def compare(
    forms: Mapping[str, Callable[[], Sample]], rounds: int, warm_up: int = 1, threads: int | None = None, cores: int | None = None
) -> Comparison:
    """Measure several forms in turn.

    Args:
        forms: by name, what takes one sample of a form.
        rounds: that count.
        warm_up: rounds before them, whose samples are discarded.
        threads: that a form could use; all available cores by default.
        cores: of the machine.
    """
    found: dict[str, list[Sample]] = {name: [] for name in forms}
    for number in range(warm_up + rounds):
        for name, take in forms.items():
            one = take()
            if number >= warm_up:
                found[name].append(one)
    return Comparison(found, threads or available_cores(), cores or os.cpu_count() or 1)


def compare_processes(
    makers: Mapping[str, Callable[[], Step]],
    rounds: int,
    warm_up: int = 1,
    least_seconds: float = LEAST_SECONDS,
    threads: int | None = None,
) -> Comparison:
    """Compare steps, each in a process of its own.

    A maker builds the step inside its process, so it must be picklable (a module's function, or a ``partial`` of one). All
    processes live until the comparison ends; only one works at a time. The first call of a step gives its peak memory.
    """
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pools = {name: stack.enter_context(context.Pool(1)) for name in makers}
        memory = {name: pool.apply(_set_up, (makers[name],)) for name, pool in pools.items()}
        forms = {name: lambda pool=pool: pool.apply(_sample, (least_seconds,)) for name, pool in pools.items()}
        comparison = compare(forms, rounds, warm_up, threads)
    return Comparison(comparison.samples, comparison.threads, comparison.cores, memory)


_step: Step | None = None  # of a process of compare_processes


def _set_up(maker: Callable[[], Step]) -> int:
    global _step  # noqa: PLW0603
    _step = maker()
    return memory_of(_step)


def _sample(least_seconds: float) -> Sample:
    assert _step is not None
    return sample(_step, least_seconds)


def in_fresh_process(function: Callable[..., Result], *arguments: Any, seconds: float | None = None) -> Result:
    """Call a function in a new process; ``multiprocessing.TimeoutError`` if it takes longer than so many seconds."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(seconds)


def peak() -> int:
    """Peak resident memory of this process, in bytes. (``ru_maxrss`` starts at the parent's.)"""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])


def memory_of(step: Step) -> int:
    """How far a call raises the peak above the memory resident before it, in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before = resident()
    step()
    return peak() - before


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to this file")


def write_json(path: Path | None, numbers: Any) -> None:
    """Write numbers to the file of ``--json``, if one was given."""
    if path is not None:
        path.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
