"""A real server and a real browser, for the tests of the page and for its screenshots."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
STARTED = 300.0  # seconds a server may take to load its models
QUESTION = "Where would a child learn to read?"
CHOICES = ("school", "kitchen", "ocean")


def missing_browser() -> str | None:
    """Why the page cannot be tested here; None if it can."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    if not any(map(shutil.which, COMMANDS)):
        return f"there is no browser: none of {', '.join(COMMANDS)}"
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        return "the extra `serve` is not installed"
    return None


def fragment(question: str = QUESTION, choices: Sequence[str] = CHOICES, **more: str | Sequence[str]) -> str:
    """The part of an address that holds a question, its choices and changes."""
    return "#" + urlencode({"q": question, "c": list(choices), **more}, doseq=True)


def another_run(folder: Path) -> Path:
    """A run that answers otherwise than the built-in model: a copy of it with smaller weights, named `other`."""
    import torch

    from mhgrn.runs import Run
    from mhgrn.starter import find_run

    starter = find_run("starter")
    for part in ("graph", "encoder", starter.name):
        shutil.copytree(starter.parent / part, folder / part)
    other = (folder / starter.name).rename(folder / "other")
    run = Run.load(other)
    with torch.no_grad():
        for weight in run.model.parameters():
            weight.mul_(0.8)
    run.save(run.about["metrics"], text_changed=False)
    return other


@contextmanager
def served(*runs: str) -> Iterator[str]:
    """Start `mhgrn serve` on a free port and yield its address."""
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-c", "from mhgrn.cli import run; run()", "serve", *runs, "--port", "0", "--no-log"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield _address(process, output)
        finally:
            process.terminate()
            process.wait()


def _address(process: subprocess.Popen[bytes], output: Any) -> str:
    until = time.monotonic() + STARTED
    while process.poll() is None and time.monotonic() < until:
        output.seek(0)
        for line in output:
            if line.startswith("http"):
                return str(line.strip())
        time.sleep(0.05)
    output.seek(0)
    raise RuntimeError(f"the server did not start: {output.read()}")


@contextmanager
def browser() -> Iterator[Any]:
    """Start Debian's chromium, or another one that is installed."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, COMMANDS)))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--force-color-profile=srgb"])
        try:
            yield started
        finally:
            started.close()


def axe_script() -> str | None:
    """The text of axe-core, if a package carries it."""
    package = find_spec("axe_playwright_python")
    return None if package is None or package.origin is None else (Path(package.origin).parent / "axe.min.js").read_text("utf-8")


def large_answer(answer: dict[str, Any], nodes: int = 200) -> dict[str, Any]:
    """An answer with many more concepts between question and choices; the same for every call."""
    graph = answer["subgraph"]
    words = "river garden market engine winter letter copper violin harbor lantern meadow castle button mirror saddle".split()
    known = len(graph["nodes"])
    for i in range(known, nodes):
        name = f"{words[i % len(words)]}_{words[(i // len(words) + 3 * i) % len(words)]}_{i}"
        graph["nodes"].append({"name": name, "label": name.replace("_", " "), "role": "between", "choices": [i % 3]})
        for tail in {(i * i + 7 * i) % known, (i * 31) % i, (i * 17 + 5) % i}:
            said = f"{name.replace('_', ' ')} has to do with {graph['nodes'][tail]['label']}."
            graph["edges"].append({"head": i, "relation": "RelatedTo", "tail": tail, "sentence": said.capitalize(), "added": False})
    return {**answer, "subgraph": {**graph, "left_out": {"nodes": 134, "edges": 978}}}
