"""Train a model with the Trainer of Lightning, and write a run folder that all commands read.

pip install lightning
python examples/lightning_training.py prepared/ -o run/ --epochs 10 --set mhgrn.hops=3
mhgrn ask run/ "Where would a child sit at a desk?" -c schoolroom -c patio

`mhgrn train` needs no Lightning and also resumes, calibrates and trains the text encoder. This example is for those who want
callbacks and loggers of Lightning. With the same settings it takes the same steps as `mhgrn train`, except for the random
numbers of dropout.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from mhgrn import Config, KnowledgeGraph, PreparedData, Run, UserError
from mhgrn.training.evaluation import count_right
from mhgrn.training.examples import Examples, QuestionBatch, question_losses
from mhgrn.training.loop import new_run, save_new
from mhgrn.training.optimizer import learning_rate_factor, make_optimizer
from mhgrn.training.sampling import batches, shuffled, training_subset


class QuestionModule(lightning.LightningModule):  # type: ignore[misc]
    """The model of a run with a frozen text encoder, its loss, its optimizer and its batches.

    Args:
        data: Prepared questions.
        run: An untrained run.
    """

    def __init__(self, data: PreparedData, run: Run) -> None:
        super().__init__()
        if run.config.text.frozen_epochs is not None:
            raise UserError("this example trains with a frozen text encoder; leave text.frozen_epochs at null.")
        self.run, self.model = run, run.model
        self.examples = Examples(data, run)
        self.best: dict[str, Any] = {"dev_accuracy": -1.0}
        self.best_weights: dict[str, Tensor] = {}

    def training_step(self, batch: QuestionBatch) -> Tensor:
        loss = question_losses(self.examples.scores(batch, live_text=False), batch).mean()
        self.log("loss", loss, prog_bar=True, batch_size=len(batch.first))
        return loss

    def validation_step(self, questions: list[int]) -> None:
        """Measure the accuracy, and keep the weights of the best epoch: the last one of equal ones, as `mhgrn train` does."""
        accuracy = count_right(self.examples, questions, live_text=False) / len(questions)
        self.log("dev_accuracy", accuracy, prog_bar=True, batch_size=len(questions))
        if accuracy >= self.best["dev_accuracy"]:
            self.best = {"epoch": self.current_epoch + 1, "step": self.global_step, "dev_accuracy": accuracy}
            self.best_weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def configure_optimizers(self) -> dict[str, Any]:
        settings = self.run.config.training
        last = settings.epochs * len(self.steps(epoch=0))
        optimizer = make_optimizer(self.run, self.run.config)
        schedule = LambdaLR(optimizer, lambda step: learning_rate_factor(settings, step, last))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def steps(self, epoch: int) -> list[list[int]]:
        """The questions of every step of an epoch."""
        config = self.run.config
        questions = training_subset(self.examples.data.split("train"), config.training, config.seed)
        order = next(shuffled(questions, config.seed, epoch))
        return [step.tolist() for step in batches(order, config.training.batch_size)]

    def train_dataloader(self) -> DataLoader[Any]:
        """The batches of the current epoch; Lightning makes them again for every epoch."""
        steps = self.steps(self.current_epoch)
        questions: Any = range(len(self.examples.data.questions))
        return DataLoader(questions, batch_sampler=steps, collate_fn=self.examples.batch)

    def val_dataloader(self) -> DataLoader[Any]:
        """All dev questions at once."""
        dev: Any = self.examples.data.split("dev")
        return DataLoader(dev, batch_size=len(dev), collate_fn=list)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch  # ``Examples`` has put it there


def train_with_lightning(
    data: PreparedData, config: Config, folder: str | Path, graph: KnowledgeGraph | None = None, **trainer: Any
) -> Run:
    """Train and write a run; ``trainer`` has further arguments of ``lightning.Trainer``."""
    run = new_run(data, config, folder, graph)
    module = QuestionModule(data, run)
    lightning.Trainer(
        **{
            "max_epochs": config.training.epochs,
            "accelerator": "cpu",
            "gradient_clip_val": config.training.clip,
            "reload_dataloaders_every_n_epochs": 1,
            "num_sanity_val_steps": 0,
            "enable_checkpointing": False,
            "logger": False,
            **trainer,
        }
    ).fit(module)
    run.model.load_state_dict(module.best_weights)
    save_new(run, module.best)
    return Run.load(run.folder, run.graph.folder)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train a model with Lightning.")
    parser.add_argument("data", help="folder of prepared questions")
    parser.add_argument("-o", "--output", required=True, help="folder of the run")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the run")
    given = parser.parse_args(arguments)
    config = Config.load(overrides=[f"training.epochs={given.epochs}", *given.set])
    print(train_with_lightning(PreparedData.load(given.data), config, given.output))


if __name__ == "__main__":
    main()
