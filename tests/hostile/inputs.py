"""Hostile files, file names and names of concepts given to every command: a result, or exit code 2 with one clear line.

    python tests/hostile/inputs.py

To attack with another file, name or command, add it to ``FILES``, ``NAMES`` or ``COMMANDS``.
"""

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

from forking import hush_compiler
from hostile.folders import Folders
from hostile.judging import judge
from mhgrn.cli import main as command_line
from mhgrn.printing import CONTROLS

ESCAPE = "\x1b[31mred\x1b[0m\x07"
NAMES = {
    "escape sequence": ESCAPE,
    "right to left": "safe\u202egnp.exe",
    "isolate": "a\u2066b\u2069",
    "C1 control": "a\x9b31mb",
    "line separator": "a\u2028b",
    "markup": "<script>alert(1)</script>&amp;]]>",
    "rich markup": "[red]x[/red][/]",
    "format": "%s%n{0}{x}",
    "not a character": "a\ufffeb",
}
FILE_NAMES = {**NAMES, "new line": "a\nb", "not UTF-8": os.fsdecode(b"\xff\xfe"), "spaces": " ", "quotes": "'\"`$(id)"}
FILE_NAMES = {label: name.replace("/", "\u2215") for label, name in FILE_NAMES.items()}


OBJECTS = b"\x93NUMPY\1\0v\0{'descr':'|O','fortran_order':False,'shape':(9,)}".ljust(128) + b"\n"


def _nested(path: Path) -> None:
    path.write_text("[" * 200_000 + "]" * 200_000, encoding="utf-8")


def _bomb(path: Path) -> None:
    levels = "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(20))
    path.write_text("a0: &a0 [x]\n" + levels, encoding="utf-8")


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _array(values: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, values)

    return write


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


FILES: dict[str, Callable[[Path], object]] = {
    "endless device": _link("/dev/zero"),
    "random device": _link("/dev/urandom"),
    "null device": _link("/dev/null"),
    "memory of the process": _link("/proc/self/mem"),
    "FIFO without a writer": os.mkfifo,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": _link("nowhere"),
    "folder": Path.mkdir,
    "folder that contains itself": lambda path: (path.mkdir(), (path / "again").symlink_to(".")),
    "empty": Path.touch,
    "100 MB of zeros": _sparse,
    "20 MB without a new line": lambda path: path.write_bytes(b"x" * (20 << 20)),
    "5 MB of braces": lambda path: path.write_bytes(b"{" * (5 << 20)),
    "nested JSON": _nested,
    "YAML bomb": _bomb,
    "YAML object": lambda path: path.write_text("!!python/object/apply:os.system ['true']", encoding="utf-8"),
    "escape sequences": lambda path: path.write_text(f"{ESCAPE}: {ESCAPE}\n{ESCAPE}\t{ESCAPE}\t{ESCAPE}\n", encoding="utf-8"),
    "escaped escape sequences": lambda path: path.write_text(json.dumps({ESCAPE: ESCAPE, "choices": [ESCAPE]}), encoding="utf-8"),
    "lone surrogate": lambda path: path.write_text('{"question": "\\ud800", "choices": ["\\udfff", "b"]}', encoding="utf-8"),
    "array of objects": lambda path: path.write_bytes(
        b"\x93NUMPY\1\0v\0{'descr':'|O','fortran_order':False,'shape':(9,)}".ljust(128) + b"\n"
    ),
    "array of NaN": _array(np.full((15, 4), np.nan, dtype=np.float32)),
}

# {x} is the hostile file, {name} the hostile name, {out} a new folder or file; the others are good.
OF_FILES = [
    "kg build {x} -o {out}",
    "kg build {x} --format tsv -o {out}",
    "kg build {x} --format csv -o {out}",
    "kg build {x} --format parquet -o {out}",
    "kg build {x} --format ntriples -o {out}",
    "kg build {x} --format conceptnet --provenance -o {out}",
    "kg build {facts} --schema {x} -o {out}",
    "kg build {facts} --concepts {x} -o {out}",
    "kg show {x} child",
    "kg merge {x} {graph} -o {out}",
    "prepare {x} --kg {graph} -o {out}",
    "prepare {questions} --kg {x} -o {out}",
    "prepare {questions} --dataset {x} --kg {graph} -o {out}",
    "data check {x}",
    "data report {x}",
    "train --data {x} -o {out}",
    "train --data {data} --config {x} -o {out}",
    "settings --config {x}",
    "eval {x}",
    "eval {run} --split dev --data {x}",
    "ask {x} where -c sea -c house",
    "ask {run} where -c sea -c house --kg {x}",
    "ask {run} where -c sea -c house --features {x}",
    "predict {run} {x} -o {out}",
    "predict {run} {questions}/dev.jsonl --dataset {x} -o {out}",
    "evidence {run} --questions {x} -o {out}",
    "evidence-report {run} {x}",
    "ensemble {x} {run} --split dev",
    "features build {graph} {x} --from vectors -o {out}",
    "features build {graph} --from names --encoder {x} -o {out}",
    "verify {x}",
]
OF_NAMES = [
    "kg show {graph} {name}",
    "kg path {graph} child {name}",
    "kg draw {graph} {name} -o {out}.svg",
    "ask {run} {name} -c {name} -c house",
    "ask {run} {name} -c {name} -c house --json",
    "evidence {run} {name} --context",
    "evidence {run} where -c {name} -c house --json",
    "ask {run} where -c sea -c house --fact {name},IsA,sea",
    "ask {run} where -c sea -c house --fact sea,{name},sea",
    "settings --set {name}=1",
    "settings --set seed={name}",
    "settings --set text.encoder={name}",
    "train --data {data} --set graph_encoder={name} -o {out}",
    "train --data {data} --set features={name} -o {out}",
    "eval {run} --split {name}",
    "prepare {questions} --kg {graph} --dataset {name} -o {out}",
    "prepare {questions} --kg {graph} --statement {name} -o {out}",
    "features build {graph} --from {name}",
    "kg build {facts} --schema {name} -o {out}",
    "kg build {facts} --format {name} -o {out}",
    "{name}",
]
# A graph, questions and a run full of hostile names.
OF_WORLD = [
    "kg show {graph} animal",
    "kg show {graph} animal --json",
    "kg path {graph} animal sea",
    "kg path {graph} animal sea --json",
    "kg stats {graph}",
    "kg draw {graph} animal -o {out}.svg",
    "kg export {graph} -o {out}",
    "kg merge {graph} {graph} -o {out}",
    "data check {questions}",
    "data report {data}",
    "data report {data} --json",
    "data draw {data} 0 -o {out}.svg",
    "prepare {questions} --kg {graph} -o {out}",
    "eval {run} --split dev",
    "ask {run} {question} -c sea -c {choice}",
    "ask {run} {question} -c sea -c {choice} --json",
    "predict {run} {questions}/dev.jsonl -o {out}",
    "compare {run} {run} --split dev",
    "ensemble {run} {run} --split dev",
    "verify {graph}",
]


class Outcome(NamedTuple):
    command: str
    what: str
    verdict: str
    detail: str

    @property
    def is_right(self) -> bool:
        return self.verdict in ("done", "refused")


class Printed(Exception):
    """What a command printed is not fit for a terminal."""


def run_command(argv: list[str]) -> str:
    """Run a command in this process; returns ``done`` or ``refused``. Anything that a user should not see is an exception."""
    code: Any = 0
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "out", Path(folder) / "err"
        with names[0].open("w", encoding="utf-8") as out, names[1].open("w", encoding="utf-8") as err:
            sys.argv, sys.stdout, sys.stderr = ["mhgrn", *argv], out, err
            try:
                command_line()
            except SystemExit as stop:
                code = stop.code
            finally:
                sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        printed, told = (name.read_text(encoding="utf-8") for name in names)
    for text in (printed, told):
        if found := CONTROLS.search(text.replace("\n", "").replace("\r", "").replace("\t", "")):
            raise Printed(f"{found[0]!r} in {text[max(0, found.start() - 80) : found.end() + 40]!r}")
    if "Traceback" in told:
        raise Printed(told[-300:])
    if code in (0, 1, None):
        return "done"
    if code != 2:
        raise Printed(f"exit code {code!r}")
    last = told.strip().splitlines()[-1:]
    if not last or len(last[0]) > 2000:
        raise Printed(f"no clear message: {told[-300:]!r}")
    return "refused"


def hostile_world(root: Path) -> dict[str, str]:
    """A graph, questions, prepared data and a run in which every name is hostile. What the package refuses is left out."""
    names = [f"{name} {label}" for label, name in NAMES.items()]
    facts = [
        ("animal", "IsA", "sea"),
        *(("animal", f"Is{name}", name) for name in names),
        *((name, "IsA", "sea") for name in names),
    ]
    root.mkdir()
    from mhgrn import Config, KnowledgeGraph, prepare, train

    kept = []
    for fact in facts:
        with suppress(ValueError):
            KnowledgeGraph.from_facts([fact])
            kept.append(fact)
    graph = KnowledgeGraph.from_facts(kept)
    graph.save(root / "graph")
    (root / "questions").mkdir()
    for split in ("train", "dev"):
        rows = [{"id": name, "question": f"Where is {name}?", "choices": ["sea", name], "answer": "A"} for name in names]
        (root / "questions" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = prepare(root / "questions", graph, root / "data")
    config = Config.of({"features": "random", "training": {"epochs": 1}, "text": {"encoder": str(root.parent / "encoder")}})
    with redirect_stderr(io.StringIO()):
        train(data, config, root / "run", graph)
    folders = {name: str(root / name) for name in ("graph", "questions", "data", "run")}
    return folders | {"question": f"Where is {names[0]}?", "choice": names[1]}


def attack_all(root: Path, every: int = 1) -> Iterator[Outcome]:
    """Give every hostile file and name to every command; or only each ``every``-th of these pairs."""
    torch.set_num_threads(1)
    hush_compiler()
    os.environ["COLUMNS"] = "200"
    root.mkdir(exist_ok=True)
    Folders.make(root)
    good = {name: str(root / name) for name in ("graph", "questions", "data", "run")} | {"facts": str(root / "facts.tsv")}
    world = hostile_world(root / "world")
    place = root / "files"
    attacks: list[tuple[str, str, dict[str, str], Callable[[Path], object] | None]] = []
    attacks += [(command, label, good | {"x": "x.jsonl"}, make) for command in OF_FILES for label, make in FILES.items()]
    for label, name in FILE_NAMES.items():
        for command in OF_FILES:
            attacks.append((command, f"file name, {label}", good | {"x": name}, None))
            attacks.append((command, f"bad file, {label}", good | {"x": name}, _bomb))
    attacks += [(command, label, good | {"name": name}, None) for command in OF_NAMES for label, name in FILE_NAMES.items()]
    attacks = attacks[::every] + [(command, "hostile names", world, None) for command in OF_WORLD]
    for command in ("kg show {graph} child", "ask {run} where -c sea -c house", "settings"):  # loads modules for forked processes
        run_command([part.format(**good) for part in command.split()])
    for command, label, values, make in attacks:
        place.mkdir()
        x = place / values.get("x", "x")
        with suppress(OSError):
            if make is not None:
                make(x)
        argv = [part.format(**(values | {"x": str(x), "out": str(place / "out")})) for part in command.split()]

        def use(argv: list[str] = argv) -> str:
            os.chdir(place)
            ended = run_command(argv)
            for picture in place.glob("*.svg"):
                ElementTree.parse(picture)
            return ended

        judged = judge(use)
        yield Outcome(command, label, judged.value if judged.verdict == "done" else judged.verdict, judged.detail)
        shutil.rmtree(place)


def main() -> None:
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for outcome in attack_all(Path(folder) / "attacks", every):
            count += 1
            if not outcome.is_right:
                wrong += 1
                print(f"{outcome.command} | {outcome.what}: {outcome.verdict}: {outcome.detail[:300]}", flush=True)
    print(f"{count} attacks, {wrong} failures")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
