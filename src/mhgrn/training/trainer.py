"""The training loop: cross-entropy over the choices of a question, with separate learning rates for text and graph."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from mhgrn.compiled.threads import one_ahead
from mhgrn.errors import UserError
from mhgrn.io.folders import replace_folder
from mhgrn.io.signals import StopSignals
from mhgrn.progress import bar, say
from mhgrn.runs import METRICS
from mhgrn.training.checkpoints import (
    CHECKPOINT,
    Clock,
    Place,
    load_checkpoint,
    random_state,
    save_checkpoint,
    set_random_state,
)
from mhgrn.training.checks import beats_guessing, check_finite, collapse
from mhgrn.training.distributed import Processes
from mhgrn.training.evaluation import count_right
from mhgrn.training.examples import Examples, QuestionBatch, from_guessing, largest_spread, question_losses
from mhgrn.training.metrics import Record
from mhgrn.training.optimizer import learning_rate_factor, make_optimizer
from mhgrn.training.sampling import Numbers, batches, length_buckets, share, shuffled, training_subset


@dataclass(frozen=True)
class MicroBatch:
    """The questions that one process computes at once: a part of a step."""

    questions: Numbers  # of this process; may be empty
    of: Numbers  # all questions of the step, in all processes
    is_first: bool
    is_last: bool


class Trainer:
    """The training loop: steps, epochs, checkpoints and the choice of the best epoch.

    Args:
        examples: The data and the run to train.
        processes: The processes that train together.
        folder: The folder of the run, once there is something to keep.
        record: Where metrics are written.
    """

    def __init__(self, examples: Examples, processes: Processes, folder: Path, record: Record) -> None:
        self.examples, self.run, self.processes, self.folder, self.record = examples, examples.run, processes, folder, record
        self.config, self.settings = self.run.config, self.run.config.training
        self.parameters = [*self.run.model.parameters(), *self.run.encoder.parameters()]
        self.optimizer = make_optimizer(self.run, self.config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=self.settings.precision == "float16")
        self.questions = training_subset(examples.data.split("train"), self.settings, self.config.seed)
        self.steps_an_epoch = -(-len(self.questions) // (self.settings.batch_size * processes.count))
        self.last_step = self.settings.epochs * self.steps_an_epoch
        if self.settings.max_steps is not None:
            self.last_step = min(self.last_step, self.settings.max_steps)
        self.place = Place()
        self.clock = Clock(self.settings.checkpoint_every)
        self.signals = StopSignals()

    def resume(self) -> None:
        """Load the checkpoint of an interrupted run."""
        last = Place(epoch=self.settings.epochs, step=self.last_step, step_in_epoch=self.steps_an_epoch)
        shape = self.processes.count, len(random_state(self.processes.device))
        self.place, randomness = load_checkpoint(self.run, self.optimizer, self.scaler, last, shape)
        try:
            set_random_state(randomness[self.processes.index], self.processes.device)
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise UserError(f"{self.folder / CHECKPOINT} has an invalid random state ({error}); start over with --force.") from None
        if self.processes.is_main:
            self.record.resume(self.folder, self.place)
        say(f"resuming {self.folder}: epoch {self.place.epoch + 1}, after step {self.place.step}.")

    def fit(self) -> None:
        """Train until the last epoch, or until dev accuracy has not improved for ``training.patience`` epochs."""
        orders = shuffled(self.questions, self.config.seed, self.place.epoch)
        with self.signals.handled():
            try:
                while not self._is_over():
                    self._train_epoch(next(orders))
                    self._end_epoch()
            except _Stopped:
                self._save()
                self._say_how_to_resume()
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

    def _parts(self, order: Numbers) -> list[MicroBatch]:
        """The micro-batches of this process that are left in an epoch."""
        place, size = self.place, self.settings.batch_size * self.processes.count
        if self._trains_text and self.settings.length_window > 1:
            seed = (self.config.seed, place.epoch)
            cut = length_buckets(order, size, self.examples.lengths, self.settings.length_window, seed)
        else:
            cut = batches(order, size)
        left = cut[place.step_in_epoch : place.step_in_epoch + self.last_step - place.step]
        parts = []
        for step in left:
            mine = share(step, self.processes.index, self.processes.count)
            micro = batches(mine, self.settings.micro_batch or max(1, len(mine))) or [mine]
            parts += [MicroBatch(m, step, is_first=m is micro[0], is_last=m is micro[-1]) for m in micro]
        return parts

    def _train_epoch(self, order: Numbers) -> None:
        place, run = self.place, self.run
        run.encoder.requires_grad_(self._trains_text)
        run.model.train()
        run.encoder.train(self._trains_text or self.config.text.frozen_dropout)
        parts = self._parts(order)
        began = time.monotonic() - place.seconds
        sums = torch.zeros(2, dtype=torch.float64, device=self.processes.device)
        with bar(place.label(self.settings.epochs), self.steps_an_epoch) as advance:
            for part, batch in one_ahead(parts, self._load):
                if part.is_first:
                    self.optimizer.zero_grad(set_to_none=True)
                    sums.zero_()
                if batch is not None:
                    sums += self._backward(batch, len(part.of))
                if not part.is_last:
                    continue
                save, stop = self._step(sums.tolist(), part.of)
                place.seconds = time.monotonic() - began
                advance(place.step_in_epoch, place.label(self.settings.epochs))
                if stop:
                    raise _Stopped
                if save:
                    self._save()
                    self.clock.restart()

    def _load(self, part: MicroBatch) -> tuple[MicroBatch, QuestionBatch | None]:
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
        """Take a step and record it. Returns whether to save and whether to stop, on which all processes agree."""
        place, settings = self.place, self.settings
        save = self.processes.is_main and self.clock.is_due(place.step + 1)
        beside = [*sums, save, self.signals.asked_to_stop]
        loss, from_chance, saves, stops = self.processes.total_gradients(self.parameters, beside)
        factor = learning_rate_factor(settings, place.step, self.last_step)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.scaler.unscale_(self.optimizer)
        norm = float(clip_grad_norm_([p for p in self.parameters if p.grad is not None], settings.clip))
        place.step += 1
        check_finite(loss, norm, place, self.config)
        self.scaler.step(self.optimizer)
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
        rates = {"learning_rate": self.optimizer.param_groups[0]["lr"]}
        return rates | ({"text_learning_rate": self.optimizer.param_groups[2]["lr"]} if self._trains_text else {})

    def _end_epoch(self) -> None:
        """Measure dev accuracy, and keep the model if no earlier epoch was better."""
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
                self._move_into_place()
        if self.processes.is_main:
            self.record.draw(self.folder)
        shown = f"dev {row['dev_accuracy']:.1%}  best {place.best['dev_accuracy']:.1%}"
        say(f"epoch {row['epoch']:>3}  loss {row['loss']:.4f}  {shown}  {row['seconds']:.0f} s")
        if wrong:
            say(f"warning: in epoch {row['epoch']} {wrong}")
        place.next_epoch()

    def _stop_if_alone(self) -> None:
        """Also stop during evaluation, if no other process waits for this one."""
        if self.signals.asked_to_stop and self.processes.count == 1:
            raise _Stopped

    def _note(self, row: dict[str, Any]) -> None:
        if self.processes.is_main:
            self.record.add(row, self.run.folder, self.place)

    def _save(self) -> None:
        """Write a checkpoint. All processes take part, the main process writes."""
        randomness = self.processes.gather(random_state(self.processes.device))
        if self.processes.is_main:
            save_checkpoint(self.run, self.optimizer, self.scaler, self.place, randomness, self._trains_text)
            self._move_into_place()
            self.record.draw(self.folder)

    def _move_into_place(self) -> None:
        if self.run.folder != self.folder:
            replace_folder(self.run.folder, self.folder, grows=(METRICS,))
            self.run.folder = self.folder

    def _say_how_to_resume(self) -> None:
        place = self.place
        say(f"saved after step {place.step} (epoch {place.epoch + 1}); run the same command without --force to resume.")
        if place.best:
            say(f"{self.folder} contains the best model so far (dev {place.best['dev_accuracy']:.1%}).")


class _Stopped(Exception):
    """A signal asked to stop, and the state can be saved."""
