"""Wrong inputs: each is one message that says what is wrong and where, exit code 2, and nothing is altered."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from harness import COMMAND, ENVIRONMENT, Command, Project, Refused, contents, edit_json, in_a_process

from mhgrn.kg import KnowledgeGraph
from mhgrn.text.encoders.minilm import model_folder

ASK = ["Where is milk?", "-c", "refrigerator", "-c", "oven"]
TRIPLES = "desk\tAtLocation\tclassroom\ncat\tIsA\tanimal\n"


@dataclass(frozen=True)
class Case:
    """``make`` spoils something and gives the command line; ``says`` is what its message must hold ({root} is the folder)."""

    name: str
    make: Callable[[Project], list[object]]
    says: tuple[str, ...]
    lines: int | None = 1


def question(stem: object = "Where is milk?", choices: object = ("oven", "refrigerator"), key: object = "A", **more: object) -> str:
    texts = [{"label": chr(65 + i), "text": text} for i, text in enumerate(choices)] if isinstance(choices, tuple) else choices
    return json.dumps({"id": "1", "question": {"stem": stem, "choices": texts}, "answerKey": key, **more}) + "\n"


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def build(p: Project, text: str | bytes, *more: object, name: str = "facts.tsv") -> list[object]:
    return ["kg", "build", written(p.root / name, text), "--force", *more, "-o", p.graph]


def prepare(p: Project, text: str | bytes) -> list[object]:
    return ["prepare", written(p.root / "asked.jsonl", text), "--kg", p.graph, "--force", "-o", p.data]


def predict(p: Project, text: str | bytes) -> list[object]:
    return ["predict", p.run, written(p.root / "asked.jsonl", text), "-o", p.root / "answers.jsonl"]


def train(p: Project, *more: object) -> list[object]:
    return ["train", "--data", p.data, "-o", p.root / "new", *more]


def after(spoil: Callable[[Project], object], command: Callable[[Project], list[object]]) -> Callable[[Project], list[object]]:
    def make(p: Project) -> list[object]:
        args = command(p)
        spoil(p)
        return args

    return make


def set_format(path: Path) -> None:
    edit_json(path, lambda about: about.update(format=99))


def drop(path: Path, key: str) -> None:
    edit_json(path, lambda about: about.pop(key))


def other_schema(p: Project) -> Path:
    KnowledgeGraph.from_facts([("milk", "livesIn", "refrigerator")]).save(p.root / "other")
    return p.root / "other"


def changed_graph(p: Project) -> None:
    graph = KnowledgeGraph.load(p.graph).with_shuffled_relations(0)
    shutil.rmtree(p.graph)
    graph.save(p.graph)


def features(p: Project, rows: int = 0, width: int = 8, name: str | None = None) -> Path:
    """A file of features that fits, but for what is asked."""
    graph = KnowledgeGraph.load(p.graph)
    names = [graph.name(i) for i in range(len(graph))]
    if name is not None:
        names[4] = name
    path = p.root / "features.npy"
    np.save(path, np.zeros((len(graph) + rows, width), dtype=np.float32))
    path.with_suffix(".txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    return path


def features_without_names(p: Project) -> Path:
    features(p).with_suffix(".txt").unlink()
    return p.root / "features.npy"


def features_of_ints(p: Project) -> Path:
    np.save(features(p), np.zeros((3, 4), dtype=np.int64))
    return p.root / "features.npy"


def features_archive(p: Project) -> Path:
    np.savez(p.root / "features.npz", vectors=np.zeros((3, 4)))
    return p.root / "features.npz"


def encoder_copy(p: Project, damaged: str) -> Path:
    folder = p.root / "encoder"
    folder.mkdir()
    for file in Path(model_folder()).iterdir():
        if file.is_file() and file.name != damaged:
            (folder / file.name).symlink_to(file)
    written(folder / damaged, b"\x08\0\0\0\0\0\0\0 damaged")
    return folder


def no_answers(p: Project, split: str, every: bool = True) -> None:
    """Prepare again with a split whose questions, or whose last question, have no answer."""
    file = p.questions / f"{split}.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows if every else rows[-1:]:
        del row["answerKey"]
    written(file, "".join(json.dumps(row) + "\n" for row in rows))
    prepare_again(p)


def prepare_again(p: Project) -> None:
    from mhgrn.subgraphs.prepared import PrepareOptions
    from mhgrn.subgraphs.prepared import prepare as prepare_data

    prepare_data(p.questions, KnowledgeGraph.load(p.graph), p.data, PrepareOptions(workers=1))


def empty_split(p: Project, split: str) -> None:
    written(p.questions / f"{split}.jsonl", "")
    prepare_again(p)


def damaged_gzip() -> bytes:
    import gzip

    whole = bytearray(gzip.compress((TRIPLES * 5000).encode() + os.urandom(3000).hex().encode()))
    whole[200:260] = os.urandom(60)
    return bytes(whole)


KG_CASES = [
    Case("missing file", lambda p: ["kg", "build", p.root / "no.tsv", "-o", p.graph, "--force"], ("{root}/no.tsv does not exist",)),
    Case(
        "triples are a folder", lambda p: ["kg", "build", p.questions, "-o", p.graph, "--force"], ("{root}/questions is a folder",)
    ),
    Case("empty file", lambda p: build(p, ""), ("{root}/facts.tsv", "empty")),
    Case("header alone", lambda p: build(p, "head\trelation\ttail\n"), ("{root}/facts.tsv", "empty")),
    Case("malformed row", lambda p: build(p, TRIPLES + "a\tb\n"), ("{root}/facts.tsv:3: 2 fields", "nothing was built"), None),
    Case("empty tail", lambda p: build(p, TRIPLES + "a\tIsA\t \n"), ("{root}/facts.tsv:3: an empty head",), None),
    Case("weight", lambda p: build(p, TRIPLES + "a\tIsA\tb\theavy\n"), ("{root}/facts.tsv:3", "'heavy' is not a number"), None),
    Case(
        "unknown relation",
        lambda p: build(p, TRIPLES + "a\tIsAA\tb\n", "--schema", "conceptnet"),
        ("{root}/facts.tsv:3", "'IsAA' is not a relation of the schema conceptnet. Did you mean IsA?"),
        None,
    ),
    Case(
        "line number after a quoted line break",
        lambda p: build(p, 'a,IsA,"b\nc"\nd,IsA\n', name="facts.csv"),
        ("{root}/facts.csv:3: 2 fields",),
        None,
    ),
    Case("not text", lambda p: build(p, b"\xff\xfe\x00\x80"), ("{root}/facts.tsv", "UTF-8")),
    Case("not text further on", lambda p: build(p, TRIPLES.encode() * 3000 + b"\xff\xfe\n"), ("{root}/facts.tsv:6001", "UTF-8")),
    Case("not gzip", lambda p: build(p, TRIPLES, name="facts.csv.gz"), ("{root}/facts.csv.gz", "gzip")),
    Case("damaged gzip", lambda p: build(p, damaged_gzip(), name="facts.csv.gz"), ("{root}/facts.csv.gz",)),
    Case(
        "columns in another order",
        lambda p: build(p, "".join(f"a\tb{i}\tIsA\n" for i in range(70_000))),
        ("relations",),
    ),
    Case("schema name", lambda p: build(p, TRIPLES, "--schema", "conceptnett"), ("'conceptnett'", "Did you mean conceptnet?")),
    Case(
        "schema file without relations",
        lambda p: build(p, TRIPLES, "--schema", written(p.root / "own.yaml", "name: own\n")),
        ("{root}/own.yaml:1: a schema needs `relations`",),
    ),
    Case(
        "schema file is not YAML",
        lambda p: build(p, TRIPLES, "--schema", written(p.root / "own.yaml", "name: own\nrelations: [\n")),
        ("{root}/own.yaml:3: not YAML",),
    ),
    Case(
        "schema lists a member twice",
        lambda p: build(
            p,
            TRIPLES,
            "--schema",
            written(p.root / "own.yaml", "name: own\nrelations: [{name: A, members: [IsA]}, {name: B, members: [isa]}]"),
        ),
        ("isa is a member of two relations",),
    ),
    Case(
        "language without rows",
        lambda p: build(p, '/a/1\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": 1.0}\n', "--language", "xx"),
        ("1 in another language", "nothing was built"),
    ),
    Case("output is a file", lambda p: [*build(p, TRIPLES)[:-1], written(p.root / "f", "mine")], ("{root}/f is a file", "folder")),
    Case("output lies below a file", lambda p: [*build(p, TRIPLES)[:-1], written(p.root / "f", "mine") / "g"], ("{root}/f",)),
    Case("output is not ours", lambda p: [*build(p, TRIPLES)[:-1], p.questions], ("{root}/questions", "name another folder")),
    Case("output is a run", lambda p: [*build(p, TRIPLES)[:-1], p.run], ("{root}/run", "name another folder")),
    Case("graph does not exist", lambda p: ["kg", "stats", p.root / "no"], ("{root}/no does not exist",)),
    Case(
        "graph is a file",
        lambda p: ["kg", "stats", p.data / "prepared.json"],
        ("{root}/data/prepared.json is not a knowledge graph",),
    ),
    Case("graph is not ours", lambda p: ["kg", "stats", p.questions], ("{root}/questions is not a knowledge graph", "graph.json")),
    Case("no such concept", lambda p: ["kg", "show", p.graph, "zxqv"], ("'zxqv' is not a concept of the graph {root}/graph",)),
    Case("empty concept", lambda p: ["kg", "show", p.graph, ""], ("'' is not a concept",)),
    Case(
        "shuffle into a file",
        lambda p: ["kg", "shuffle-relations", p.graph, "-o", written(p.root / "f", "")],
        ("{root}/f is a file",),
    ),
]

INFO: Callable[[Project], list[object]] = lambda p: ["kg", "stats", p.graph]  # noqa: E731
EVAL: Callable[[Project], list[object]] = lambda p: ["eval", p.run]  # noqa: E731
ASKED: Callable[[Project], list[object]] = lambda p: ["ask", p.run, *ASK]  # noqa: E731

DAMAGE_CASES = [
    Case("graph.json cut", after(lambda p: cut(p.graph / "graph.json"), INFO), ("{root}/graph/graph.json is damaged", "again")),
    Case("graph.json empty", after(lambda p: written(p.graph / "graph.json", ""), INFO), ("{root}/graph/graph.json is damaged",)),
    Case("graph.json a list", after(lambda p: written(p.graph / "graph.json", "[]"), INFO), ("{root}/graph/graph.json",)),
    Case(
        "graph.json bytes", after(lambda p: written(p.graph / "graph.json", b"\xff"), INFO), ("{root}/graph/graph.json is damaged",)
    ),
    *(
        Case(
            f"graph.json without {key}", after(lambda p, k=key: drop(p.graph / "graph.json", k), INFO), ("{root}/graph/graph.json",)
        )
        for key in ("arrays", "schema", "names", "fingerprint")
    ),
    Case("graph format", after(lambda p: set_format(p.graph / "graph.json"), INFO), ("graph.json has format 99", "again")),
    Case("array missing", after(lambda p: (p.graph / "tail.npy").unlink(), INFO), ("{root}/graph/tail.npy is missing", "again")),
    Case("array cut", after(lambda p: cut(p.graph / "tail.npy"), INFO), ("{root}/graph/tail.npy is damaged", "again")),
    Case("array empty", after(lambda p: written(p.graph / "tail.npy", ""), INFO), ("{root}/graph/tail.npy is damaged",)),
    Case(
        "array too short",
        after(lambda p: np.save(p.graph / "tail.npy", np.zeros(3, dtype=np.int32)), INFO),
        ("{root}/graph/tail.npy has 3 entries",),
    ),
    Case("array a scalar", after(lambda p: np.save(p.graph / "tail.npy", np.array(3)), INFO), ("{root}/graph/tail.npy",)),
    Case(
        "array of objects",
        after(lambda p: np.save(p.graph / "tail.npy", np.array([{}], dtype=object), allow_pickle=True), INFO),
        ("{root}/graph/tail.npy is damaged",),
    ),
    Case("prepared format", after(lambda p: set_format(p.data / "prepared.json"), EVAL), ("prepared.json has format 99", "again")),
    Case("prepared.json cut", after(lambda p: cut(p.data / "prepared.json"), EVAL), ("{root}/data/prepared.json is damaged",)),
    *(
        Case(
            f"prepared.json without {key}",
            after(lambda p, k=key: drop(p.data / "prepared.json", k), EVAL),
            ("{root}/data/prepared.json",),
        )
        for key in ("splits", "graph_fingerprint")
    ),
    Case(
        "questions.jsonl missing",
        after(lambda p: (p.data / "questions.jsonl").unlink(), EVAL),
        ("{root}/data/questions.jsonl", "again"),
    ),
    Case("questions.jsonl cut", after(lambda p: cut(p.data / "questions.jsonl"), EVAL), ("{root}/data/questions.jsonl", "damaged")),
    Case("questions.jsonl empty", after(lambda p: written(p.data / "questions.jsonl", ""), EVAL), ("{root}/data",)),
    Case("prepared array cut", after(lambda p: cut(p.data / "concepts.npy"), EVAL), ("{root}/data/concepts.npy is damaged",)),
    Case(
        "prepared array too short",
        after(lambda p: np.save(p.data / "node_ptr.npy", np.arange(3)), EVAL),
        ("{root}/data/node_ptr.npy",),
    ),
    Case(
        "prepared array emptied",
        after(lambda p: np.save(p.data / "concepts.npy", np.zeros(0, dtype=np.int64)), EVAL),
        ("{root}/data/concepts.npy",),
    ),
    Case("run format", after(lambda p: set_format(p.run / "run.json"), ASKED), ("{root}/run/run.json has format 99",)),
    Case("run.json cut", after(lambda p: cut(p.run / "run.json"), ASKED), ("{root}/run/run.json is damaged",)),
    *(
        Case(f"run.json without {key}", after(lambda p, k=key: drop(p.run / "run.json", k), ASKED), ("{root}/run/run.json",))
        for key in ("config", "graph", "text_weights", "data")
    ),
    Case("eval: run.json without data", after(lambda p: drop(p.run / "run.json", "data"), EVAL), ("{root}/run/run.json",)),
    Case(
        "weights missing",
        after(lambda p: (p.run / "model.safetensors").unlink(), ASKED),
        ("{root}/run/model.safetensors is missing",),
    ),
    Case("weights cut", after(lambda p: cut(p.run / "model.safetensors"), ASKED), ("{root}/run/model.safetensors is damaged",)),
    Case(
        "weights empty",
        after(lambda p: written(p.run / "model.safetensors", ""), ASKED),
        ("{root}/run/model.safetensors is damaged",),
    ),
    Case(
        "weights of other settings",
        after(lambda p: edit_json(p.run / "run.json", lambda about: about["config"]["mhgrn"].update(hidden_dim=8)), ASKED),
        ("{root}/run/model.safetensors does not fit its settings",),
    ),
    Case(
        "feature cache cut",
        after(lambda p: [cut(f) for f in (p.graph / "features").iterdir()], ASKED),
        ("{root}/graph/features", "delete it"),
    ),
    Case(
        "text cache cut", after(lambda p: [cut(f) for f in (p.data / "cache").iterdir()], EVAL), ("{root}/data/cache", "delete it")
    ),
    Case("graph moved", after(lambda p: p.graph.rename(p.root / "moved"), ASKED), ("{root}/graph, which does not exist", "--kg")),
    Case(
        "graph moved: train",
        after(lambda p: p.graph.rename(p.root / "moved"), train),
        ("was at {root}/graph, which does not exist", "--kg"),
    ),
    Case("graph changed", after(changed_graph, ASKED), ("{root}/graph has changed since", "train again")),
    Case("graph changed: train", after(changed_graph, train), ("prepared from another graph", "prepare the questions again")),
    Case("data moved", after(lambda p: p.data.rename(p.root / "moved"), EVAL), ("{root}/data, which does not exist", "--data")),
]

QUESTION_CASES = [
    Case(
        "training questions whose answers are called otherwise",
        lambda p: (
            written(p.questions / "train.jsonl", question().replace("answerKey", "answer_key")),
            ["prepare", p.questions, "--kg", p.graph, "-o", p.data, "--force"],
        )[1],
        ("no training question", "answerKey or answer"),
    ),
    Case(
        "missing questions",
        lambda p: ["prepare", p.root / "no", "--kg", p.graph, "-o", p.data, "--force"],
        ("{root}/no does not exist",),
    ),
    Case(
        "folder without splits",
        lambda p: ["prepare", p.graph, "--kg", p.graph, "-o", p.data, "--force"],
        ("{root}/graph contains no train*, dev* or test* file",),
    ),
    Case("no question", lambda p: prepare(p, "\n\n"), ("{root}/asked.jsonl contains no questions",)),
    Case("predict no question", lambda p: predict(p, ""), ("{root}/asked.jsonl contains no questions",)),
    Case("not JSON", lambda p: prepare(p, question() + "{'id': 1}\n"), ("{root}/asked.jsonl:2: not JSON", "column 2")),
    Case("predict not JSON", lambda p: predict(p, question() + "\n{\n"), ("{root}/asked.jsonl:3: not JSON",)),
    Case("a list", lambda p: prepare(p, "[1]\n"), ("{root}/asked.jsonl:1: not a JSON object",)),
    Case("choices not a list", lambda p: prepare(p, question(choices="oven")), ("{root}/asked.jsonl:1:", "at least two choices")),
    Case(
        "choices without text",
        lambda p: prepare(p, question(choices=[{"a": 1}])),
        ("{root}/asked.jsonl:1:", "have no field 'text'"),
    ),
    Case("empty stem", lambda p: prepare(p, question(stem=" ")), ("{root}/asked.jsonl:1: the question is empty",)),
    Case("one choice", lambda p: prepare(p, question(choices=("oven",))), ("{root}/asked.jsonl:1:", "at least two choices")),
    Case("no choice", lambda p: prepare(p, question(choices=())), ("{root}/asked.jsonl:1:", "at least two choices")),
    Case("empty choice", lambda p: prepare(p, question(choices=("oven", ""))), ("{root}/asked.jsonl:1: choice 2 is empty",)),
    Case("choice a number", lambda p: prepare(p, question(choices=("oven", 5))), ("{root}/asked.jsonl:1: choice 2 is", "text")),
    Case("answer key", lambda p: prepare(p, question(key="E")), ("{root}/asked.jsonl:1: the answerKey 'E' is none of", "A, B")),
    Case("the same id", lambda p: prepare(p, question() * 2), ("{root}/asked.jsonl:2: the id '1' is already used in line 1",)),
    Case("not UTF-8", lambda p: prepare(p, question().encode() + b"\xff\n"), ("{root}/asked.jsonl:", "not UTF-8")),
    Case("way to build", lambda p: [*prepare(p, question()), "--statement", "apend"], ("'apend'", "Did you mean append?")),
    Case("prepare: output is a file", lambda p: [*prepare(p, question())[:-1], written(p.root / "f", "")], ("{root}/f is a file",)),
    Case("prepare: output is a graph", lambda p: [*prepare(p, question())[:-1], p.graph], ("{root}/graph", "name another folder")),
    Case(
        "two files for a split",
        lambda p: (
            written(p.questions / "train2.jsonl", question()),
            ["prepare", p.questions, "--kg", p.graph, "-o", p.data, "--force"],
        )[1],
        ("2 files for train", "train.jsonl, train2.jsonl", "keep one"),
    ),
    Case(
        "in-house ids unknown",
        lambda p: (
            written(p.questions / "inhouse_split_qids.txt", "nobody\n"),
            ["prepare", p.questions, "--kg", p.graph, "-o", p.data, "--force"],
        )[1],
        ("{root}/questions/inhouse_split_qids.txt", "nobody"),
    ),
    Case("ask: empty question", lambda p: ["ask", p.run, " ", "-c", "a", "-c", "b"], ("the question is empty",)),
    Case("ask: no choice", lambda p: ["ask", p.run, "Where?"], ("names no concept of the graph",)),
    Case("ask: one choice", lambda p: ["ask", p.run, "Where?", "-c", "a"], ("at least two choices, this one has 1",)),
    Case("ask: empty choice", lambda p: ["ask", p.run, "Where?", "-c", "a", "-c", " "], ("choice 2 is empty",)),
    Case("ask: a choice twice", lambda p: ["ask", p.run, "Where?", "-c", "a", "-c", "a"], ("'a' is given twice",)),
    Case("ask: a choice twice but for spaces", lambda p: ["ask", p.run, "Where?", "-c", "a", "-c", "a "], ("'a", "is given twice")),
    Case("ask: no path", lambda p: ["ask", p.run, *ASK, "--paths", "0"], ("--paths",)),
    Case("ask: attention as text", lambda p: ["ask", p.run, *ASK, "--attention"], ("--attention is printed as JSON only",)),
    Case("ask: no such run", lambda p: ["ask", p.root / "no", *ASK], ("{root}/no does not exist",)),
    Case("ask: not a run", lambda p: ["ask", p.graph, *ASK], ("{root}/graph is not a run", "run.json")),
    Case(
        "ask: graph of another schema",
        lambda p: ["ask", p.run, *ASK, "--kg", other_schema(p)],
        ("{root}/other has other relations",),
    ),
    Case("predict: output is a folder", lambda p: [*predict(p, question())[:-1], p.questions], ("{root}/questions is a folder",)),
    Case(
        "predict: output lies below a file",
        lambda p: [*predict(p, question())[:-1], written(p.root / "f", "mine") / "answers.jsonl"],
        ("{root}/f",),
    ),
    Case("predict: output is the input", lambda p: [*predict(p, question())[:-1], p.root / "asked.jsonl"], ("{root}/asked.jsonl",)),
    Case(
        "eval: no such split",
        lambda p: ["eval", p.run, "--split", "tset"],
        ("{root}/data has no split 'tset'. Did you mean test?",),
    ),
    Case("eval: not data", lambda p: ["eval", p.run, "--data", p.graph], ("{root}/graph is not a prepared dataset",)),
    Case(
        "eval: another graph",
        lambda p: ["eval", p.run, "--kg", (changed := p.root / "g2", shuffled(p, changed))[0]],
        ("another graph",),
    ),
    Case("eval: empty split", after(lambda p: empty_split(p, "test"), EVAL), ("test", "empty")),
    Case("eval: no answers", after(lambda p: no_answers(p, "test"), EVAL), ("test", "without an answer")),
]


def shuffled(p: Project, folder: Path) -> None:
    KnowledgeGraph.load(p.graph).with_shuffled_relations(1).save(folder)


FORCED: Callable[..., list[object]] = lambda p, *more: ["train", "--data", p.data, "-o", p.run, "--force", *more]  # noqa: E731

TRAIN_CASES = [
    Case("no such setting", lambda p: train(p, "--set", "mhgrn.hop=3"), ("unknown setting mhgrn.hop. Did you mean hops?",)),
    Case("no such section", lambda p: train(p, "--set", "mhgrm.hops=3"), ("unknown setting mhgrm. Did you mean mhgrn?",)),
    Case("setting without value", lambda p: train(p, "--set", "mhgrn.hops"), ("--set mhgrn.hops", "key=value")),
    Case("wrong value", lambda p: train(p, "--set", "mhgrn.hops=two"), ("setting mhgrn.hops", "not 'two'")),
    Case("config missing", lambda p: train(p, "--config", p.root / "no.yaml"), ("{root}/no.yaml does not exist",)),
    Case("data missing", lambda p: ["train", "--data", p.root / "no", "-o", p.root / "new"], ("{root}/no does not exist",)),
    Case("run is there", lambda p: ["train", "--data", p.data, "-o", p.run], ("{root}/run contains a trained run", "--force")),
    Case("output is a file", lambda p: [*train(p)[:-1], written(p.root / "f", "mine")], ("{root}/f is a file",)),
    Case("output is not ours", lambda p: [*train(p)[:-1], p.questions], ("{root}/questions", "name another folder")),
    Case(
        "no such encoder",
        lambda p: train(p, "--set", "text.encoder=no/such"),
        ("text encoder 'no/such' cannot be loaded", "--allow-download", "use minilm"),
    ),
    Case(
        "encoder is a folder without a model",
        lambda p: train(p, "--set", f"text.encoder={p.questions}"),
        ("{root}/questions", "Use minilm"),
    ),
    Case(
        "encoder with damaged weights",
        lambda p: train(p, "--set", f"text.encoder={encoder_copy(p, 'model.safetensors')}"),
        ("{root}/encoder", "cannot be loaded"),
    ),
    Case(
        "encoder with a damaged tokenizer",
        lambda p: train(p, "--set", f"text.encoder={encoder_copy(p, 'tokenizer.json')}"),
        ("{root}/encoder", "cannot be loaded"),
    ),
    Case(
        "encoder with damaged settings",
        lambda p: train(p, "--set", f"text.encoder={encoder_copy(p, 'config.json')}"),
        ("{root}/encoder", "cannot be loaded"),
    ),
    Case("no such features", lambda p: train(p, "--set", "features=nams"), ("nams does not exist", "names")),
    Case(
        "features of the wrong length",
        lambda p: train(p, "--set", f"features={features(p, rows=2)}"),
        ("{root}/features.npy has", "rows"),
    ),
    Case(
        "features of another name",
        lambda p: train(p, "--set", f"features={features(p, name='zxqv')}"),
        ("{root}/features.txt:5: 'zxqv'",),
    ),
    Case(
        "features without names",
        lambda p: train(p, "--set", f"features={features_without_names(p)}"),
        ("{root}/features.txt is missing",),
    ),
    Case(
        "features of ints",
        lambda p: train(p, "--set", f"features={features_of_ints(p)}"),
        ("{root}/features.npy", "expected floats"),
    ),
    Case("features in an archive", lambda p: train(p, "--set", f"features={features_archive(p)}"), ("{root}/features.npz",)),
    Case(
        "damaged features",
        lambda p: train(p, "--set", f"features={(f := features(p), cut(f))[0]}"),
        ("{root}/features.npy is damaged",),
    ),
    Case(
        "features named in another encoding",
        lambda p: train(p, "--set", f"features={(f := features(p), written(f.with_suffix('.txt'), b'caf' + bytes([0xE9])))[0]}"),
        ("{root}/features.txt", "UTF-8"),
    ),
    Case(
        "asked with other features",
        lambda p: ["ask", p.run, *ASK, "--features", features(p)],
        ("features of width 384, but these have 8",),
    ),
    Case(
        "a training question without answer", after(lambda p: no_answers(p, "train", every=False), train), ("{root}/data", "answer")
    ),
    Case("dev set without answers", after(lambda p: no_answers(p, "dev"), train), ("dev", "without an answer")),
    Case("dev set empty", after(lambda p: empty_split(p, "dev"), train), ("dev", "empty")),
    Case("dev set missing", after(lambda p: ((p.questions / "dev.jsonl").unlink(), prepare_again(p)), train), ("no split 'dev'",)),
    Case("forced: no such encoder", lambda p: FORCED(p, "--set", "text.encoder=no/such"), ("text encoder 'no/such'",)),
    Case("forced: no such features", lambda p: FORCED(p, "--set", "features=nams"), ("nams does not exist",)),
    Case("forced: no dev", after(lambda p: ((p.questions / "dev.jsonl").unlink(), prepare_again(p)), FORCED), ("no split 'dev'",)),
    Case("forced: dev without answers", after(lambda p: no_answers(p, "dev"), FORCED), ("dev", "without an answer")),
]


def table(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def check(case: Case, own: Project, refused: Refused) -> None:
    args = [str(arg) for arg in case.make(own)]
    refused(args, [part.format(root=own.root) for part in case.says], case.lines)


@table(KG_CASES)
def test_triples_and_graphs(case: Case, own: Project, refused: Refused) -> None:
    check(case, own, refused)


@table(DAMAGE_CASES)
def test_damaged_moved_and_changed_folders(case: Case, own: Project, refused: Refused) -> None:
    check(case, own, refused)


@table(QUESTION_CASES)
def test_questions_and_answers(case: Case, own: Project, refused: Refused) -> None:
    check(case, own, refused)


@table(TRAIN_CASES)
def test_training(case: Case, own: Project, refused: Refused) -> None:
    check(case, own, refused)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["trian"], ["trian", "train"]),
        (["kg", "biuld"], ["biuld", "build"]),
        (["train", "--dta", "x"], ["--dta", "--data"]),
        (["train", "--data", "x"], ["--output"]),
        (["kg", "build", "-o", "x"], ["triples"]),
        (["kg", "build", "x", "-o", "y", "--max-bad", "2"], ["--max-bad"]),
        (["kg", "show", "x", "y", "--limit", "0"], ["--limit"]),
        (["prepare", "x", "--kg", "y", "-o", "z", "--workers", "two"], ["--workers"]),
    ],
    ids=" ".join,
)
def test_misspelt_commands_and_options(
    args: list[str], says: list[str], here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = here(*args)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err
    for part in says:
        assert part in outcome.err
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_neither_file_nor_folder_is_left_alone(tmp_path: Path, refused: Refused) -> None:
    odd = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(odd))  # the whole path may be longer than a socket's name can be
    refused(["kg", "build", str(written(tmp_path / "facts.tsv", TRIPLES)), "-o", str(odd)], [str(odd)])


def test_a_demo_is_refused_before_its_work(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        pytest.fail("the work began before the outputs were looked at")

    monkeypatch.setattr("mhgrn.starter.demo.Starter.build", work)
    file = written(tmp_path / "f", "mine")
    refused(["demo", "-o", str(file)], [str(file), "folder"])
    refused(["demo", "-o", str(tmp_path / "new"), "--json", str(tmp_path)], [str(tmp_path), "is a folder"])


@pytest.mark.parametrize(
    "args",
    [
        ["kg", "stats", "nowhere"],
        ["kg", "build", "facts.tsv", "-o", "facts.tsv"],
        ["prepare", "facts.tsv", "--kg", "nowhere", "-o", "new"],
        ["ask", "nowhere", "Where?", "-c", "a"],
        ["train", "--data", "nowhere", "-o", "new", "--set", "sed=1"],
    ],
    ids=" ".join,
)
def test_a_process_refuses_alike(args: list[str], tmp_path: Path) -> None:
    written(tmp_path / "facts.tsv", TRIPLES)
    before = contents(tmp_path)
    outcome = in_a_process(*args, cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("mhgrn: ")
    assert outcome.err.count("\n") == 1
    assert contents(tmp_path) == before


def test_undecodable_bytes_are_reported_and_unprintable_characters_replaced(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.tsv")
    written(tmp_path / odd, TRIPLES)
    assert in_a_process("kg", "build", odd, "-o", "graph", cwd=tmp_path).code == 0  # a file may be called anything
    outcome = in_a_process("kg", "show", "graph", os.fsdecode(b"caf\xe9"), cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("mhgrn: ")
    assert outcome.err.count("\n") == 1
    shown = subprocess.run(
        [COMMAND, "kg", "show", "graph", TRIPLES.split()[0]],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert b" ?" in shown.stdout
