"""The optimizer with its parameter groups, and the learning-rate schedule."""

from typing import Any

import torch
from torch import nn

from mhgrn.config import Config, TrainingConfig
from mhgrn.runs import Run


def make_optimizer(run: Run, config: Config) -> torch.optim.RAdam:
    """RAdam with decoupled weight decay: none for biases and norms, and a separate learning rate for the text encoder.

    Groups 0 and 1 are the model's, 2 and 3 the text encoder's.
    """
    groups: list[dict[str, Any]] = []
    for module, rate in ((run.model, config.training.learning_rate), (run.encoder, config.text.learning_rate)):
        plain: list[nn.Parameter] = []
        decayed: list[nn.Parameter] = []
        for name, parameter in module.named_parameters():
            (plain if _is_plain(name, parameter, config.training) else decayed).append(parameter)
        groups += [
            {"params": decayed, "lr": rate, "weight_decay": config.training.weight_decay},
            {"params": plain, "lr": rate, "weight_decay": 0.0},
        ]
    return torch.optim.RAdam(groups, decoupled_weight_decay=True)


def _is_plain(name: str, parameter: nn.Parameter, settings: TrainingConfig) -> bool:
    if name.rpartition(".")[2] == "tau":
        return not settings.decay_transitions
    return name.endswith("bias") or "norm" in name.lower() or parameter.dim() == 1


def learning_rate_factor(settings: TrainingConfig, step: int, last: int) -> float:
    """The factor of both learning rates in a step, counted from 0, of a training of ``last`` steps.

    >>> settings = TrainingConfig(schedule="warmup_linear", warmup_steps=2)
    >>> [learning_rate_factor(settings, step, last=6) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if settings.schedule == "constant":
        return 1.0
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    if settings.schedule == "warmup_constant":
        return 1.0
    return max(0.0, (last - step) / max(1, last - settings.warmup_steps))
