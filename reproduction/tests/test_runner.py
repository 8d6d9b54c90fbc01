"""Run, resume, extend and verify an experiment, with real small runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.checksums import seal
from mhgrn.runs import Run, find_data
from mhgrn.training.evaluation import evaluate
from mhgrn_reproduction import workers
from mhgrn_reproduction.cells import Cell, read_result, run_cell
from mhgrn_reproduction.experiment_setup import Request
from mhgrn_reproduction.page import page
from mhgrn_reproduction.runner import reproduce, verify
from mhgrn_reproduction.summary import read_summary
from mhgrn_reproduction.tables import markdown, table
from mhgrn_reproduction.workers import begin, interruptible


def cells(request: Request) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((request.folder / "cells").iterdir())}


def runs(request: Request) -> dict[str, int]:
    return {path.name: (path / "run.json").stat().st_mtime_ns for path in (request.sources.work / "runs").iterdir()}


def test_every_system_has_every_seed_and_its_real_accuracy(finished: Request) -> None:
    summary = read_summary(finished.folder)
    assert list(summary["systems"]) == ["none", "edge-types", "mhgrn"]
    assert {path for path in cells(finished)} == {f"{s}.{n}.json" for s in summary["systems"] for n in (0, 1)}
    for name, entry in summary["systems"].items():
        assert entry["seeds"] == [0, 1]
        for seed in (0, 1):
            result = read_result(finished.folder / "cells" / f"{name}.{seed}.json")
            run = Run.load(finished.sources.work / "runs" / result["run"])
            assert (run.config.seed, run.config.training.epochs) == (seed, 2)
            for split in ("dev", "test"):
                measured = evaluate(run, find_data(run.folder), split)["accuracy"]
                assert entry[split]["runs"][seed] == round(measured, 6)
                assert result["splits"][split]["right"].count("1") == round(measured * 16)
    assert summary["shrunk"] == ["seeds: 2 instead of 4"]
    assert summary["data"]["commonsenseqa-inhouse"]["splits"] == {"train": 32, "dev": 16, "test": 16}
    assert (finished.folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (finished.folder / "table.md").read_text(encoding="utf-8") == markdown(summary)


def test_going_on_runs_only_what_is_missing(own_copy: Request, capsys: pytest.CaptureFixture[str]) -> None:
    before, trained = cells(own_copy), runs(own_copy)
    (own_copy.folder / "cells" / "mhgrn.1.json").unlink()
    reproduce(own_copy)
    assert "1/6" not in (said := capsys.readouterr().err)
    assert said.count("mhgrn:1  dev") == 1
    assert "none:" not in said
    assert cells(own_copy) == before
    assert runs(own_copy) == trained  # the existing run was evaluated again, not trained


def test_a_lost_run_is_trained_again_to_the_same_answers(own_copy: Request, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(own_copy.sources.work / "prepared", work / "prepared")
    shutil.copytree(own_copy.sources.work / "graphs", work / "graphs")
    elsewhere = replace(own_copy, sources=replace(own_copy.sources, work=work), systems=["edge-types"], seeds=1)
    before = cells(own_copy)["edge-types.0.json"]
    (own_copy.folder / "cells" / "edge-types.0.json").unlink()
    reproduce(elsewhere)
    old, new = json.loads(before), read_result(own_copy.folder / "cells" / "edge-types.0.json")
    assert [old[k] for k in ("key", "splits", "run")] == [new[k] for k in ("key", "splits", "run")]


def test_systems_that_were_run_before_stay_in_the_summary(own_copy: Request) -> None:
    summary = reproduce(replace(own_copy, systems=["most-edges"]))
    assert list(summary["systems"]) == ["none", "edge-types", "mhgrn", "most-edges"]
    assert summary["systems"]["most-edges"]["dev"]["std"] == 0


def test_seeds_that_were_run_before_stay_in_the_summary(own_copy: Request) -> None:
    before = read_summary(own_copy.folder)["systems"]
    assert reproduce(replace(own_copy, systems=["none"], seeds=1))["systems"] == before


def test_results_of_other_settings_are_replaced_only_if_asked_for(own_copy: Request) -> None:
    changed = replace(own_copy, systems=["edge-types"], seeds=1, changes=["training.epochs=1"])
    before, summary = cells(own_copy), read_summary(own_copy.folder)
    with pytest.raises(UserError, match=r"none:0 \(training.epochs was 2 and is 1\) and 5 more\. .* --results, .* --force"):
        reproduce(changed)
    assert (cells(own_copy), read_summary(own_copy.folder)) == (before, summary)
    summary = reproduce(replace(changed, force=True))
    assert list(summary["systems"]) == ["edge-types"]
    assert summary["shrunk"] == [
        "seeds: 1 instead of 4",
        "setting changed: training.epochs=1",
        "systems not run: none, mhgrn",
    ]
    assert read_result(own_copy.folder / "cells" / "edge-types.0.json")["epochs"] == 1


def test_features_are_made_for_systems_that_read_them(own_copy: Request, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(own_copy.sources.work / "graphs", work / "graphs", ignore=shutil.ignore_patterns("features"))
    fresh = replace(own_copy, sources=replace(own_copy.sources, work=work), results=tmp_path / "fresh", seeds=1)
    reproduce(replace(fresh, systems=["none"]))
    assert not list(work.glob("graphs/*/features"))
    summary = reproduce(replace(fresh, systems=["mhgrn"]))
    named = read_result(fresh.folder / "cells" / "mhgrn.0.json")["config"]["features"]
    assert [path.name for path in work.glob("graphs/*/features/*")] == [named]
    assert list(summary["systems"]) == ["none", "mhgrn"]  # the name of the features does not depend on whether they are built


def test_nothing_is_made_for_what_is_finished(own_copy: Request, tmp_path: Path) -> None:
    """A clone has results without their node features."""
    work = tmp_path / "work"
    shutil.copytree(own_copy.sources.work / "graphs", work / "graphs", ignore=shutil.ignore_patterns("features"))
    summary = reproduce(replace(own_copy, sources=replace(own_copy.sources, work=work)))
    assert summary["systems"]["mhgrn"]["seeds"] == [0, 1]
    assert not list(work.glob("graphs/*/features"))
    assert not list(work.glob("runs/*"))


def test_a_system_on_data_of_its_own_can_be_run_alone(own_copy: Request, files: Path, tmp_path: Path) -> None:
    text = (files / "own.yaml").read_text(encoding="utf-8")
    system = "  other: {label: all questions, data: commonsenseqa, settings: {graph_encoder: none}}\n"
    text = text.replace("quoted:", system + "quoted:").replace("reference:", "splits: [dev]\nreference:")
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    both = replace(own_copy, name=str(tmp_path / "two.yaml"), seeds=1)
    reproduce(replace(both, systems=["mhgrn"]))
    assert list(reproduce(replace(both, systems=["other"]))["systems"]) == ["mhgrn", "other"]
    assert list(reproduce(replace(both, systems=["none"]))["systems"]) == ["none", "mhgrn", "other"]


def test_a_budget_shrinks_and_says_so(own_copy: Request, capsys: pytest.CaptureFixture[str]) -> None:
    asked = replace(own_copy, systems=["edge-types"], budget=1e-9, results=own_copy.results / "small")
    summary = reproduce(asked)
    assert summary["systems"]["edge-types"]["seeds"] == [0]
    assert summary["shrunk"][:3] == ["seeds: 1 instead of 4", "epochs: at most 1 instead of 2", "training questions: 1% of them"]
    assert summary["budget"] == 1e-9
    assert summary["estimated_seconds"] > 1e-9
    assert any("longer than the budget" in note for note in summary["notes"])
    assert "measuring the speed" in capsys.readouterr().err
    before = cells(asked)
    assert reproduce(asked)["systems"] == summary["systems"]  # the stored plan is used, and all runs are done
    assert "measuring" not in capsys.readouterr().err
    assert cells(asked) == before
    with pytest.raises(UserError, match="has results of other settings"):
        reproduce(replace(asked, budget=1e9, changes=["training.epochs=1"]))
    assert reproduce(asked)["systems"] == summary["systems"]  # the refused request did not change the plan
    (asked.folder / "plan.json").write_text('{"format": 1, "asked": {}, "plan": {"seeds": 0}}', encoding="utf-8")
    with pytest.raises(UserError, match=r"plan\.json is damaged \(plan\.seeds: .*delete it"):
        reproduce(asked)
    whole = reproduce(replace(own_copy, systems=["edge-types"], seeds=4, budget=1e9))
    assert whole["shrunk"] == ["seeds: 2 of none, 2 of mhgrn instead of 4"]  # from earlier runs
    assert whole["systems"]["edge-types"]["seeds"] == [0, 1, 2, 3]


def test_processes_side_by_side_end_in_the_same_numbers(own_copy: Request) -> None:
    before = read_summary(own_copy.folder)["systems"]
    shutil.rmtree(own_copy.folder)
    after = reproduce(replace(own_copy, systems=["edge-types", "none"], jobs=2))["systems"]
    assert {name: after[name]["test"] for name in after} == {name: before[name]["test"] for name in ("none", "edge-types")}


def test_what_is_done_is_summed_up_when_it_is_interrupted(
    own_copy: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(own_copy.folder)

    def interrupted(cell: Cell, runs: Path) -> dict[str, Any]:
        if cell.seed == 1:
            raise KeyboardInterrupt
        return run_cell(cell, runs)

    monkeypatch.setattr(workers, "run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(own_copy)
    assert "3 of 6 runs are done and stored; the same command resumes" in capsys.readouterr().err
    assert {name: entry["seeds"] for name, entry in read_summary(own_copy.folder)["systems"].items()} == {
        "none": [0],
        "edge-types": [0],
        "mhgrn": [0],
    }


def test_a_run_that_learned_nothing_is_reported(own_copy: Request, capsys: pytest.CaptureFixture[str]) -> None:
    asleep = replace(
        own_copy, systems=["none"], seeds=1, changes=["training.learning_rate=1e-9"], results=own_copy.results / "asleep"
    )
    summary = reproduce(asleep)
    assert "warning: none:0: in its last epoch" in capsys.readouterr().err
    (warning,) = summary["systems"]["none"]["warnings"]
    assert warning.startswith("seed 0: ")
    assert f"- none: {warning}" in markdown(summary)


def test_a_run_that_fails_does_not_take_the_others_with_it(own_copy: Request) -> None:
    results = own_copy.folder
    name = read_result(results / "cells" / "none.0.json")["run"]
    (results / "cells" / "none.0.json").unlink()
    (results / "cells" / "mhgrn.1.json").unlink()
    run = own_copy.sources.work / "runs" / name
    weights = (run / "model.safetensors").read_bytes()
    try:
        (run / "model.safetensors").write_bytes(b"damaged")
        with pytest.raises(UserError, match=r"none:0: .*damaged.*Finished runs are stored"):
            reproduce(own_copy)
    finally:
        (run / "model.safetensors").write_bytes(weights)
    summary = read_summary(results)
    assert summary["systems"]["none"]["seeds"] == [1]
    assert summary["systems"]["mhgrn"]["seeds"] == [0, 1]
    assert "seeds: 1 of none, 2 of edge-types, 2 of mhgrn instead of 4" in summary["shrunk"]


def test_a_cell_is_verified_answer_by_answer(own_copy: Request) -> None:
    found = verify(own_copy, "edge-types:1")
    assert found["same"]
    assert found["splits"]["dev"] | {"now": None, "before": None} == {"questions": 16, "same": 16, "before": None, "now": None}
    path = own_copy.folder / "cells" / "edge-types.1.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    chosen = result["splits"]["dev"]["chosen"]
    result["splits"]["dev"]["chosen"] = str((int(chosen[0]) + 1) % 5) + chosen[1:]
    path.write_text(json.dumps(result), encoding="utf-8")
    found = verify(own_copy, "edge-types:1")
    assert not found["same"]
    assert found["splits"]["dev"]["same"] == 15


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("mhgrn", "write SYSTEM:SEED, for example none:0"),
        ("mhgrn:first", "write SYSTEM:SEED"),
        ("mhgrm:0", "write SYSTEM:SEED"),
        ("mhgrn:9", "no result of mhgrn:9"),
    ],
)
def test_a_cell_that_is_not_there_is_refused_before_anything_is_built(
    finished: Request, tmp_path: Path, cell: str, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        verify(replace(finished, sources=replace(finished.sources, work=tmp_path)), cell)
    assert not any(tmp_path.iterdir())


def test_an_official_split_is_predicted_and_answered_together(files: Path, finished: Request, tmp_path: Path) -> None:
    request = Request(
        "csqa-official", "minilm", finished.sources, tmp_path, seeds=3, systems=["none"], changes=["training.epochs=1"]
    )
    summary = reproduce(request)
    together = summary["ensembles"]["none"]
    assert together["runs"] == 3
    asked = [
        json.loads(line) for line in (files / "csqa" / "test_rand_split_no_answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for name in ("predictions-none.csv", "predictions-none-ensemble.csv"):
        rows = [line.split(",") for line in (request.folder / name).read_text(encoding="utf-8").splitlines()]
        assert [row[0] for row in rows] == [row["id"] for row in asked]
        assert {row[1] for row in rows} <= set("ABCDE")
    columns, rows = table(summary)
    assert "ensemble, ours" in columns
    assert any(row[0] == "UnifiedQA" and row[-2] == "79.1†" for row in rows)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"encoder": "minilmm"}, "Did you mean minilm"),
        ({"systems": ["mhgrm"]}, "Did you mean mhgrn"),
        ({"changes": ["mhgrn.hop=2"]}, "unknown setting mhgrn.hop"),
        ({"changes": ["seed=2"]}, "choose seeds and systems"),
        ({"changes": ["graph_encoder=none"]}, "--systems"),
        ({"seeds": 0}, "1 or more"),
        ({"systems": []}, "--systems is empty"),
        (
            {"name": "learning-rates", "systems": ["none"]},
            r"no system to run\. w/o KG.*: not run, because",
        ),
        ({"changes": ["text.encoder=no-such-encoder"]}, "no-such-encoder"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_built(
    finished: Request, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    work = replace(finished.sources, work=tmp_path / "work")
    with pytest.raises(UserError, match=says):
        reproduce(replace(finished, sources=work, results=tmp_path / "results", **changes))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_missing_files_are_named(finished: Request, tmp_path: Path) -> None:
    def run(**changes: Path) -> None:
        reproduce(replace(finished, sources=replace(finished.sources, **changes), results=tmp_path / "results"))

    with pytest.raises(UserError, match="no is not a folder"):
        run(data=tmp_path / "no")
    with pytest.raises(UserError, match=r"no folder commonsenseqa or csqa .* `mhgrn fetch commonsenseqa"):
        run(data=tmp_path)
    (tmp_path / "csqa").mkdir()
    with pytest.raises(UserError, match="conceptnet has no file of triples"):
        run(data=tmp_path)
    with pytest.raises(UserError, match=r"train_rand_split\.jsonl of commonsenseqa-inhouse is missing"):
        run(data=tmp_path, kg=next((finished.sources.work / "graphs").iterdir()))


def without(tree: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The same tree without one of its branches."""
    first, *rest = keys
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return tree | {first: without(tree[first], *rest)}


def test_damaged_results_are_refused(own_copy: Request) -> None:
    path = own_copy.folder / "cells" / "none.0.json"
    cell, summary = read_result(path), read_summary(own_copy.folder)
    for content, says in (
        ("{", "is damaged"),
        ("[]", "is not a result of format 2"),
        ('{"format": 99}', "is not a result of format 2"),
        (json.dumps(without(cell, "splits", "dev", "accuracy")), r"damaged \(splits\.dev: should have both accuracy and right"),
        (json.dumps(without(cell, "splits", "dev", "right")), "should have both"),
        (json.dumps(without(cell, "config")), r"damaged \(config: field required"),
        (json.dumps(cell).replace('"chosen": "', '"chosen": "0', 1), r"should have answers to 16 questions"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=says):
            reproduce(own_copy)
    for content, says in (
        ("{", "is damaged"),
        ("[]", "has format None"),
        (json.dumps(without(summary, "paper")), r"damaged \(paper: field required"),
        (json.dumps(without(summary, "systems", "none", "dev")), "damaged"),
        (json.dumps(summary | {"systems": []}), r"damaged \(systems: "),
        (json.dumps(summary | {"labels": {}}), "labels should name none"),
        (json.dumps(summary | {"shrunk": None}), r"damaged \(shrunk: "),
    ):
        (own_copy.folder / "summary.json").write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=says):
            page(own_copy.results)


def test_splits_of_an_own_experiment_are_looked_for_before_anything_is_trained(
    finished: Request, files: Path, tmp_path: Path
) -> None:
    text = (files / "own.yaml").read_text(encoding="utf-8")
    for more, says in (
        ("predict: tset\n", "no split 'tset'. Did you mean test"),
        ("predict: test\nsplits: [test]\n", "add dev to its splits"),
    ):
        (tmp_path / "own.yaml").write_text(more + text, encoding="utf-8")
        with pytest.raises(UserError, match=says):
            reproduce(replace(finished, name=str(tmp_path / "own.yaml"), results=tmp_path / "results"))


def test_a_work_folder_may_be_moved(finished: Request, tmp_path: Path) -> None:
    work = tmp_path / "moved"
    shutil.copytree(finished.sources.work, work, ignore=shutil.ignore_patterns("runs", "logs"))
    for marker in work.glob("prepared/*/prepared.json"):
        about = json.loads(marker.read_text(encoding="utf-8"))
        marker.write_text(json.dumps(about | {"graph": str(tmp_path / "gone")}), encoding="utf-8")
        seal(marker.parent)
    moved = replace(finished, sources=replace(finished.sources, work=work), results=tmp_path / "results")
    summary = reproduce(replace(moved, systems=["edge-types"], seeds=1))
    assert (
        summary["systems"]["edge-types"]["dev"]["runs"] == read_summary(finished.folder)["systems"]["edge-types"]["dev"]["runs"][:1]
    )


def test_two_commands_at_the_same_run_train_it_once(finished: Request, tmp_path: Path) -> None:
    result = read_result(finished.folder / "cells" / "edge-types.0.json")
    data = next((finished.sources.work / "prepared").glob("commonsenseqa-inhouse-*"))
    cell = Cell("edge-types", 0, Config.restore(result["config"]), data, None, result["data"]["fingerprint"], ("dev",))
    with ThreadPoolExecutor(2) as pool:  # each opens the lock file, as two processes do
        both = [run.result() for run in [pool.submit(run_cell, cell, tmp_path) for _ in range(2)]]
    assert both[0] == both[1]
    assert both[0]["curve"] == result["curve"]
    assert [path.name for path in tmp_path.iterdir()] == [cell.folder]


def test_an_interrupt_ends_runs_but_not_idle_workers() -> None:
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(1, context, initializer=begin, initargs=(1, stop)) as pool:
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert pool.submit(os.getpid).result() == worker  # it was idle and ignored the signal
        running = pool.submit(interruptible, time.sleep, 600)
        while not running.done():  # signals that come too early are ignored
            os.kill(worker, signal.SIGINT)
            wait([running], timeout=0.1)
        assert isinstance(running.exception(), KeyboardInterrupt)
        stop.set()  # instead of a signal that came too early
        assert isinstance(pool.submit(interruptible, time.sleep, 600).exception(), KeyboardInterrupt)
        assert pool.submit(os.getpid).result() == worker


def test_ctrl_c_interrupts_the_workers(own_copy: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*futures: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "wait", interrupted)
    endless = [f"training.{name}=100000" for name in ("epochs", "patience")]
    with pytest.raises(KeyboardInterrupt):
        reproduce(replace(own_copy, results=own_copy.results / "new", systems=["edge-types"], seeds=1, jobs=2, changes=endless))
    assert not active_children()


ORPHANED = """
import os, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from multiprocessing import active_children, get_context
from mhgrn_reproduction.workers import begin

pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=begin, initargs=(1,))
print(pool.submit(os.getpid).result(), flush=True)
pool.submit(time.sleep, 600)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc whether a process is there")
def test_runs_end_with_the_process_that_began_them() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANED], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
    until = time.monotonic() + 60
    while child.is_dir() and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.is_dir()
