"""Training: cross-entropy over the choices of a question, with separate learning rates for text and graph."""

import json
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from mhgrn.compiled.threads import one_ahead
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.folders import begin_folder, check_replaceable, replace_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_json
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import build_model, parameter_count
from mhgrn.progress import bar, say, silence
from mhgrn.runs import MARKER, Run, describe, features_for, read_about
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.training.checkpoints import (
    CHECKPOINT,
    Clock,
    Place,
    differences,
    load_checkpoint,
    random_state,
    save_checkpoint,
    set_random_state,
)
from mhgrn.training.checks import beats_guessing, check_finite, collapse, telling_of_memory
from mhgrn.training.distributed import Processes
from mhgrn.training.evaluation import accuracy, count_right
from mhgrn.training.examples import Examples, QuestionBatch, from_guessing, largest_spread, question_losses
from mhgrn.training.metrics import Record
from mhgrn.training.optimizer import learning_rate_factor, make_optimiser
from mhgrn.training.sampling import Numbers, batches, batches_of_like_length, share, shuffled, training_subset


def set_seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(data: PreparedData, config: Config, folder: str | Path, graph: KnowledgeGraph | None = None, force: bool = False) -> Run:
    """Train a model and keep its best epoch on dev.

    An interrupted run in ``folder`` is resumed and ends with the same weights as an uninterrupted one. Ctrl-C saves a checkpoint
    and raises KeyboardInterrupt.

    Args:
        data: The questions, with answers in the splits train and dev.
        config: The settings.
        folder: The folder of the run.
        graph: The graph that the data was prepared from. By default it is loaded.
        force: Start over, and replace the run in the folder.

    Returns:
        The trained run.

    >>> run = train(PreparedData.load("prepared"), Config.of({"mhgrn": {"hops": 3}}), "run")  # doctest: +SKIP
    """
    folder = check_replaceable(Path(folder), MARKER)
    for split in ("train", "dev"):
        data.answered_split(split)
    processes = Processes()
    if not processes.is_main:
        silence()
        return _train(data, config, folder, graph, force, processes)
    busy = f"another process is training in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy):
        return _train(data, config, folder, graph, force, processes)


def _train(
    data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph | None, force: bool, processes: Processes
) -> Run:
    is_there = (folder / MARKER).is_file() and not force
    if is_there and read_about(folder).get("finished"):
        raise UserError(f"{folder} holds a trained run; name another folder, or replace it with --force.")
    record = Record(config.training.tensorboard)
    graph = graph or data.load_graph()
    with telling_of_memory(config):
        run = _new_run(data, config, folder, graph, processes)
        if is_there:
            _check_same(folder, run.about)
            is_there = (folder / CHECKPOINT).is_file()  # else it was ended before its first one: the beginning is where it was
        with processes.main_first():  # what is computed but once is left on disk for the others, and for later runs
            examples = Examples(data, run, processes.device)
            if run.model.graph_encoder.uses_text and config.text.frozen_epochs != 0:
                # encoded with all threads, before training takes its share of them
                _ = examples.vectors
                _ = examples.tokens if run.model.graph_encoder.uses_tokens else None
        partial = None
        if not is_there and processes.is_main:
            partial = run.folder = begin_folder(folder, MARKER)
        try:
            if partial is not None:
                write_text(partial / "config.yaml", config.to_yaml())
                write_json(partial / MARKER, run.about)
            with _threads(config.training.threads):
                if parameter_count(run.model):
                    training = _Training(examples, processes, folder, record)
                    if is_there:
                        training.go_on()
                    training.fit()
                elif processes.is_main:
                    _keep(examples, folder)
        finally:
            record.close()
            if partial is not None:
                shutil.rmtree(partial, ignore_errors=True)
    if processes.is_main:
        write_json(folder / MARKER, read_about(folder) | {"finished": True})
        (folder / CHECKPOINT).unlink(missing_ok=True)
    processes.wait()
    return Run.load(folder, graph.folder)


def _keep(examples: Examples, folder: Path) -> None:
    """A model without parameters has nothing to train: it is evaluated and kept."""
    run = examples.run
    row = {"epoch": 0, "dev_accuracy": accuracy(examples, "dev", live_text=False)}
    write_text(run.folder / "metrics.jsonl", json.dumps(row) + "\n")
    run.save(row, text_changed=False)
    replace_folder(run.folder, folder)
    run.folder = folder
    say(f"nothing to train; dev {row['dev_accuracy']:.1%}")


def _new_run(data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph, processes: Processes) -> Run:
    """A fresh model, the same in every process; from then on each has its own random numbers."""
    set_seed(config.seed)
    encoder = load_text_encoder(config.text).to(processes.device)
    trains_text = config.text.frozen_epochs is not None
    features = features_for(config, graph, load_text_encoder(config.text).to(processes.device) if trains_text else encoder)
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    source = {"folder": str(data.folder.absolute()), "fingerprint": data.fingerprint, **data.about["settings"]}
    about = describe(config, graph, encoder, features, source) | {"processes": processes.count}
    if processes.index:
        set_seed(int(np.random.SeedSequence([config.seed, processes.index]).generate_state(1)[0]))
    return Run(folder, about, config, graph, encoder, features, model.to(processes.device))


def _check_same(folder: Path, about: dict[str, Any]) -> None:
    before = read_about(folder)
    if different := differences(before, about):
        more = f", and {len(different) - 3} more" if len(different) > 3 else ""
        raise UserError(
            f"{folder} holds an unfinished run that is not this one: {'; '.join(different[:3])}{more}. To go on with it, give the"
            f" same settings and data; else name another folder, or begin anew with --force."
        )
    changed = [f"{k} {v}" for k, v in before.get("versions", {}).items() if about["versions"].get(k) != v]
    if changed:
        say(f"note: {folder} was begun with {', '.join(changed)}; numbers may differ in their last digits from here on.")


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Signals:
    """Ctrl-C and a polite request to end are noted, and acted on where nothing is half done; a second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.asked_to_stop = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True

    @contextmanager
    def noted(self) -> Iterator[None]:
        before: dict[signal.Signals, Any] = {}
        try:
            with suppress(ValueError):  # not the main thread: signals are another's business
                for number in (signal.SIGINT, signal.SIGTERM):
                    before[number] = signal.signal(number, self._note)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class _Part:
    """What one process computes at once: a micro-batch of a step."""

    questions: Numbers  # of this process; may be none
    of: Numbers  # the step's, in all processes
    is_first: bool
    is_last: bool


class _Training:
    """One training on its way from :class:`Place` to place."""

    def __init__(self, examples: Examples, processes: Processes, folder: Path, record: Record) -> None:
        self.examples, self.run, self.processes, self.folder, self.record = examples, examples.run, processes, folder, record
        self.config, self.settings = self.run.config, self.run.config.training
        self.parameters = [*self.run.model.parameters(), *self.run.encoder.parameters()]
        self.optimiser = make_optimiser(self.run, self.config)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=self.settings.precision == "float16")
        self.questions = training_subset(examples.data.split("train"), self.settings, self.config.seed)
        self.steps_an_epoch = -(-len(self.questions) // (self.settings.batch_size * processes.count))
        self.last_step = self.settings.epochs * self.steps_an_epoch
        if self.settings.max_steps is not None:
            self.last_step = min(self.last_step, self.settings.max_steps)
        self.place = Place()
        self.clock = Clock(self.settings.checkpoint_every)
        self.signals = _Signals()

    def go_on(self) -> None:
        """Take up an interrupted training."""
        self.place, randomness = load_checkpoint(self.run, self.optimiser, self.scaler)
        set_random_state(randomness[self.processes.index], self.processes.device)
        if self.processes.is_main:
            self.record.go_on(self.folder, self.place)
        say(f"going on with {self.folder}: epoch {self.place.epoch + 1}, after step {self.place.step}.")

    def fit(self) -> None:
        """Train to the end; the run takes its place in ``folder`` once there is something to keep."""
        orders = shuffled(self.questions, self.config.seed, self.place.epoch)
        with self.signals.noted():
            try:
                while not self._is_over():
                    self._train_epoch(next(orders))
                    self._end_epoch()
            except _Stopped:
                self._save()
                self._say_how_to_go_on()
                raise KeyboardInterrupt from None

    def _is_over(self) -> bool:
        last = self.place.epoch - 1  # the last epoch done
        thaw = self.config.text.frozen_epochs
        waited = self.place.best and last - self.place.best["last_better"] >= self.settings.patience
        at_end = self.place.epoch >= self.settings.epochs or (self.place.step >= self.last_step and not self.place.step_in_epoch)
        return at_end or bool(waited and (thaw is None or last > thaw))

    @property
    def _trains_text(self) -> bool:
        thaw = self.config.text.frozen_epochs
        return thaw is not None and self.place.epoch >= thaw

    def _parts(self, order: Numbers) -> list[_Part]:
        """What is left to do of an epoch."""
        place, size = self.place, self.settings.batch_size * self.processes.count
        if self._trains_text and self.settings.length_window > 1:
            seed = (self.config.seed, place.epoch)
            cut = batches_of_like_length(order, size, self.examples.lengths, self.settings.length_window, seed)
        else:
            cut = batches(order, size)
        left = cut[place.step_in_epoch : place.step_in_epoch + self.last_step - place.step]
        parts = []
        for step in left:
            mine = share(step, self.processes.index, self.processes.count)
            micro = batches(mine, self.settings.micro_batch or max(1, len(mine))) or [mine]
            parts += [_Part(m, step, is_first=m is micro[0], is_last=m is micro[-1]) for m in micro]
        return parts

    def _train_epoch(self, order: Numbers) -> None:
        place, run = self.place, self.run
        run.encoder.requires_grad_(self._trains_text)
        run.model.train()
        run.encoder.train(self._trains_text or self.config.text.frozen_dropout)
        parts = self._parts(order)
        began = time.monotonic() - place.seconds
        sums = torch.zeros(2, dtype=torch.float64, device=self.processes.device)
        with bar(self._label(), self.steps_an_epoch) as advance:
            for part, batch in one_ahead(parts, self._load):
                if part.is_first:
                    self.optimiser.zero_grad(set_to_none=True)
                    sums.zero_()
                if batch is not None:
                    sums += self._backward(batch, len(part.of))
                if not part.is_last:
                    continue
                save, stop = self._step(sums.tolist(), part.of)
                place.seconds = time.monotonic() - began
                advance(place.step_in_epoch, self._label())
                if stop:
                    raise _Stopped
                if save:
                    self._save()
                    self.clock.restart()

    def _load(self, part: _Part) -> tuple[_Part, QuestionBatch | None]:
        return part, self.examples.batch(part.questions.tolist()) if len(part.questions) else None

    def _backward(self, batch: QuestionBatch, questions: int) -> Tensor:
        """Add the gradient of a micro-batch's share of the mean loss over the step's ``questions``.

        Returns the sums of its questions' losses, and of how far they are from guessing.
        """
        live = self._trains_text or self.config.text.frozen_dropout
        score = self.examples.scores(batch, live)
        losses = question_losses(score, batch)
        self.scaler.scale(losses.sum() / questions).backward()  # type: ignore[no-untyped-call]
        self.place.spread = max(self.place.spread, float(largest_spread(score.detach(), batch)))
        losses = losses.detach()
        return torch.stack([losses.sum(), from_guessing(losses, batch)]).double()

    def _step(self, sums: list[float], questions: Numbers) -> tuple[bool, bool]:
        """Take a step, and note it. Returns whether to save and whether to stop, which all processes agree on."""
        place, settings = self.place, self.settings
        save = self.processes.is_main and self.clock.is_due(place.step + 1)
        beside = [*sums, save, self.signals.asked_to_stop]
        loss, from_chance, saves, stops = self.processes.total_gradients(self.parameters, beside)
        factor = learning_rate_factor(settings, place.step, self.last_step)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.scaler.unscale_(self.optimiser)
        norm = float(clip_grad_norm_([p for p in self.parameters if p.grad is not None], settings.clip))
        place.step += 1
        check_finite(loss, norm, place, self.config)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        place.step_in_epoch += 1
        place.loss += loss
        place.from_chance += from_chance
        place.questions += len(questions)
        place.chance += float(self.examples.chance[questions].sum())
        if place.step % settings.log_every == 0:
            row = {"step": place.step, "epoch": place.epoch + 1, "loss": loss / len(questions), "gradient_norm": norm}
            self._note(row | self._current_rates())
        return bool(saves), bool(stops)

    def _current_rates(self) -> dict[str, float]:
        rates = {"learning_rate": self.optimiser.param_groups[0]["lr"]}
        return rates | ({"text_learning_rate": self.optimiser.param_groups[2]["lr"]} if self._trains_text else {})

    def _end_epoch(self) -> None:
        """Measure on dev, and keep the model if it is as good as the best."""
        place = self.place
        began = time.monotonic()
        dev = share(np.array(asked := list(self.examples.data.split("dev"))), self.processes.index, self.processes.count)
        right = count_right(self.examples, dev.tolist(), self._trains_text, self._stop_if_alone)
        total = int(self.processes.total(torch.tensor(right, device=self.processes.device)))
        measured, guess = total / len(asked), float(np.exp(-self.examples.chance[asked]).mean())
        place.spread = self.processes.largest(place.spread)
        row: dict[str, Any] = {
            "epoch": place.epoch + 1,
            "step": place.step,
            "loss": place.loss / place.questions,
            "dev_accuracy": measured,
            **self._current_rates(),
            "seconds": round(place.seconds + time.monotonic() - began, 2),
        }
        if wrong := collapse(place, self.config, beats_guessing(measured, guess, len(asked))):
            row["warning"] = wrong
        self._note(row)
        before = place.best.get("dev_accuracy", -1.0)
        if row["dev_accuracy"] >= before:
            last_better = place.epoch if row["dev_accuracy"] > before else place.best["last_better"]
            place.best = {"dev_accuracy": row["dev_accuracy"], "last_better": last_better}
            if self.processes.is_main:
                kept = {k: row[k] for k in ("epoch", "step", "loss", "dev_accuracy")}
                self.run.save(kept, text_changed=self._trains_text)
                self._take_place()
        if self.processes.is_main:
            self.record.draw(self.folder)
        shown = f"dev {row['dev_accuracy']:.1%}  best {place.best['dev_accuracy']:.1%}"
        say(f"epoch {row['epoch']:>3}  loss {row['loss']:.4f}  {shown}  {row['seconds']:.0f} s")
        if wrong:
            say(f"warning: in epoch {row['epoch']} {wrong}")
        place.next_epoch()

    def _stop_if_alone(self) -> None:
        """Ctrl-C is heeded while measuring too, where no other process waits for this one."""
        if self.signals.asked_to_stop and self.processes.count == 1:
            raise _Stopped

    def _note(self, row: dict[str, Any]) -> None:
        if self.processes.is_main:
            self.record.add(row, self.run.folder, self.place)

    def _save(self) -> None:
        """Write a checkpoint; all processes take part, one writes."""
        randomness = self.processes.gather(random_state(self.processes.device))
        if self.processes.is_main:
            save_checkpoint(self.run, self.optimiser, self.scaler, self.place, randomness, self._trains_text)
            self._take_place()
            self.record.draw(self.folder)

    def _take_place(self) -> None:
        if self.run.folder != self.folder:
            replace_folder(self.run.folder, self.folder)
            self.run.folder = self.folder

    def _label(self) -> str:
        place = self.place
        loss = f"  loss {place.loss / place.questions:.4f}" if place.questions else ""
        dev = f"  best dev {place.best['dev_accuracy']:.1%}" if place.best else ""
        return f"epoch {place.epoch + 1} of at most {self.settings.epochs}{loss}{dev}"

    def _say_how_to_go_on(self) -> None:
        place = self.place
        say(f"saved after step {place.step} (epoch {place.epoch + 1}); the same command, without --force, goes on from there.")
        if place.best:
            say(f"{self.folder} keeps the best model so far (dev {place.best['dev_accuracy']:.1%}).")


class _Stopped(Exception):
    """The user asked to stop, and everything is in a state to be saved."""
