"""Small valid folders of every kind that mhgrn writes, and for each kind a use that reads all of it.

A use returns plain JSON values. Two folders with equal content give equal values, so an attack on a folder can be judged by them.
"""

import io
import json
import math
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.features import BuiltFeatures
from mhgrn.features.sources.triples import TripleSource
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.paths import find_paths
from mhgrn.kg.statistics import Statistics
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.subgraphs.report import report
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.training.evaluation import evaluate, split_probabilities
from mhgrn.training.examples import Examples, question_losses
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder

FACTS = """\
child	AtLocation	school	2
child	AtLocation	classroom	1
desk	AtLocation	classroom	2
desk	IsA	furniture	1
classroom	PartOf	school	3
teacher	AtLocation	school	1
teacher	CapableOf	teach child	1
fish	AtLocation	sea	2
fish	IsA	animal	1
shark	IsA	fish	1
sea	HasA	water	1
boat	AtLocation	sea	1
patio	PartOf	house	1
furniture store	Sells	desk	1
animal	RelatedTo	child	0.5
"""
QUESTIONS = {
    "train": [
        ("Where would a child sit at a desk?", ["classroom", "sea", "patio"], "A"),
        ("Where does a fish live?", ["house", "sea", "school"], "B"),
        ("What has a lot of water?", ["desk", "furniture", "sea"], "C"),
        ("Who is at school?", ["teacher", "shark", "boat"], "A"),
    ],
    "dev": [("Where do you find a shark?", ["sea", "classroom", "house"], "A"), ("Where is a boat?", ["desk", "sea"], "B")],
}
ASKED = [
    ("Where would a child sit at a desk?", ["classroom", "sea", "patio"]),
    ("Who teaches children in a classroom?", ["teacher", "shark", "furniture store"]),
]


@dataclass(frozen=True)
class Folders:
    """The folders, below one root. They refer to each other by absolute paths."""

    root: Path

    @property
    def graph(self) -> Path:
        return self.root / "graph"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def features(self) -> Path:
        return self.root / "features"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @classmethod
    def make(cls, root: Path) -> "Folders":
        """Build every folder with the functions that users call."""
        folders = cls(root)
        (root / "facts.tsv").write_text(FACTS, encoding="utf-8")
        graph, _ = build([root / "facts.tsv"], options=ImportOptions(weights=True))
        graph.save(folders.graph)
        graph = KnowledgeGraph.load(folders.graph)
        ConceptIndex.of(graph)
        (root / "questions").mkdir()
        for split, questions in QUESTIONS.items():
            rows = ({"question": stem, "choices": choices, "answer": answer} for stem, choices, answer in questions)
            (root / "questions" / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        data = prepare(root / "questions", graph, folders.data, PrepareOptions(workers=1))
        config = Config.of(
            {
                "features": str(folders.features),
                "text": {"encoder": str(letter_encoder(root / "encoder"))},
                "mhgrn": {"hops": 2, "hidden_dim": 8},
                "training": {"epochs": 1, "batch_size": 1, "threads": 1, "learning_rate": 0.1},
            }
        )
        TripleSource(graph, encoder=load_text_encoder(config.text)).build(folders.features)
        with redirect_stderr(io.StringIO()):
            train(data, config, folders.run, graph)
        return folders


def read_graph(graph: Path, folders: Folders) -> Any:
    """Every name, fact, weight and statistic of a graph, paths, grounded texts, and answers with it."""
    loaded = KnowledgeGraph.load(graph)
    names = list(loaded.names)
    grounder = Grounder(loaded)
    texts = [question for question, _ in ASKED]
    answerer = QuestionAnswerer(Run.load(folders.run, kg=graph))
    return {
        "names": names,
        "numbers": [loaded.find(name) for name in names],
        "facts": [loaded.facts_of(name) for name in names],
        "weights": None if loaded.weight is None else _plain(loaded.weight),
        "statistics": asdict(Statistics.of(loaded)),
        "paths": [find_paths(loaded, source, target).to_dict() for source, target in (("child", "sea"), ("desk", "school"))],
        "mentions": _plain(grounder.mentioned(texts, [choices[0] for _, choices in ASKED], [1] * len(texts))),
        "with more facts": loaded.with_facts([("whale", "IsA", "animal")]).facts_of("animal"),
        "answers": _answers(answerer),
    }


def read_data(data: Path, folders: Folders) -> Any:
    """Every question and subgraph, a report, the probabilities of a run, and the gradient of one step of training."""
    loaded = PreparedData.load(data)
    run = Run.load(folders.run)
    subgraphs = [loaded.subgraph(statement) for statement in range(int(loaded.statement_ptr[-1]))]
    batch = GraphBatch.collate(subgraphs, len(run.graph.schema))
    examples = Examples(loaded, run)
    probabilities = {split: split_probabilities(examples, split) for split in loaded.splits}
    run.model.train()
    torch.manual_seed(0)
    step = examples.batch(list(loaded.answered_split("train")))
    question_losses(examples.scores(step, live_text=False), step).sum().backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad.double().sum().item() for p in run.model.parameters() if p.grad is not None]
    return {
        "questions": [asdict(question) for question in loaded.questions],
        "splits": {split: list(numbers) for split, numbers in loaded.splits.items()},
        "subgraphs": [[_plain(getattr(s, name)) for name in ("concepts", "types", "head", "relation", "tail")] for s in subgraphs],
        "cut": _plain(loaded.cut),
        "used": _plain(loaded.used),
        "batch": _plain(batch.concepts.numpy()),
        "report": report(loaded, 2, folders.graph).to_dict(),
        "evaluation": evaluate(run, loaded, "dev"),
        "probabilities": probabilities,
        "gradients": gradients,
    }


def read_features(features: Path, folders: Folders) -> Any:
    """The vector of every concept and of a new one, and answers with them."""
    graph = KnowledgeGraph.load(folders.graph)
    answerer = QuestionAnswerer(Run.load(folders.run, features=str(features)))
    opened = BuiltFeatures(graph, features, answerer.run.encoder)
    return {
        "rows": _plain(opened.rows(torch.arange(len(graph))).numpy()),
        "new": _plain(opened.of_names(["red_desk", "whale"]).numpy()),
        "answers": _answers(answerer),
    }


def read_run(run: Path, folders: Folders) -> Any:
    """Answers and probabilities of a run."""
    loaded = Run.load(run)
    data = PreparedData.load(folders.data)
    answers = _answers(QuestionAnswerer(loaded))
    return {"answers": answers, "evaluation": evaluate(loaded, data, "dev"), "of data": _of_data(loaded, data)}


def _of_data(run: Run, data: PreparedData) -> Any:
    return split_probabilities(Examples(data, run), "train")


def read_encoder(encoder: Path, folders: Folders) -> Any:
    """The vectors of texts and of pairs of texts."""
    loaded = load_text_encoder(TextEncoderSettings(encoder=str(encoder)))
    stems, choices = zip(*((question, choice) for question, choices in ASKED for choice in choices), strict=True)
    with torch.inference_mode():
        return {"texts": _plain(loaded.embed(stems).numpy()), "pairs": _plain(loaded.sentences(stems, choices).numpy())}


def _answers(answerer: QuestionAnswerer) -> Any:
    answers = [answerer.ask(question, choices, paths=2).to_dict() for question, choices in ASKED]
    more = answerer.ask("Where does a whale live?", ["sea", "house"], facts=[("whale", "AtLocation", "sea")], effects=False)
    return [*answers, more.to_dict()]


@dataclass(frozen=True)
class Kind:
    """A kind of folder: which folder an attack copies, the part of it that it changes, and the use of the changed copy."""

    folder: str
    part: str
    use: Callable[[Path, Folders], Any]
    is_ours: bool = True  # written by mhgrn, with checksums


KINDS = {
    "graph": Kind("graph", ".", read_graph),
    "index": Kind("graph", "index", read_graph),
    "data": Kind("data", ".", read_data),
    "features": Kind("features", ".", read_features),
    "run": Kind("run", ".", read_run),
    "encoder": Kind("encoder", ".", read_encoder, is_ours=False),
}


def comparable(value: Any) -> Any:
    """A value as JSON has it, with numbers rounded to six digits. A number that is not finite is an error."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FloatingPointError("a result is not a finite number")
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {str(key): comparable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [comparable(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
