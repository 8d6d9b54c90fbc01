"""Fit an experiment into a given time: fewer seeds, then fewer epochs, then fewer questions."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mhgrn.config import Config
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.cells import Cell

if TYPE_CHECKING:
    from mhgrn.training.examples import Examples

LEAST_EPOCHS = 5  # the minimum before questions are reduced; or half of the epochs if there are fewer than ten


@dataclass(frozen=True)
class Plan:
    """The part of an experiment to run."""

    seeds: int
    epochs: int | None = None  # upper limit; None: as in the settings
    share: float = 1.0  # fraction of the training questions


def shrink(budget: float, whole: Plan, cost: Callable[[Plan], float]) -> Plan:
    """The largest plan within ``whole`` whose cost is at most ``budget``, or the smallest plan.

    Seeds are reduced first, to one; then epochs, to five or half of them; then questions.

    >>> shrink(60, Plan(seeds=4, epochs=10), lambda plan: plan.seeds * plan.epochs * 4 * plan.share)
    Plan(seeds=1, epochs=10, share=1.0)
    """
    epochs = whole.epochs or LEAST_EPOCHS
    candidates = [Plan(seeds, whole.epochs, whole.share) for seeds in range(whole.seeds, 0, -1)]
    candidates += [Plan(1, e, whole.share) for e in range(epochs - 1, min(LEAST_EPOCHS, -(-epochs // 2)) - 1, -1)]
    fewest = candidates[-1].epochs
    candidates += [Plan(1, fewest, whole.share * percent / 100) for percent in range(99, 0, -1)]
    return next((plan for plan in candidates if cost(plan) <= budget), candidates[-1])


@dataclass(frozen=True)
class Speed:
    """Seconds for one question."""

    train: float
    evaluate: float


def cost_of(config: Config, questions: dict[str, int], speed: Speed, epochs: int | None, share: float) -> float:
    """The seconds of a run without early stopping. ``questions`` has the size of each split that is used."""
    training = config.training
    trained = max(1.0, questions["train"] * training.train_fraction * share)
    trained = min(trained, training.max_questions or trained)
    rounds = min(training.epochs, epochs or training.epochs)
    if training.max_steps is not None:
        rounds = min(rounds, -(-training.max_steps * training.batch_size // int(trained)))
    measured = sum(count for split, count in questions.items() if split != "train")
    return rounds * (trained * speed.train + questions["dev"] * speed.evaluate) + measured * speed.evaluate


def fresh_examples(cell: Cell, folder: Path) -> "Examples":
    """A cell's questions with an untrained model. Text vectors are computed if they are not cached."""
    import torch

    from mhgrn.model import build_model
    from mhgrn.runs import Run, describe, features_for
    from mhgrn.text.loading import load_text_encoder
    from mhgrn.training.examples import Examples
    from mhgrn.training.loop import set_seed

    config, data = cell.config, PreparedData.load(cell.prepared)
    graph = data.load_graph(cell.graph)
    set_seed(config.seed)
    encoder = load_text_encoder(config.text, cell.encoder)
    features = features_for(config, graph, encoder)
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    run = Run(folder, describe(config, graph, encoder, features, {}), config, graph, encoder, features, model)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for module in (model, encoder):
        module.to(device)
    examples = Examples(data, run, device)
    if model.graph_encoder.uses_text and config.text.frozen_epochs != 0:
        _ = examples.vectors
        _ = examples.tokens if model.graph_encoder.uses_tokens else None
    return examples


def speed_of(cell: Cell, folder: Path, threads: int, steps: int = 3) -> Speed:
    """Measured on the first training questions; the first step, which may compile, is not counted. ``threads`` are those of a
    run whose settings do not say how many."""
    import torch

    from mhgrn.model import parameter_count
    from mhgrn.training.examples import question_losses

    examples = fresh_examples(cell, folder)
    config, run = examples.run.config, examples.run
    live = config.text.frozen_epochs is not None
    run.encoder.requires_grad_(live)
    all_questions = list(examples.data.split("train"))
    size = min(config.training.micro_batch or config.training.batch_size, len(all_questions))
    before = torch.get_num_threads()
    torch.set_num_threads(config.training.threads or threads)
    train, evaluate = [], []
    try:
        for step in range(steps):
            questions = [all_questions[(step * size + i) % len(all_questions)] for i in range(size)]
            began = time.perf_counter()
            batch = examples.batch(questions)
            if parameter_count(run.model):
                run.model.train()
                question_losses(examples.scores(batch, live), batch).mean().backward()  # type: ignore[no-untyped-call]
            _finish()
            train.append(time.perf_counter() - began)
            run.model.eval()
            began = time.perf_counter()
            with torch.inference_mode():
                examples.scores(examples.batch(questions), live)
            _finish()
            evaluate.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)
    last = max(1, steps - 1)
    return Speed(sum(train[1:]) / last / size, sum(evaluate[1:]) / last / size)


def _finish() -> None:
    """Wait for what an accelerator has still to do."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
