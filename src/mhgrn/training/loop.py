"""Training: cross-entropy over the choices of a question, with separate learning rates for text and graph."""

import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from mhgrn.config import Config
from mhgrn.data.batch import GraphBatch
from mhgrn.data.prepared import PreparedData, edges_between
from mhgrn.encoders.text import SentenceVectors, TextEncoder, TokenStates
from mhgrn.errors import UserError
from mhgrn.features import NameFeatures
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import Scores
from mhgrn.nn.segments import segment_softmax
from mhgrn.progress import say, track
from mhgrn.storage import begin_folder, check_replaceable, fingerprint, take_place, write_json, write_text
from mhgrn.training.run import MARKER, Run, build_model, describe, features_for, parameter_count, read_about

EVAL_BATCH = 32  # questions


@dataclass(frozen=True)
class Batch:
    """Some questions as tensors."""

    graph: GraphBatch
    statements: Tensor  # [G] statement numbers
    question: Tensor  # [G] which question of the batch a statement belongs to
    first: Tensor  # [B] the first statement of each question within the batch
    answer: Tensor  # [B] the right statement within the batch, -1 where unknown


class Examples:
    """A prepared data set with everything its batches need."""

    def __init__(self, data: PreparedData, run: Run) -> None:
        self.data, self.run = data, run
        self._said_cut = False
        if isinstance(run.features, NameFeatures):
            run.features.require_and_keep(data.used)
        run.features.require(data.used)

    @cached_property
    def vectors(self) -> SentenceVectors:
        """The frozen encoder's vectors, computed once and kept beside the data."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        cache = self.data.folder / "cache" / f"text-{key}.safetensors"
        return SentenceVectors.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), cache)

    @cached_property
    def tokens(self) -> TokenStates:
        """The frozen encoder's token states, computed once and kept beside the data."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        folder = self.data.folder / "cache" / f"tokens-{key}"
        return TokenStates.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), folder)

    def pairs(self, statements: Sequence[int]) -> list[tuple[str, str]]:
        """(stem, choice) of statements."""
        owner = np.searchsorted(self.data.statement_ptr, statements, side="right") - 1
        first = self.data.statement_ptr[owner]
        return [
            (self.data.questions[q].stem, self.data.questions[q].choices[s - f])
            for s, q, f in zip(statements, owner.tolist(), first.tolist(), strict=True)
        ]

    def batch(self, questions: Sequence[int]) -> Batch:
        ptr = self.data.statement_ptr
        subgraphs = [s for q in questions for s in self.data.subgraphs(q)]
        counts = torch.tensor([int(ptr[q + 1] - ptr[q]) for q in questions])
        first = counts.cumsum(0) - counts
        known = [self.data.questions[q].answer for q in questions]
        return Batch(
            graph=GraphBatch.collate(subgraphs, len(self.run.graph.schema), self.run.model.graph_encoder.reach),
            statements=torch.cat([torch.arange(int(ptr[q]), int(ptr[q + 1])) for q in questions]),
            question=torch.repeat_interleave(torch.arange(len(questions)), counts),
            first=first,
            answer=torch.tensor([int(f) + a if a is not None else -1 for f, a in zip(first, known, strict=True)]),
        )

    def scores(self, batch: Batch, live_text: bool) -> Tensor:
        """[G]; the text encoder runs only if it is being, or has been, trained."""
        graph_encoder, tokens = self.run.model.graph_encoder, None
        if not graph_encoder.uses_text:
            s = torch.zeros(batch.graph.graph_count, 0)
        elif live_text:
            texts = zip(*self.pairs(batch.statements.tolist()), strict=True)
            if graph_encoder.uses_tokens:
                s, tokens = self.run.encoder.read(*texts)
            else:
                s = self.run.encoder.sentences(*texts)
        else:
            s = self.vectors(batch.statements)
            tokens = self.tokens(batch.statements) if graph_encoder.uses_tokens else None
        features = self.run.features.rows(batch.graph.concepts)
        score, encoding = cast(Scores, self.run.model(s, features, batch.graph, tokens))
        if encoding.cut is not None:
            self._say_what_is_cut(encoding.cut)
        return score

    def _say_what_is_cut(self, cut: Tensor) -> None:
        """Once."""
        if not self._said_cut and cut.any():
            self._said_cut = True
            say(
                f"{int((cut > 0).sum())} of {len(cut)} statements have more to read than"
                f" {self.run.model.graph_encoder.limit_setting} allows: {int(cut.sum()):,} left out. There may be others like them."
            )


def question_loss(score: Tensor, batch: Batch) -> Tensor:
    """Σ over questions of −log softmax of the right choice."""
    _, log_total = segment_softmax(score, batch.question, len(batch.first))
    return (log_total - score[batch.answer]).sum()


def accuracy(examples: Examples, split: str, live_text: bool) -> float:
    """The share of a split's questions whose right choice scores highest."""
    questions = list(examples.data.answered_split(split))
    examples.run.model.eval()
    examples.run.encoder.eval()
    right = 0
    with torch.inference_mode():
        for start in range(0, len(questions), EVAL_BATCH):
            batch = examples.batch(questions[start : start + EVAL_BATCH])
            score = examples.scores(batch, live_text)
            top = score.new_full((len(batch.first),), -torch.inf).scatter_reduce(0, batch.question, score, "amax")
            # a tie goes to the first choice
            best = (score == top[batch.question]).nonzero()[:, 0]
            chosen = torch.full_like(batch.first, len(score)).scatter_reduce(0, batch.question[best], best, "amin")
            right += int((chosen == batch.answer).sum())
    return right / len(questions)


def most_edges_accuracy(data: PreparedData, split: str) -> float:
    """A baseline without training: the choice whose concepts have most edges to the question's; t tied choices count 1/t."""
    total = 0.0
    for q in data.answered_split(split):
        counts = [edges_between(subgraph) for subgraph in data.subgraphs(q)]
        best = [c for c, count in enumerate(counts) if count == max(counts)]
        total += (data.questions[q].answer in best) / len(best)
    return total / len(data.split(split))


def set_seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _groups(run: Run, config: Config) -> list[dict[str, Any]]:
    """Parameter groups: no weight decay on biases and norms, another learning rate for the text encoder."""
    groups: list[dict[str, Any]] = []
    for module, rate in ((run.model, config.training.learning_rate), (run.encoder, config.text.learning_rate)):
        plain: list[nn.Parameter] = []
        decayed: list[nn.Parameter] = []
        for name, parameter in module.named_parameters():
            is_plain = name.endswith("bias") or "norm" in name.lower() or (parameter.dim() == 1)
            (plain if is_plain else decayed).append(parameter)
        groups += [
            {"params": decayed, "lr": rate, "weight_decay": config.training.weight_decay},
            {"params": plain, "lr": rate, "weight_decay": 0.0},
        ]
    return groups


def train(data: PreparedData, config: Config, folder: str | Path, graph: KnowledgeGraph | None = None, force: bool = False) -> Run:
    """Train a model on ``data`` and leave the best epoch's in ``folder``. Ctrl-C ends training and keeps the best so far."""
    folder = check_replaceable(Path(folder), MARKER)
    if (folder / MARKER).is_file() and not force:
        raise UserError(f"{folder} holds a trained run; name another folder, or replace it with --force.")
    for split in ("train", "dev"):
        data.answered_split(split)
    graph = graph or data.load_graph()
    set_seed(config.seed)
    encoder = TextEncoder(config.text)
    trains_text = config.text.frozen_epochs is not None
    features = features_for(config, graph, TextEncoder(config.text) if trains_text else encoder)
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    source = {"folder": str(data.folder.absolute()), "fingerprint": data.fingerprint, **data.about["settings"]}
    run = Run(folder, describe(config, graph, encoder, features, source), config, graph, encoder, features, model)
    partial = run.folder = begin_folder(folder, MARKER)
    try:
        write_text(partial / "config.yaml", config.to_yaml())
        examples = Examples(data, run)
        if model.graph_encoder.uses_text and config.text.frozen_epochs != 0:
            # encoded with all threads, before training takes its share of them
            _ = examples.vectors
            _ = examples.tokens if model.graph_encoder.uses_tokens else None
        with _threads(config.training.threads):
            (_fit if parameter_count(model) else _keep)(examples, run, folder)
        write_json(folder / MARKER, read_about(folder) | {"finished": True})
    except KeyboardInterrupt:
        if run.folder != folder:  # nothing to keep yet
            raise
        say(f"interrupted; {folder} keeps the best model so far.")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Run.load(folder, graph.folder)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep(examples: Examples, run: Run, folder: Path) -> None:
    """A model without parameters has nothing to train: it is evaluated and kept."""
    row = {"epoch": 0, "dev_accuracy": accuracy(examples, "dev", live_text=False)}
    write_text(run.folder / "metrics.jsonl", json.dumps(row) + "\n")
    run.save(row, text_changed=False)
    take_place(run.folder, folder)
    run.folder = folder
    say(f"nothing to train; dev {row['dev_accuracy']:.1%}")


def _fit(examples: Examples, run: Run, folder: Path) -> None:
    """Train, and keep the best epoch: the run takes its place in ``folder`` once there is a model to keep."""
    config, settings = run.config, run.config.training
    thaw = config.text.frozen_epochs
    run.encoder.requires_grad_(thaw == 0)
    parameters = [*run.model.parameters(), *run.encoder.parameters()]
    optimiser = torch.optim.RAdam(_groups(run, config), decoupled_weight_decay=True)
    order = np.array(examples.data.split("train"))
    shuffler = np.random.default_rng(config.seed)
    best: dict[str, Any] = {"dev_accuracy": -1.0}
    rows = ""
    for epoch in range(settings.epochs):
        began = time.monotonic()
        live_text = thaw is not None and epoch >= thaw
        if live_text:
            run.encoder.requires_grad_(True)
        run.model.train()
        run.encoder.train(live_text)
        total = 0.0
        shuffled = shuffler.permutation(order)
        starts = range(0, len(order), settings.batch_size)
        for start in track(starts, f"epoch {epoch + 1} of at most {settings.epochs}"):
            questions = shuffled[start : start + settings.batch_size]
            optimiser.zero_grad(set_to_none=True)
            size = settings.micro_batch or len(questions)
            for micro in range(0, len(questions), size):
                batch = examples.batch(questions[micro : micro + size].tolist())
                loss = question_loss(examples.scores(batch, live_text), batch) / len(questions)
                loss.backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach()) * len(questions)
            clip_grad_norm_(parameters, settings.clip)
            optimiser.step()
        row = {
            "epoch": epoch + 1,
            "loss": total / len(order),
            "dev_accuracy": accuracy(examples, "dev", live_text),
            "seconds": round(time.monotonic() - began, 2),
        }
        rows += json.dumps(row) + "\n"
        write_text(run.folder / "metrics.jsonl", rows)
        if not np.isfinite(row["loss"]):
            raise UserError(f"the loss is {row['loss']} in epoch {epoch + 1}: try a smaller training.learning_rate.")
        if row["dev_accuracy"] >= best["dev_accuracy"]:
            improved = row["dev_accuracy"] > best["dev_accuracy"]
            best = row | {"last_better": epoch if improved else best["last_better"]}
            run.save({k: v for k, v in row.items() if k != "seconds"}, text_changed=live_text)
            if run.folder != folder:
                take_place(run.folder, folder)
                run.folder = folder
        say(f"epoch {row['epoch']:>3}  loss {row['loss']:.4f}  dev {row['dev_accuracy']:.1%}  best {best['dev_accuracy']:.1%}")
        if epoch - best["last_better"] >= settings.patience and epoch >= (thaw or 0):
            break


def evaluate(run: Run, data: PreparedData, split: str) -> dict[str, Any]:
    """Accuracy of a run on a split, beside the baseline that needs no training."""
    require_same_graph(run, data)
    tuned = run.config.text.frozen_epochs is not None
    return {
        "split": split,
        "questions": len(data.split(split)),
        "accuracy": accuracy(Examples(data, run), split, live_text=tuned),
        "most_edges": most_edges_accuracy(data, split),
    }


def require_same_graph(run: Run, data: PreparedData) -> None:
    """Refuse data whose subgraphs come from another graph than the run's."""
    if data.about["graph_fingerprint"] != run.graph.fingerprint:
        raise UserError(f"{data.folder} was prepared from another graph than the run uses; prepare the questions again.")
