"""Tune a text encoder on a graph: questions about facts come near to the names that answer them.

Contrastive learning with in-batch and hard negatives. The encoder learns what the graph says, and keeps what it knew: after the
training, its weights are mixed with those it had.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from mhgrn.errors import UserError
from mhgrn.io.checksums import remove_file, seal
from mhgrn.io.folders import begin_folder, check_replaceable, delete_partial, replace_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import read_marker, write_json
from mhgrn.io.tensors import load_metadata, load_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.progress import bar, say
from mhgrn.questions.question import Question
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.encoders.minilm import MiniLM, model_folder
from mhgrn.text.hugging_face import HuggingFaceEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuning.pairs import FactPairs, PairBatch, PairOptions, connected_by_questions
from mhgrn.text.tuning.tunable import Part, Tunable, describe
from mhgrn.text.zero_shot import cosine_scores

MARKER = "tuning.json"
FORMAT = 1
CHECKPOINT = "checkpoint.safetensors"
SAVE_EVERY = 120  # seconds between checkpoints
MEASURED = 5  # steps whose time decides how many fit into a budget, after one that warms up
GROUPS = 3  # batches of texts of similar length, which need less padding
HELD_OUT_BATCHES, HELD_OUT_SIZE = 4, 128  # questions about facts that are not trained on
PAIR_NEGATIVES = 4  # wrong answers of a question, with pairs
WARM_UP = 0.05  # of all steps
RATES = {"all": 5e-5, "lora": 5e-4, "linear": 1e-3}
LONGEST = 48  # tokens of a question or name


@dataclass(frozen=True)
class TuneOptions:
    """How a text encoder is tuned.

    Args:
        encoder: The text encoder: ``minilm``, another installed one, a folder, or a hub name.
        train: What is trained: ``all`` weights, or an adapter: a ``lora`` or a ``linear`` map of the vectors.
        encoding: ``separate`` (questions and names on their own), ``pair``, or ``auto``, as ``text.encoding``.
        steps: The number of steps. None: as many as fit into ``budget``.
        budget: Seconds. The time of the first steps decides the number of steps, which a resumed tuning keeps.
        batch_size: Questions per step.
        learning_rate: The highest learning rate. None: by what is trained.
        scale: The similarity is multiplied by this before the softmax.
        keep: The share of the untuned weights in the result: 0 is the tuned encoder, 1 the untuned one.
        precision: ``auto`` is bfloat16 on processors that compute with it, otherwise float32.
        pairs: How questions are drawn, with the seed.

    >>> TuneOptions(train="linear").rate
    0.001
    """

    encoder: str = "minilm"
    train: Part = "all"
    encoding: Literal["auto", "separate", "pair"] = "auto"
    steps: int | None = None
    budget: float = 1800.0
    batch_size: int = 192
    learning_rate: float | None = None
    scale: float = 20.0
    keep: float = 0.4
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    pairs: PairOptions = field(default_factory=PairOptions)

    def __post_init__(self) -> None:
        wrong = {
            "steps": self.steps is not None and self.steps < 1,
            "budget": not 0 < self.budget < math.inf,
            "batch_size": self.batch_size < 2,
            "learning_rate": self.learning_rate is not None and not 0 < self.learning_rate < math.inf,
            "scale": not 0 < self.scale < math.inf,
            "keep": not 0 <= self.keep <= 1,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(f"{name} is {getattr(self, name)}, which is not possible.")

    @property
    def rate(self) -> float:
        return self.learning_rate or RATES[self.train]


@dataclass(frozen=True)
class Tuned:
    """A tuned text encoder, and what it achieves before and after.

    ``held_out`` is the share of questions about facts that were not trained on whose answer is the nearest of all names in a batch.
    ``questions`` is the accuracy of the cosine on questions that were given to measure.
    """

    folder: Path
    steps: int
    held_out: tuple[float, float]
    questions: tuple[float, float] | None = None


def tune(
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    options: TuneOptions | None = None,
    without: Sequence[Question] = (),
    measure: Sequence[Question] = (),
    force: bool = False,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> Tuned:
    """Tune a text encoder on the facts of a graph and write it to a folder, which ``text.encoder=FOLDER`` uses.

    An interrupted tuning in ``folder`` is resumed and ends with the same weights. Ctrl-C saves a checkpoint.

    Args:
        graph: The graph, or its folder.
        folder: The folder to write: a model in Hugging Face format, or an adapter.
        options: How to tune.
        without: Facts that connect a concept of one of these questions with a concept of its choices are not used.
        measure: Questions to measure the encoder with, before and after; they are not trained on.
        force: Replace what is in the folder.
        allow_download: Download the text encoder if it is not on this machine.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.

    >>> tune("graph", "encoder", TuneOptions(budget=600))  # doctest: +SKIP
    """
    graph = KnowledgeGraph.load(graph) if isinstance(graph, str | Path) else graph
    options, folder = options or TuneOptions(), check_replaceable(Path(folder), MARKER)
    busy = f"another process is tuning in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy):
        excluded = connected_by_questions(graph, without) if without else None
        pairs = FactPairs(graph, options.pairs, excluded)
        torch.manual_seed(options.pairs.seed)
        tunable = _tunable(options, allow_download, allow_pickle)
        about = {
            "format": FORMAT,
            "options": describe({k: v for k, v in asdict(options).items() if k not in ("steps", "budget")}),
            "graph": graph.fingerprint,
            "facts": len(pairs.facts),
            "left_out": 0 if excluded is None else len(excluded),
            "weights": tunable.encoder.identity()["weights"],
        }
        return _Tuning(tunable, pairs, options, about, folder).run(measure, force)


class _Tuning:
    def __init__(self, tunable: Tunable, pairs: FactPairs, options: TuneOptions, about: dict[str, Any], folder: Path) -> None:
        self.tunable, self.pairs, self.options, self.about, self.folder = tunable, pairs, options, about, folder
        self.encoder = tunable.encoder
        self.optimizer = torch.optim.AdamW(tunable.parameters(), lr=options.rate, weight_decay=0.01)
        self.bfloat16 = options.precision == "bfloat16" or (options.precision == "auto" and _computes_bfloat16())
        self.step = 0
        self.steps = options.steps

    def run(self, measure: Sequence[Question], force: bool) -> Tuned:
        before = self._resume(force)
        if before is None:
            before = {"held_out": self._held_out(), "questions": _accuracy(self.encoder, measure)}
            self.about |= {"before": before, "steps": self.steps, "finished": False}
            partial = begin_folder(self.folder, MARKER)
            try:
                write_json(partial / MARKER, self.about)
                replace_folder(partial, self.folder)
            finally:
                delete_partial(partial)
        try:
            self._train()
        except KeyboardInterrupt:
            self._save()
            say(f"saved after step {self.step}; run the same command without --force to resume.")
            raise
        self.tunable.keep(self.options.keep)
        held_out, questions = self._held_out(), _accuracy(self.encoder, measure)
        self._finish({"held_out": held_out, "questions": questions})
        measured = None if questions is None or before["questions"] is None else (before["questions"], questions)
        return Tuned(self.folder, self.step, (before["held_out"], held_out), measured)

    def _resume(self, force: bool) -> dict[str, Any] | None:
        """Load the checkpoint of an interrupted tuning; return what was measured before it."""
        if force or not (self.folder / MARKER).is_file():
            return None
        stored = read_marker(self.folder, MARKER, "tuned text encoder", FORMAT, ("options", "graph", "finished", "before"))
        if stored["finished"]:
            raise UserError(f"{self.folder} contains a tuned text encoder; name another folder, or replace it with --force.")
        if different := [key for key in self.about if stored.get(key) != self.about[key]]:
            raise UserError(
                f"{self.folder} contains an unfinished tuning with a different {different[0]}. To resume it, use the same options"
                " and graph. Otherwise name another folder, or start over with --force."
            )
        self.about = {key: value for key, value in stored.items() if key != "sealed"}
        self.steps = self.steps or stored.get("steps")
        path = self.folder / CHECKPOINT
        if path.is_file():
            tensors, self.step = load_tensors(path), int(load_metadata(path)["step"])
            self.tunable.load_state(tensors)
            self._load_optimizer(tensors)
            say(f"resuming {self.folder} after step {self.step}.")
        before: dict[str, Any] = stored["before"]
        return before

    def _train(self) -> None:
        began, saved, times = time.monotonic(), time.monotonic(), []
        loss = 0.0
        with bar("tuning the text encoder", self.steps) as advance:
            while self.steps is None or self.step < self.steps:
                started = time.monotonic()
                loss += (self._take_step() - loss) / min(self.step, 50)
                times.append(time.monotonic() - started)
                if self.steps is None and len(times) > MEASURED:
                    self.steps = max(self.step, round(self.options.budget / float(np.median(times[1:]))))
                    self._store_steps()
                    say(f"{self.steps:,} steps of {self.options.batch_size} questions fit into the budget.")
                if self.steps is not None:
                    advance(self.step, f"step {self.step:,} of {self.steps:,}  loss {loss:.3f}")
                    if self.step % max(1, self.steps // 10) == 0:
                        say(f"step {self.step:>6,} of {self.steps:,}  loss {loss:.3f}  {time.monotonic() - began:.0f} s")
                if time.monotonic() - saved > SAVE_EVERY:
                    self._save()
                    saved = time.monotonic()

    def _take_step(self) -> float:
        """One step; the first steps of a tuning whose number of steps is not known yet all have the smallest rate."""
        batch = self.pairs.batch(self.step, self.options.batch_size)
        torch.manual_seed(self.step)
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate * self._rate_factor()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            loss = self._pair_loss(batch) if self.tunable.head is not None else self._contrast(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(self.tunable.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        value = float(loss.detach())
        if not math.isfinite(value):
            raise UserError(f"the loss is not finite after step {self.step}; use a smaller --learning-rate.")
        return value

    def _rate_factor(self) -> float:
        if self.steps is None:
            return 0.05
        warm_up = max(1.0, WARM_UP * self.steps)
        return min((self.step + 1) / warm_up, (self.steps - self.step) / max(1.0, self.steps - warm_up), 1.0)

    def _contrast(self, batch: PairBatch) -> Tensor:
        questions, names = self._vectors(batch.questions), self._vectors(batch.names)
        similarity = self.options.scale * (questions.float() @ names.float().T) / self.encoder.width
        similarity = similarity.masked_fill(torch.from_numpy(batch.masked), -math.inf)
        return functional.cross_entropy(similarity, torch.from_numpy(batch.answer))

    def _pair_loss(self, batch: PairBatch) -> Tensor:
        """Each question with its answer and a few wrong ones, scored as pairs."""
        assert self.tunable.head is not None
        random = np.random.default_rng([self.options.pairs.seed, self.step, 2])
        stems, choices = [], []
        for row, question in enumerate(batch.questions):
            wrong = np.flatnonzero(~batch.masked[row])
            wrong = wrong[wrong != batch.answer[row]]
            hard = [name for name in batch.others[row].tolist() if not batch.masked[row, name] and name != batch.answer[row]]
            drawn = random.choice(wrong, PAIR_NEGATIVES) if len(wrong) else np.full(PAIR_NEGATIVES, batch.answer[row])
            some = [int(batch.answer[row]), *hard, *drawn.tolist()][: PAIR_NEGATIVES + 1]
            stems += [question] * len(some)
            choices += [batch.names[name] for name in some]
        vectors = self.encoder.encode_pairs(stems, choices).vectors.float()
        scores = self.tunable.head(vectors).view(len(batch.questions), -1)
        return functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        size = -(-len(texts) // GROUPS)
        parts = [self.encoder.embed([texts[i] for i in order[at : at + size]]) for at in range(0, len(order), size)]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back]

    def _held_out(self) -> float:
        """The share of held-out questions whose answer scores best among the names of a batch, or of a few with pairs."""
        right = total = 0
        with torch.inference_mode():
            for number in range(HELD_OUT_BATCHES):
                batch = self.pairs.batch(number, HELD_OUT_SIZE, held_out=True)
                if self.tunable.head is not None:
                    return 0.0  # the head is untrained before; pairs are measured by a model that is trained with them
                similarity = self._vectors(batch.questions) @ self._vectors(batch.names).T
                best = similarity.masked_fill(torch.from_numpy(batch.masked), -math.inf).argmax(1)
                right += int((best == torch.from_numpy(batch.answer)).sum())
                total += len(batch.questions)
        return right / total

    def _store_steps(self) -> None:
        self.about["steps"] = self.steps
        write_json(self.folder / MARKER, self.about)

    def _save(self) -> None:
        tensors = self.tunable.state()
        for number, parameter in enumerate(self.tunable.parameters()):
            state = self.optimizer.state.get(parameter, {})
            tensors |= {f"optimizer.{number}.{key}": value for key, value in state.items() if isinstance(value, Tensor)}
        save_tensors(self.folder / CHECKPOINT, tensors, {"step": self.step})

    def _load_optimizer(self, tensors: Mapping[str, Tensor]) -> None:
        for number, parameter in enumerate(self.tunable.parameters()):
            prefix = f"optimizer.{number}."
            state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            if state:
                self.optimizer.state[parameter] = state

    def _finish(self, after: dict[str, Any]) -> None:
        partial = begin_folder(self.folder, MARKER)
        try:
            self.tunable.save(partial)
            write_json(partial / MARKER, self.about | {"steps": self.steps, "after": after, "finished": True})
            replace_folder(partial, self.folder)
        finally:
            delete_partial(partial)
        remove_file(self.folder / CHECKPOINT)
        seal(self.folder)


def _tunable(options: TuneOptions, allow_download: bool, allow_pickle: bool) -> Tunable:
    settings = TextEncoderSettings(encoder=options.encoder, encoding=options.encoding, max_length=LONGEST)
    encoder = load_text_encoder(settings, None, allow_download, allow_pickle)
    files = model_folder() if isinstance(encoder, MiniLM) else encoder.folder or getattr(encoder, "files", None)
    if options.train == "lora" and files is not None:  # peft changes modules of the transformers library
        encoder = HuggingFaceEncoder(settings, str(files), allow_download, allow_pickle)
    if encoder.pooling == "pooler" and encoder.encoding == "separate":
        raise UserError(f"{options.encoder} pools by its first token; tune it as pairs (--encoding pair).")
    if options.train == "linear" and encoder.encoding == "pair":
        raise UserError("a linear map needs the separate encoding: a map of pooled pairs is learned by every model anyway.")
    return Tunable(encoder, options.train, options.encoder, files)


def _accuracy(encoder: TextEncoder, questions: Sequence[Question]) -> float | None:
    """The accuracy of the cosine of question and choice, without training."""
    answered = [question for question in questions if question.answer is not None]
    if not answered or encoder.encoding != "separate":
        return None
    scores = cosine_scores(encoder, answered)
    return sum(found.index(max(found)) == question.answer for found, question in zip(scores, answered, strict=True)) / len(answered)


def _computes_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())  # no public name
