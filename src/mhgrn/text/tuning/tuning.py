"""Tune a text encoder on a graph: questions about facts come near to the names that answer them.

Contrastive learning with in-batch and hard negatives. The encoder learns what the graph says, and keeps what it knew: after the
training, its weights are mixed with those it had.
"""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from mhgrn.errors import UserError
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_marker
from mhgrn.io.places import relative_place
from mhgrn.io.remote import url_of
from mhgrn.io.signals import StopSignals
from mhgrn.io.stored import read_folder
from mhgrn.io.tensors import parse_metadata, parse_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import bar, say
from mhgrn.questions.question import Question
from mhgrn.text.adapters import is_adapter
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuned import FORMAT, KIND, MARKER, read_about
from mhgrn.text.tuning.labeled import LabeledPairs, joined
from mhgrn.text.tuning.pairs import FactPairs, PairBatch, PairOptions, connected_by_questions
from mhgrn.text.tuning.tunable import WRITTEN, LoraLayers, Part, Tunable
from mhgrn.text.zero_shot import cosine_scores

CHECKPOINT = "checkpoint.safetensors"
SAVE_EVERY = 120  # seconds between checkpoints
GROUPS = 3  # batches of texts of similar length, if texts are padded
HELD_OUT_BATCHES, HELD_OUT_SIZE = 4, 128  # questions about facts that are not trained on
PAIR_NEGATIVES = 4  # wrong answers of a question, with pairs
MEASURED = 6  # first steps, with a low rate; all but the first of them decide how many fit into a budget
LOW_RATE = 0.05  # of the highest rate
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
        budget: Seconds of training. The time of the first steps decides the number of steps, which a resumed tuning keeps.
        batch_size: Questions about facts per step.
        labeled: Questions with answers per step, if some are given.
        learning_rate: The highest learning rate. None: by what is trained.
        scale: The similarity is multiplied by this before the softmax.
        keep: The share of the untuned weights in the result: 0 is the tuned encoder, 1 the untuned one.
        distill: The weight of a second term of the loss: the KL divergence between the softmax of the untuned encoder over the
            names of a batch and that of the tuned one. It costs a forward pass without gradients. 0: none.
        lora_layers: The linear layers that a LoRA changes: those of the ``attention`` (query, key, value), or ``all``, which learns
            more and takes longer.
        lora_rank: The rank of a LoRA. Its size is proportional to it.
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
    labeled: int = 64
    learning_rate: float | None = None
    scale: float = 20.0
    keep: float = 0.4
    distill: float = 0.0
    lora_layers: LoraLayers = "attention"
    lora_rank: int = 16
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    pairs: PairOptions = field(default_factory=PairOptions)

    def __post_init__(self) -> None:
        wrong = {
            "steps": self.steps is not None and self.steps < 1,
            "budget": not 0 < self.budget < math.inf,
            "batch_size": self.batch_size < 2,
            "labeled": self.labeled < 1,
            "learning_rate": self.learning_rate is not None and not 0 < self.learning_rate < math.inf,
            "scale": not 0 < self.scale < math.inf,
            "keep": not 0 <= self.keep <= 1,
            "lora_rank": self.lora_rank < 1,
            "distill": not 0 <= self.distill < math.inf,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(f"{name} is {getattr(self, name)}, which is not possible.")
        if self.train != "lora" and (self.lora_layers, self.lora_rank) != (TuneOptions.lora_layers, TuneOptions.lora_rank):
            raise UserError("lora_layers and lora_rank need train=lora (--train lora).")

    @property
    def rate(self) -> float:
        return self.learning_rate or RATES[self.train]


@dataclass(frozen=True)
class Tuned:
    """A tuned text encoder, and what it achieves before and after.

    ``held_out`` is the share of questions about facts that were not trained on whose answer is the nearest of all names in a batch.
    With pairs, it is the share whose answer scores best among five names, by a head that is trained too and not kept; there is none
    before. It is None if the graph is too small to hold facts out.
    ``questions`` is the accuracy of the cosine on questions that were given to measure.
    """

    folder: Path
    steps: int
    held_out: tuple[float | None, float] | None
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
    questions: Sequence[Question] = (),
) -> Tuned:
    """Tune a text encoder on the facts of a graph and write it to a folder, which ``text.encoder=FOLDER`` uses.

    An unfinished tuning in ``folder`` is resumed and ends with the same weights as one that was never interrupted. Ctrl-C and
    SIGTERM stop after the current step and save a checkpoint.

    Args:
        graph: The graph, or its folder.
        folder: The folder to write: a model in Hugging Face format, or an adapter.
        options: How to tune.
        without: Facts that connect a concept of one of these questions with a concept of its choices are not used.
        measure: Questions to measure the encoder with, before and after; they are not trained on.
        force: Replace what is in the folder.
        allow_download: Download the text encoder if it is not on this machine.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
        questions: Questions with answers to train on too. Each is answered among its own choices.

    >>> tune("graph", "encoder", TuneOptions(budget=600))  # doctest: +SKIP
    """
    graph = KnowledgeGraph.load(graph) if isinstance(graph, str | Path) else graph
    options, folder = options or TuneOptions(), check_replaceable(Path(folder), MARKER, HOLDS)
    busy = f"another process is tuning in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy), torch.random.fork_rng(devices=[]):
        encoder = _encoder(options, folder, allow_download, allow_pickle)
        if measure:
            _check_measurable(encoder, measure)
        excluded = connected_by_questions(graph, without) if without else None
        pairs = FactPairs(graph, options.pairs, excluded)
        labeled = LabeledPairs(questions, options.pairs.seed) if questions else None
        is_path = encoder.folder is not None and url_of(options.encoder) is None
        base = os.path.abspath(options.encoder) if is_path else options.encoder
        not_stored = ("steps", "budget", "encoder", *(("labeled",) if labeled is None else ()))
        about = {
            "format": FORMAT,
            "options": {key: value for key, value in asdict(options).items() if key not in not_stored},
            "graph": graph.fingerprint,
            "facts": len(pairs.facts),
            "left_out": 0 if excluded is None else len(excluded),
            **({} if labeled is None else {"questions": len(labeled.questions), "questions_checksum": labeled.checksum}),
            "base_checksum": encoder.checksum(),
            "encoding": encoder.encoding,
            "pooling": encoder.pooling,
        }
        places = {"encoder": base, "base": relative_place(encoder.folder, folder) if encoder.folder is not None else None}
        tunable = Tunable(
            encoder,
            options.train,
            base,
            options.pairs.seed,
            keeps_untuned=options.distill > 0,
            lora_layers=options.lora_layers,
            lora_rank=options.lora_rank,
        )
        return _Tuning(tunable, pairs, labeled, options, about, folder, places).run(measure, force)


class _Tuning:
    def __init__(
        self,
        tunable: Tunable,
        pairs: FactPairs,
        labeled: LabeledPairs | None,
        options: TuneOptions,
        about: dict[str, Any],
        folder: Path,
        places: dict[str, str | None],
    ) -> None:
        self.tunable, self.pairs, self.labeled = tunable, pairs, labeled
        self.options, self.about, self.folder = options, about, folder
        self.places = places
        self.encoder = tunable.encoder
        self.optimizer = torch.optim.AdamW(tunable.parameters(), lr=options.rate, weight_decay=0.01)
        self.bfloat16 = options.precision == "bfloat16" or (options.precision == "auto" and computes_bfloat16())
        self.step = 0
        self.steps = options.steps
        self.signals = StopSignals()

    def run(self, measure: Sequence[Question], force: bool) -> Tuned:
        if force or not (self.folder / MARKER).is_file():
            self._begin(measure)
        else:
            self._resume(measure)
        with self.signals.handled():
            self._train()
        self.tunable.keep(self.options.keep)
        after = {"held_out": self._held_out(), "questions": _accuracy(self.encoder, measure)}
        before = self.about["before"]
        with new_folder(self.folder, MARKER, HOLDS) as partial:
            self.tunable.save(partial)
            write_marker(partial / MARKER, self.about | {"after": after, "finished": True})
        held_out = None if after["held_out"] is None else (before["held_out"], after["held_out"])
        questions = None if before["questions"] is None or after["questions"] is None else (before["questions"], after["questions"])
        return Tuned(self.folder, self.step, held_out, questions)

    def _begin(self, measure: Sequence[Question]) -> None:
        """Measure the encoder, and write a folder that can be resumed."""
        # the head of pairs is not trained yet
        held_out = self._held_out() if self.tunable.head is None else None
        before = {"held_out": held_out, "questions": _accuracy(self.encoder, measure)}
        precision = "bfloat16" if self.bfloat16 else "float32"
        self.about |= {**self.places, "precision": precision, "steps": self.steps, "before": before, "finished": False}
        with new_folder(self.folder, MARKER, HOLDS) as partial:
            write_marker(partial / MARKER, self.about)

    def _resume(self, measure: Sequence[Question]) -> None:
        """Load the checkpoint of an unfinished tuning."""
        stored = read_about(self.folder)
        if stored["finished"]:
            raise UserError(f"{self.folder} contains a tuned text encoder; name another folder, or replace it with --force.")
        for key, value in self.about.items():
            if stored.get(key) != value:
                raise UserError(
                    f"{self.folder} contains an unfinished tuning with {_difference(key, stored.get(key), value)}. To resume it,"
                    " use the same options, graph and text encoder. Otherwise name another folder, or start over with --force."
                )
        if stored.get("steps") is not None and self.steps not in (None, stored["steps"]):
            raise UserError(
                f"{self.folder} contains an unfinished tuning of {stored['steps']:,} steps; resume it without --steps, name another"
                " folder, or start over with --force."
            )
        self.steps = stored.get("steps") or self.steps
        self.bfloat16 = stored.get("precision") == "bfloat16"  # also on another processor
        self.about = stored | {"steps": self.steps}
        if measure:  # may be other questions than before; the encoder is still untuned here
            self.about["before"] = stored["before"] | {"questions": _accuracy(self.encoder, measure)}
        if (self.folder / CHECKPOINT).is_file():
            self._load()
            say(f"resuming {self.folder} after step {self.step:,}.")

    def _train(self) -> None:
        if self.steps is None:
            self._count_steps()
        assert self.steps is not None
        began = saved = time.monotonic()
        loss, taken = 0.0, 0
        with bar("tuning the text encoder", self.steps) as advance:
            while self.step < self.steps:
                taken += 1
                loss += (self._take_step() - loss) / min(taken, 50)
                advance(self.step, f"step {self.step:,} of {self.steps:,}  loss {loss:.3f}")
                if self.step % max(1, self.steps // 10) == 0:
                    say(f"step {self.step:>6,} of {self.steps:,}  loss {loss:.3f}  {time.monotonic() - began:.0f} s")
                self._stop_if_asked()
                if time.monotonic() - saved > SAVE_EVERY:
                    self._save()
                    saved = time.monotonic()
        if taken:
            self._save()  # measuring and writing may be interrupted too

    def _count_steps(self) -> None:
        """Take a few steps, and decide how many fit into the budget."""
        times: list[float] = []
        while self.step < MEASURED or len(times) < 2:
            began = time.monotonic()
            self._take_step()
            times.append(time.monotonic() - began)
            self._stop_if_asked()
        seconds = max(float(np.median(times[1:])), 1e-6)
        self.steps = max(self.step, round(self.options.budget / seconds))
        self.about["steps"] = self.steps
        write_marker(self.folder / MARKER, self.about)
        say(f"{self.steps:,} steps of {self.options.batch_size} questions fit into the budget.")

    def _stop_if_asked(self) -> None:
        if self.signals.asked_to_stop:
            self._save()
            say(f"saved after step {self.step:,}; run the same command without --force to resume.")
            raise KeyboardInterrupt

    def _take_step(self) -> float:
        batch = self.pairs.batch(self.step, self.options.batch_size)
        if self.labeled is not None:
            batch = joined(batch, self.labeled.batch(self.step, self.options.labeled))
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate * rate_factor(self.step, self.steps)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            loss = self._contrast(batch) if self.tunable.head is None else self._pair_loss(batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise UserError(f"the loss is not finite in step {self.step + 1:,}; use a smaller --learning-rate and --force.")
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(self.tunable.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return value

    def _contrast(self, batch: PairBatch) -> Tensor:
        similarity = self._similarity(batch)
        loss = functional.cross_entropy(similarity, torch.from_numpy(batch.answer))
        if not self.options.distill:
            return loss
        with torch.no_grad(), self.tunable.untuned():
            target = self._similarity(batch).softmax(1)
        # names that are masked have no part in it: 0 log 0 is 0
        tuned = similarity.log_softmax(1).masked_fill(torch.from_numpy(batch.masked), 0.0)
        return loss + self.options.distill * functional.kl_div(tuned, target, reduction="batchmean")

    def _similarity(self, batch: PairBatch) -> Tensor:
        """The scaled cosine of each question and each name; −∞ where it is masked. [questions, names]"""
        questions, names = self._vectors(batch.questions), self._vectors(batch.names)
        similarity = self.options.scale * (questions.float() @ names.float().T) / self.encoder.width
        return similarity.masked_fill(torch.from_numpy(batch.masked), -math.inf)

    def _pair_loss(self, batch: PairBatch) -> Tensor:
        scores = self._pair_scores(batch, self.step)
        return functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))

    def _pair_scores(self, batch: PairBatch, number: int) -> Tensor:
        """Scores of each question with its answer and a few wrong ones, [questions, 1 + wrong]; −∞ where there is no wrong one."""
        assert self.tunable.head is not None
        random = np.random.default_rng([self.options.pairs.seed, number, 2])
        wrong, width = batch.wrong, 1 + PAIR_NEGATIVES
        places = np.full((len(batch.questions), width), -1)
        for row, answer in enumerate(batch.answer.tolist()):
            hard = [name for name in dict.fromkeys(batch.others[row].tolist()) if wrong[row, name]]
            drawn = random.permutation(np.flatnonzero(wrong[row])).tolist()
            some = [answer, *dict.fromkeys([*hard, *drawn])][:width]
            places[row, : len(some)] = some
        rows, columns = np.nonzero(places >= 0)
        stems = [batch.questions[row] for row in rows]
        vectors = self.encoder.encode_pairs(stems, [batch.names[name] for name in places[rows, columns]]).vectors
        scores = torch.full(places.shape, -math.inf)
        scores[torch.from_numpy(rows), torch.from_numpy(columns)] = self.tunable.head(vectors.float()).squeeze(1).float()
        return scores

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        size = len(texts) if self.encoder.trains_without_padding else -(-len(texts) // GROUPS)
        parts = [self.encoder.embed([texts[i] for i in order[at : at + size]]) for at in range(0, len(order), size)]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back]

    def _held_out(self) -> float | None:
        """The share of held-out questions whose answer scores best; see :class:`Tuned`."""
        if not len(self.pairs.held_out):
            return None
        right = total = 0
        with torch.inference_mode():
            for number in range(HELD_OUT_BATCHES):
                batch = self.pairs.batch(number, HELD_OUT_SIZE, held_out=True)
                if self.tunable.head is None:
                    best = self._similarity(batch).argmax(1)
                    right += int((best == torch.from_numpy(batch.answer)).sum())
                else:
                    right += int((self._pair_scores(batch, number).argmax(1) == 0).sum())
                total += len(batch.questions)
        return right / total

    def _save(self) -> None:
        tensors = self.tunable.state()
        names = list(tensors)
        for name, parameter in zip(names, self.tunable.parameters(), strict=True):
            state = self.optimizer.state.get(parameter, {})
            tensors |= {f"{key}.{name}": state[key] for key in OPTIMIZER if key in state}
        save_tensors(self.folder / CHECKPOINT, tensors, {"step": self.step})

    def _load(self) -> None:
        path = self.folder / CHECKPOINT
        content = read_folder(self.folder, MARKER, KIND, FORMAT, lambda stored: stored.content(CHECKPOINT))
        tensors, step = parse_tensors(content, path), parse_metadata(content, path).get("step")
        expected: dict[str, Tensor] = {}
        for name, tensor in self.tunable.state().items():
            expected |= {name: tensor, **{f"{key}.{name}": torch.zeros(()) if key == "step" else tensor for key in OPTIMIZER}}
        kinds = [{name: (t.shape, t.dtype) for name, t in of.items()} for of in (expected, tensors)]
        if kinds[0] != kinds[1] or type(step) is not int or not 0 < step <= (self.steps or MEASURED + 1):
            raise UserError(f"{path} does not belong to this tuning; start over with --force.")
        self.tunable.load_state(tensors)
        for name, parameter in zip(self.tunable.state(), self.tunable.parameters(), strict=True):
            self.optimizer.state[parameter] = {key: tensors[f"{key}.{name}"] for key in OPTIMIZER}
        self.step = step


OPTIMIZER = ("step", "exp_avg", "exp_avg_sq")  # the state of AdamW for each parameter
HOLDS = (*WRITTEN, CHECKPOINT)  # the files of a folder that may be replaced


def rate_factor(step: int, steps: int | None) -> float:
    """The learning rate of a step, as a share of the highest.

    It is low in the first steps, in which the number of steps may be unknown, rises linearly to 1, and falls linearly to 0.

    Args:
        step: The steps taken before.
        steps: The number of steps; None if it is not known yet.

    >>> [round(rate_factor(step, 1000), 3) for step in (0, 5, 6, 27, 50, 525, 999)]
    [0.05, 0.05, 0.071, 0.514, 1.0, 0.5, 0.001]
    """
    if steps is None or step < MEASURED:
        return LOW_RATE
    top = max(2.0 * MEASURED, WARM_UP * steps)  # the step with the highest rate
    rising = LOW_RATE + (1 - LOW_RATE) * (step - MEASURED + 1) / (top - MEASURED + 1)
    return min(rising, (steps - step) / max(1.0, steps - top), 1.0)


def _encoder(options: TuneOptions, folder: Path, allow_download: bool, allow_pickle: bool) -> TextEncoder:
    """The text encoder to tune."""
    name = options.encoder
    settings = TextEncoderSettings(encoder=name, encoding=options.encoding, max_length=LONGEST)
    encoder = load_text_encoder(settings, None, allow_download, allow_pickle)
    if encoder.folder is not None:
        place = encoder.folder.resolve()
        if is_adapter(place):
            raise UserError(f"{shortened(name)} is an adapter; tune the text encoder that it adapts.")
        if place == folder or folder in place.parents:
            raise UserError(f"{shortened(name)} is the text encoder to tune, which would be replaced; write to another folder.")
    if encoder.pooling == "pooler" and encoder.encoding == "separate":
        raise UserError(f"{shortened(name)} pools by its first token; tune it as pairs (--encoding pair).")
    if encoder.encoding == "pair":
        if options.train == "linear":
            raise UserError("a linear map needs the separate encoding: a map of pooled pairs is learned by every model anyway.")
        if options.distill:
            raise UserError("--distill needs the separate encoding: an untuned encoder gives pairs no scores.")
    return encoder


def _check_measurable(encoder: TextEncoder, questions: Sequence[Question]) -> None:
    if encoder.encoding != "separate":
        raise UserError("--measure needs the separate encoding: pairs have scores only after the training of a model.")
    if all(question.answer is None for question in questions):
        raise UserError("no question of --measure has an answer; the accuracy needs questions with answers.")


def _difference(key: str, stored: object, value: object) -> str:
    """What differs between an unfinished tuning and this one."""
    if key == "options" and isinstance(stored, dict) and isinstance(value, dict):
        key = next((f"option {name}" for name in value if stored.get(name) != value[name]), key)
    return f"another {key.replace('_', ' ')}"


def _accuracy(encoder: TextEncoder, questions: Sequence[Question]) -> float | None:
    """The accuracy of the cosine of question and choice, without training."""
    answered = [question for question in questions if question.answer is not None]
    if not answered or encoder.encoding != "separate":
        return None
    scores = cosine_scores(encoder, answered)
    return sum(found.index(max(found)) == question.answer for found, question in zip(scores, answered, strict=True)) / len(answered)


def computes_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())  # no public name
