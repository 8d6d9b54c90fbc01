"""Training on open questions: the best epoch on dev is kept, and an interrupted training resumes."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features import NoFeatures
from mhgrn.io.atomic import write_text
from mhgrn.io.checksums import remove_file, seal
from mhgrn.io.folders import begin_folder, check_replaceable, delete_partial, replace_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_marker
from mhgrn.io.remote import place_of
from mhgrn.io.signals import StopSignals
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.data import OpenData
from mhgrn.open.evaluation import evaluate_open
from mhgrn.open.model import OpenModel, answer_losses
from mhgrn.open.run import OpenRun
from mhgrn.progress import bar, say
from mhgrn.runs import CONFIG, MARKER, METRICS, describe, read_about
from mhgrn.text.loading import load_text_encoder
from mhgrn.training.checkpoints import (
    CHECKPOINT,
    Clock,
    Place,
    load_checkpoint,
    random_state,
    save_checkpoint,
    set_random_state,
)
from mhgrn.training.loop import check_same, set_seed, training_threads
from mhgrn.training.metrics import Record
from mhgrn.training.optimizer import learning_rate_factor
from mhgrn.training.sampling import Numbers, batches, shuffled, training_subset

CPU = torch.device("cpu")


def train_open(
    data: OpenData,
    config: Config,
    folder: str | Path,
    graph: KnowledgeGraph | None = None,
    force: bool = False,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> OpenRun:
    """Train a model of open questions and keep its best epoch on dev by hits@1, then by mean reciprocal rank.

    The text encoder is not trained. An interrupted run in ``folder`` is resumed and ends with the same weights as an uninterrupted
    one. Ctrl-C saves a checkpoint and raises KeyboardInterrupt.

    Args:
        data: Prepared open questions with the splits train and dev.
        config: The settings, with ``task="open"``.
        folder: The folder of the run.
        graph: The graph of the data. By default it is loaded.
        force: Start over, and replace the run in the folder.
        encoder: The place of the text encoder, if it is not where ``text.encoder`` says.
        allow_download: Download the text encoder if it is not on this machine.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
    """
    folder = check_replaceable(Path(folder), MARKER)
    train, _ = data.answered_split("train"), data.answered_split("dev")
    if config.text.frozen_epochs is not None:
        raise UserError("task=open does not train the text encoder; set text.frozen_epochs=null.")
    busy = f"another process is training in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy):
        is_there = (folder / MARKER).is_file() and not force
        if is_there and read_about(folder).get("finished"):
            raise UserError(f"{folder} contains a trained run; name another folder, or replace it with --force.")
        graph = graph or data.load_graph()
        set_seed(config.seed)
        text = load_text_encoder(config.text, encoder, allow_download, allow_pickle)
        model = OpenModel(config.open, text.width, 2 * len(graph.schema))
        sets = config.open.loss == "logistic" or (config.open.loss == "auto" and any(len(data.answers[q]) > 1 for q in train))
        source = {"folder": place_of(data.folder), "fingerprint": data.fingerprint, "marks": data.marks, "sets": sets}
        about = describe(config, graph, text, NoFeatures(), source, folder) | {"processes": 1}
        run = OpenRun(folder, about, config, graph, text, model)
        if is_there:
            check_same(folder, about)
            is_there = (folder / CHECKPOINT).is_file()  # if it was stopped before its first checkpoint, it starts over
        partial = None
        record = Record(config.training.tensorboard)
        try:
            if not is_there:
                partial = run.folder = begin_folder(folder, MARKER)
                write_text(partial / CONFIG, config.to_yaml())
                write_marker(partial / MARKER, about)
            with training_threads(config.training.threads):
                trainer = OpenTrainer(run, data, folder, record)
                if is_there:
                    trainer.resume()
                trainer.fit()
        finally:
            record.close()
            if partial is not None:
                delete_partial(partial)
        write_marker(folder / MARKER, read_about(folder) | {"finished": True})
        remove_file(folder / CHECKPOINT)
        seal(folder)
    return OpenRun.load(folder, graph.folder, encoder, allow_download, allow_pickle)


class OpenTrainer:
    """The training loop of open questions.

    Args:
        run: The run to train.
        data: The questions.
        folder: The folder of the run, once there is something to keep.
        record: Where metrics are written.
    """

    def __init__(self, run: OpenRun, data: OpenData, folder: Path, record: Record) -> None:
        self.run, self.data, self.folder, self.record = run, data, folder, record
        self.settings = settings = run.config.training
        answerable = [q for q in data.splits["train"] if len(data.answers[q]) and len(data.topics[q])]
        if not answerable:
            raise UserError(f"no training question of {data.folder} has a topic and an answer in the graph.")
        self.questions = training_subset(answerable, settings, run.config.seed)
        self.optimizer = torch.optim.AdamW(run.model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.steps_an_epoch = -(-len(self.questions) // settings.batch_size)
        self.last_step = min(settings.epochs * self.steps_an_epoch, settings.max_steps or settings.epochs * self.steps_an_epoch)
        self.place, self.clock, self.signals = Place(), Clock(settings.checkpoint_every), StopSignals()

    def resume(self) -> None:
        """Load the checkpoint of an interrupted run."""
        last = Place(epoch=self.settings.epochs, step=self.last_step, step_in_epoch=self.steps_an_epoch)
        shape = 1, len(random_state(CPU))
        self.place, randomness = load_checkpoint(self.run, self.optimizer, self.scaler, last, shape)
        try:
            set_random_state(randomness[0], CPU)
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise UserError(f"{self.folder / CHECKPOINT} has an invalid random state ({error}); start over with --force.") from None
        self.record.resume(self.folder, self.place)
        say(f"resuming {self.folder}: epoch {self.place.epoch + 1}, after step {self.place.step}.")

    def fit(self) -> None:
        """Train until the last epoch, or until dev has not improved for ``training.patience`` epochs."""
        place = self.place
        self.run.vectors([self.data.texts[q] for q in self.questions], keep=True)
        orders = shuffled(self.questions, self.run.config.seed, place.epoch)
        with self.signals.handled():
            while not self._is_over():
                self._train_epoch(next(orders))
                if not self.signals.asked_to_stop:
                    self._end_epoch()
                if self.signals.asked_to_stop:
                    self._save()
                    say(f"saved after step {place.step} (epoch {place.epoch + 1}); run the same command without --force to resume.")
                    raise KeyboardInterrupt

    def _is_over(self) -> bool:
        place = self.place
        waited = place.best and place.epoch - 1 - place.best["last_better"] >= self.settings.patience
        at_end = place.epoch >= self.settings.epochs or (place.step >= self.last_step and not place.step_in_epoch)
        return at_end or bool(waited)

    def _train_epoch(self, order: Numbers) -> None:
        """Train on the batches that are left in an epoch. Stops after a step if a signal asks for it."""
        place, began = self.place, time.monotonic() - self.place.seconds
        left = batches(order, self.settings.batch_size)[place.step_in_epoch :][: self.last_step - place.step]
        self.run.model.train()
        with bar(place.label(self.settings.epochs), self.steps_an_epoch) as advance:
            for batch in left:
                self._step(batch)
                place.seconds = time.monotonic() - began
                advance(place.step_in_epoch, place.label(self.settings.epochs))
                if self.signals.asked_to_stop:
                    return
                if self.clock.is_due(place.step):
                    self._save()
                    self.clock.restart()

    def _step(self, batch: Numbers) -> None:
        model, place = self.run.model, self.place
        losses = self._losses(batch)
        if self.run.config.open.min_attention and len(lost := batch[(losses.detach() == 0).numpy()]):
            # no answer is reached, perhaps because its relation is not followed: then the relation could not be learned any more
            losses = torch.cat([losses, self._losses(lost, prune=False)])
        self.optimizer.zero_grad()
        (losses.sum() / len(batch)).backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), self.settings.clip))
        loss = float(losses.detach().sum())
        if not np.isfinite(loss + norm):
            raise UserError(f"the loss is not finite after step {place.step}; use a smaller training.learning_rate.")
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * learning_rate_factor(self.settings, place.step, self.last_step)
        self.optimizer.step()
        place.step += 1
        place.step_in_epoch += 1
        place.loss += loss
        place.questions += len(batch)
        if place.step % self.settings.log_every == 0:
            self._note({"step": place.step, "epoch": place.epoch + 1, "loss": loss / len(batch), "gradient_norm": norm})

    def _losses(self, batch: Numbers, prune: bool = True) -> Tensor:
        data, model = self.data, self.run.model
        vectors = self.run.vectors([data.texts[q] for q in batch])
        ranked = model.rank(self.run.walker, [data.topics[q] for q in batch], vectors, self.run.nodes, prune)
        return answer_losses(ranked, [data.answers[q] for q in batch], model.bias if self.run.gives_sets else None)

    def _end_epoch(self) -> None:
        """Measure dev, and keep the model if no earlier epoch was better."""
        place, began = self.place, time.monotonic()
        found = evaluate_open(self.run, self.data, "dev", "dev")
        row: dict[str, Any] = {
            "epoch": place.epoch + 1,
            "step": place.step,
            "loss": place.loss / place.questions,
            "dev_accuracy": found["hits_at_1"],
            **{f"dev_{name}": found[name] for name in ("hits_at_10", "mrr", "set_f1")},
            "seconds": round(place.seconds + time.monotonic() - began, 2),
        }
        self._note(row)
        before = place.best.get("dev_accuracy", -1.0), place.best.get("dev_mrr", -1.0)
        if (row["dev_accuracy"], row["dev_mrr"]) > before:
            place.best = {"dev_accuracy": row["dev_accuracy"], "dev_mrr": row["dev_mrr"], "last_better": place.epoch}
            self.run.save({name: value for name, value in row.items() if name != "seconds"})
            self._move_into_place()
        self.record.draw(self.folder)
        measured = f"dev hits@1 {row['dev_accuracy']:.1%}  MRR {row['dev_mrr']:.3f}  best {place.best['dev_accuracy']:.1%}"
        say(f"epoch {row['epoch']:>3}  loss {row['loss']:.4f}  {measured}  {row['seconds']:.0f} s")
        place.next_epoch()

    def _note(self, row: dict[str, Any]) -> None:
        self.record.add(row, self.run.folder, self.place)

    def _save(self) -> None:
        """Write a checkpoint."""
        save_checkpoint(self.run, self.optimizer, self.scaler, self.place, random_state(CPU)[None], text_changed=False)
        self._move_into_place()
        self.record.draw(self.folder)

    def _move_into_place(self) -> None:
        if self.run.folder != self.folder:
            replace_folder(self.run.folder, self.folder, grows=(METRICS,))
            self.run.folder = self.folder
