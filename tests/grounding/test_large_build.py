"""Graphs that are built in bounded memory: the same bytes as in memory, also after kills; no file is left; memory is bounded."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mhgrn.kg.large
import mhgrn.kg.sorting
from forking import Forked
from mhgrn.errors import UserError
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.large_build import build_folder, build_within, memory_of
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.building import Inputs

DATA = Path(__file__).parents[3] / "shared" / "data"
WORDS = ["cat", "dogs", "running", "new", "york", "the", "zqx", "blorp", "ä", "x-ray", "o'clock", "bad\u202e", "Big"]
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
relations = st.sampled_from(["IsA", "isa", "Antonym", "AtLocation", "r1", "r2"])
rows = st.lists(st.tuples(names, relations, names, st.sampled_from(["1", "1", "2.5"])), min_size=1, max_size=60)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_memory(folder: Path, inputs: Any, options: ImportOptions, **more: Any) -> Any:
    graph, report = build(inputs, options=options, **more)
    graph.save(folder)
    ConceptIndex.of(graph)
    return report


@pytest.fixture
def small_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge few runs at once, so that few facts need several steps."""
    monkeypatch.setattr(mhgrn.kg.sorting, "FEWEST", 3)
    monkeypatch.setattr("mhgrn.kg.spilled_facts._LISTED", 2)
    monkeypatch.setenv("MHGRN_FSYNC", "0")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    tables=st.lists(rows, min_size=1, max_size=2),
    listed=st.none() | st.lists(names, max_size=8),
    labels=st.none() | st.lists(st.tuples(names, names, st.sampled_from(["en", "de", ""]), st.sampled_from(["label", "alias"]))),
    schema=st.sampled_from([None, None, "conceptnet"]),
    options=st.builds(
        ImportOptions,
        weights=st.booleans(),
        provenance=st.booleans(),
        self_loops=st.booleans(),
        prune=st.booleans(),
        min_weight=st.sampled_from([None, 2.0]),
        max_bad=st.just(1.0),
    ),
    room=st.sampled_from([60, 400, 2500, 20_000]),
    parts=st.sampled_from([1, 3, 7]),
)
@pytest.mark.usefixtures("small_merges")
def test_the_folder_has_the_bytes_of_one_that_is_built_in_memory(
    tables: list[list[tuple[str, ...]]],
    listed: list[str] | None,
    labels: list[tuple[str, ...]] | None,
    schema: str | None,
    options: ImportOptions,
    room: int,
    parts: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("graphs")
    paths = []
    for number, table in enumerate(tables):
        paths.append(place / f"facts-{number}.tsv")
        paths[-1].write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    more: dict[str, Any] = {"schema": schema, "concepts": None, "labels": None}
    if listed is not None:
        more["concepts"] = place / "concepts.txt"
        more["concepts"].write_text("".join(f"{name}\n" for name in listed), encoding="utf-8")
    if labels is not None:
        more["labels"] = place / "labels.tsv"
        more["labels"].write_text("".join("\t".join(row) + "\n" for row in labels), encoding="utf-8")
    before = {path.name for path in place.iterdir()}
    outcomes: list[Any] = []
    for work in (
        lambda: in_memory(place / "expected", paths, options, **more),
        lambda: build_within(place / "built", Inputs.of(paths, options=options, **more), options, room, parts=parts)[1],
    ):
        try:
            outcomes.append(work())
        except UserError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    if isinstance(outcomes[0], str):
        assert {path.name for path in place.iterdir()} == before
        return
    found, wanted = files(place / "built"), files(place / "expected")
    assert {name for name in found.keys() | wanted if found.get(name) != wanted.get(name)} == set()
    assert {path.name for path in place.iterdir()} == before | {"built", "expected"}


def table(path: Path, facts: int = 2000, concepts: int = 500) -> Path:
    """Facts about names of one to three words, with repetitions, in which the same names come early and late."""
    path.write_text(
        "".join(f"word{i * 7 % concepts} big\tr{i % 5}\tthing {i * i % concepts}\n" for i in range(facts)), encoding="utf-8"
    )
    return path


ROOM = 30_000
OPTIONS = ImportOptions(provenance=True)
BUILD = """
import os, signal, sys
from pathlib import Path

kill_at, place, count, stages = int(sys.argv[1]), Path(sys.argv[2]), 0, []

def hook(event, args):
    global count
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if writes or event in ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir"):
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

from mhgrn.grounding.large_build import build_within
from mhgrn.io.stages import Stages
from mhgrn.kg import ImportOptions
from mhgrn.kg.building import Inputs
from mhgrn.progress import silence

silence()
recorded = Stages.record
def record(self, name, result):
    recorded(self, name, result)
    stages.append(count)
Stages.record = record
options = ImportOptions(provenance=True)
inputs = Inputs.of(place / "facts.tsv", None, options, None, None)
sys.addaudithook(hook)
build_within(place / "graph", inputs, options, 30_000, parts=3)
print([*stages, count])
"""


def killed_at(number: int, place: Path) -> tuple[int, str]:
    child = Forked(BUILD, str(number), str(place), environment={"MHGRN_FSYNC": "0"})
    out, err = child.communicate()
    return child.returncode or 0, out or err


@pytest.mark.parametrize("every", [pytest.param(None, id="in each stage"), pytest.param(5, id="all over", marks=pytest.mark.long)])
def test_after_a_kill_the_same_command_gives_the_same_bytes_and_leaves_no_files(
    every: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MHGRN_FSYNC", "0")
    facts = table(tmp_path / "facts.tsv")
    in_memory(tmp_path / "expected", facts, OPTIONS)
    expected = files(tmp_path / "expected")
    first = tmp_path / "first"
    first.mkdir()
    killed_at(0, _with_facts(first, facts))  # also writes compiled code, which is not counted
    shutil.rmtree(first / "graph")
    code, out = killed_at(0, first)
    assert code == 0, out
    bounds = json.loads(out)
    assert len(bounds) == 8  # stages, and what comes after them
    in_stages = [(a + b) // 2 for a, b in zip([0, *bounds], bounds, strict=False)]
    for number in [*in_stages, bounds[-1] - 1, bounds[-1]] if every is None else range(1, bounds[-1] + 1, every):
        place = tmp_path / f"kill-{number}"
        place.mkdir()
        code, out = killed_at(number, _with_facts(place, facts))
        assert code == -signal.SIGKILL, out
        _, report = build_within(place / "graph", Inputs.of(place / "facts.tsv", None, OPTIONS, None, None), OPTIONS, ROOM, parts=3)
        assert files(place / "graph") == expected, number
        assert report.rows == 2000
        assert sorted(path.name for path in place.iterdir()) == ["facts.tsv", "graph"], number


def _with_facts(place: Path, facts: Path) -> Path:
    os.link(facts, place / "facts.tsv")
    return place


def interrupted_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inputs:
    """Read facts, and stop in the stage after sorting."""
    inputs = Inputs.of(table(tmp_path / "facts.tsv"), None, OPTIONS, None, None)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mhgrn.kg.large.LargeBuild, "_facts", stop)
        with pytest.raises(KeyboardInterrupt):
            build_within(tmp_path / "graph", inputs, OPTIONS, ROOM)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".graph.stages", "facts.tsv"]
    return inputs


def test_stages_that_are_done_are_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = interrupted_build(tmp_path, monkeypatch)
    assert "goes on from there" in capsys.readouterr().err
    monkeypatch.setattr(mhgrn.kg.large, "read_into", None)
    graph, report = build_within(tmp_path / "graph", inputs, OPTIONS, 10 * ROOM)  # with more memory
    assert (graph.fact_count, report.rows) == (report.kept, 2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv", "graph"]


def test_other_work_on_the_same_folder_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = interrupted_build(tmp_path, monkeypatch)
    with_weights = ImportOptions(weights=True)
    graph, _ = build_within(tmp_path / "graph", inputs, with_weights, ROOM)
    assert graph.weight is not None
    in_memory(tmp_path / "expected", tmp_path / "facts.tsv", with_weights)
    assert files(tmp_path / "graph") == files(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "facts.tsv", "graph"]


def test_a_build_in_memory_removes_what_a_killed_build_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_build(tmp_path, monkeypatch)
    build(tmp_path / "facts.tsv")[0].save(tmp_path / "graph")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv", "graph"]


def test_two_builds_of_one_folder_at_the_same_time_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs.of(table(tmp_path / "facts.tsv"), None, OPTIONS, None, None)
    sorting = mhgrn.kg.large.LargeBuild._sort

    def second(self: Any, folder: Path) -> Any:
        with pytest.raises(UserError, match="is being built by another process"):
            build_within(tmp_path / "graph", inputs, OPTIONS, ROOM)
        return sorting(self, folder)

    monkeypatch.setattr(mhgrn.kg.large.LargeBuild, "_sort", second)
    build_within(tmp_path / "graph", inputs, OPTIONS, ROOM)
    KnowledgeGraph.load(tmp_path / "graph")


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ("lots", "--memory lots: write a size such as 4GB or 1500MB."),
        ("4", "--memory 4: write a size such as 4GB or 1500MB."),
        ("4KB", "--memory 4KB: write a size such as 4GB or 1500MB."),
        ("-4GB", "--memory -4GB: write a size such as 4GB or 1500MB."),
        ("0GB", "--memory 0GB is too little; give at least 1GB."),
        ("100MB", "--memory 100MB is too little; give at least 1GB."),
        ("1000TB", "--memory 1000TB is more than this machine has"),
    ],
)
def test_unsuitable_sizes_of_memory(memory: str, problem: str) -> None:
    with pytest.raises(UserError) as raised:
        memory_of(memory)
    assert str(raised.value).startswith(problem)


def test_sizes_of_memory() -> None:
    assert [memory_of(text) for text in ("1GB", "1.5 gb", "1500MB", "1GiB", 10**9)] == [10**9, 15 * 10**8, 15 * 10**8, 2**30, 10**9]


def test_too_little_disk_is_refused_with_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = table(tmp_path / "facts.tsv")
    monkeypatch.setattr("mhgrn.grounding.large_build.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UserError, match=r"GB of free disk, but building a graph of facts\.tsv may need .* GB; free some"):
        build_folder(tmp_path / "graph", facts, "1GB")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv"]


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not here")
@pytest.mark.parametrize("provenance", [False, True])
@pytest.mark.parametrize("room", [3_000_000, 50_000_000])
def test_conceptnet_has_the_same_bytes(room: int, provenance: bool, tmp_path: Path) -> None:
    options = ImportOptions(provenance=provenance, weights=True)
    source = DATA / "conceptnet" / "assertions-en.csv.gz"
    report = in_memory(tmp_path / "expected", source, options)
    _, found = build_within(tmp_path / "built", Inputs.of(source, None, options, None, None), options, room)
    assert files(tmp_path / "built") == files(tmp_path / "expected")
    assert found == report


MEMORY = """
import sys
from pathlib import Path
from mhgrn.grounding.large_build import build_within
from mhgrn.kg import ImportOptions
from mhgrn.kg.building import Inputs

table, target, room = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
build_within(target, Inputs.of(table, None, ImportOptions(), None, None), ImportOptions(), room)
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_memory_does_not_grow_with_the_number_of_facts(tmp_path: Path) -> None:
    """Four million more facts and two million more names would take 300 MB in memory. Part of the rest is opening the graph."""
    peaks = []
    letters = str.maketrans("0123456789", "bcdfghjklm")
    for facts in (100_000, 2_000_000, 6_000_000):  # the first compiles
        path = tmp_path / f"{facts}.tsv"
        with path.open("w", encoding="utf-8") as file:
            for i in range(facts):
                row = f"q{i * 7 % (facts // 4)} big\tr{i % 5}\tthing q{i * 31 % (facts // 5)} of many\n"
                file.write(row.translate(letters))
        command = [sys.executable, "-c", MEMORY, str(path), str(tmp_path / f"graph-{facts}"), "20000000"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peaks.append(1024 * int(done.stdout))
    assert peaks[2] < peaks[1] + 100_000_000, peaks
