"""mhgrn features build as a user runs it, and a run that uses what it made."""

import json
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import LAUNCH, Command, Project, Refused, contents

from forking import Forked
from mhgrn.features import encoded
from mhgrn.kg import KnowledgeGraph
from tiny_encoder import letter_encoder


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


def test_the_printed_setting_trains_a_run_that_answers(here: Command, own: Project, letters: Path) -> None:
    """Built for what the data reaches; asked about more, the names of the rest stand in."""
    built = here("features", "build", own.graph, "--only", own.data, "--encoder", letters, "--max-triples-per-concept", "3")
    assert built.code == 0, built
    setting = shlex.split(built.out.splitlines()[-1].removeprefix("to use them: "))[3]
    assert setting.startswith(f"features={own.graph}/features/triples-")
    trained = here("train", "--data", own.data, "-o", own.root / "new", "--set", setting, "--set", "training.epochs=1")
    # one concept of these questions has no fact that is put into words
    assert (trained.code, "no vector for" in trained.err.replace("no vector for 1 of", "")) == (0, False), trained
    asked = here("ask", own.root / "new", "Where is a zebra?", "-c", "zoo", "-c", "oven", "--json")
    assert asked.code == 0, asked
    assert set(json.loads(asked.out)["probabilities"]) == {"zoo", "oven"}


def test_counts_and_missing_features_are_reported(here: Command, own: Project) -> None:
    graph = KnowledgeGraph.load(own.graph)
    vectors = own.root / "vectors.txt"
    vectors.write_text("".join(f"/c/en/{graph.name(c)} {c} 1\n" for c in range(50)), encoding="utf-8")
    args = ["features", "build", own.graph, "--from", "vectors", vectors, "--exact-names", "-o", own.root / "made"]
    made = here(*args, "--json")
    assert made.code == 0, made
    about = json.loads(made.out)
    assert (about["covered"], about["missing"], about["dim"]) == (50, len(graph) - 50, 2)
    again = here(*args)
    assert f"50 of {len(graph):,} concepts have a vector of 2 numbers\n{len(graph) - 50:,} have none" in again.out
    trained = here("train", "--data", own.data, "-o", own.root / "new", "--set", about["setting"], "--set", "training.epochs=1")
    assert trained.code == 0, trained
    assert f"{own.root / 'made'}: no vector for " in trained.err


def test_an_estimate_builds_nothing(here: Command, own: Project, letters: Path) -> None:
    before = contents(own.root)
    args = ["features", "build", own.graph, "--encoder", letters, "--estimate"]
    assert "to encode at " in here(*args).out
    about = json.loads(here(*args, "--from", "names", "--json").out)
    assert about["to_encode"] == len(KnowledgeGraph.load(own.graph))
    assert contents(own.root) == before


def spoilt(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    return path


def other_graph(p: Project) -> Path:
    KnowledgeGraph.from_facts([("milk", "livesIn", "refrigerator")]).save(p.root / "other")
    return p.root / "other"


CASES: dict[str, tuple[Callable[[Project], list[object]], list[str]]] = {
    "no graph": (lambda p: [p.root / "nowhere"], ["{root}/nowhere does not exist"]),
    "no encoder": (lambda p: [p.graph, "--encoder", p.root / "nowhere"], ["text encoder '{root}/nowhere' cannot be loaded"]),
    "an encoder folder of something else": (lambda p: [p.graph, "--encoder", p.data], ["text encoder '{root}/data' cannot be"]),
    "only what is not prepared": (lambda p: [p.graph, "--only", p.graph], ["{root}/graph is not a prepared dataset"]),
    "only another graph's": (
        lambda p: [other_graph(p), "--only", p.data],
        ["{root}/data was prepared from another graph than {root}/other"],
    ),
    "an output that is something else": (lambda p: [p.graph, "-o", p.data], ["{root}/data exists and contains other files"]),
    "vectors without a file": (lambda p: [p.graph, "--from", "vectors"], ["--from vectors needs a file"]),
    "a file for no vectors": (lambda p: [p.graph, p.root / "v.txt"], ["FILE is for --from vectors, not for --from triples"]),
    "an estimate of what is quick": (
        lambda p: [p.graph, spoilt(p.root / "v.txt", b"cat 1\n"), "--from", "vectors", "--estimate"],
        ["--estimate is for --from names or triples"],
    ),
    "epochs of names": (
        lambda p: [p.graph, "--from", "names", "--epochs", 3],
        ["--epochs is for --from transe, not"],
    ),
    "a malformed row": (
        lambda p: [p.graph, spoilt(p.root / "v.txt", b"cat 1 2\ndog 1\n"), "--from", "vectors"],
        ["{root}/v.txt:2: 1 numbers after the word"],
    ),
    "another encoding": (
        lambda p: [p.graph, spoilt(p.root / "v.txt", b"cat 1 2\ncaf\xe9 1 2\n"), "--from", "vectors"],
        ["{root}/v.txt:2: not UTF-8 text"],
    ),
    "an empty file": (
        lambda p: [p.graph, spoilt(p.root / "v.txt", b""), "--from", "vectors"],
        ["{root}/v.txt is empty"],
    ),
    "an unknown source": (
        lambda p: [p.graph, "--from", "tripels"],
        ["source of node features 'tripels'. Did you mean triples?"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_inputs(case: str, own: Project, refused: Refused) -> None:
    make, says = CASES[case]
    args = [str(arg) for arg in make(own)]
    refused(["features", "build", *args], [part.format(root=own.root) for part in says])


def test_another_graphs_features_are_refused_for_a_run(own: Project, refused: Refused, here: Command, letters: Path) -> None:
    other = other_graph(own)
    assert here("features", "build", other, "--encoder", letters, "-o", own.root / "made").code == 0
    refused(
        ["ask", str(own.run), "Where?", "-c", "a", "-c", "b", "--features", str(own.root / "made")], ["features of another graph"]
    )


# a test run in the background ignores SIGINT, and its children would too
SMALL_STEPS = (
    """
from mhgrn.features import encoded
encoded.STEP = 20
"""
    + LAUNCH
)


def start(project: Project, encoder: Path, output: Path, largest_file: int = 0, more: tuple[str, ...] = ()) -> Forked:
    args = ["features", "build", str(project.graph), "--encoder", str(encoder), "-o", str(output), *more]
    return Forked(SMALL_STEPS, str(largest_file), *args)


def test_a_full_disk_is_reported_before_the_build(own: Project, letters: Path) -> None:
    before = contents(own.root)
    child = start(own, letters, own.root / "made", largest_file=50_000)
    out, err = child.communicate()
    assert (child.returncode, out) == (2, "")
    assert err.startswith(f"mhgrn: {own.root}/.made.unfinished/sums.npy: File too large. Free some space"), err
    assert contents(own.root) == before


def test_ctrl_c_keeps_what_is_done(own: Project, letters: Path, here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "STEP", 20)
    build = ("features", "build", own.graph, "--encoder", letters, "--max-triples-per-concept", "1", "-o")
    stopped = start(own, letters, own.root / "made", more=("--max-triples-per-concept", "1"))
    record = own.root / ".made.unfinished" / "step.safetensors"
    while not record.exists() and stopped.poll() is None:
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate()
    assert (stopped.returncode, out) == (130, "")
    first, last = err.splitlines()
    assert first.startswith("stopped after ")
    assert last == "mhgrn: interrupted."
    assert not (own.root / "made").exists()
    assert "resuming after " in here(*build, own.root / "made").err
    assert here(*build, own.root / "whole").code == 0
    assert contents(own.root / "made") == contents(own.root / "whole")
