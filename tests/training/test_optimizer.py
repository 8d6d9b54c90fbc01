from itertools import pairwise

import pytest
import torch

from mhgrn.config import Config, TrainingConfig
from mhgrn.model import build_model
from mhgrn.training.optimizer import learning_rate_factor, make_optimizer


@pytest.mark.parametrize("schedule", ["constant", "warmup_constant", "warmup_linear"])
@pytest.mark.parametrize("warmup", [0, 1, 10, 50])
def test_schedules(schedule: str, warmup: int) -> None:
    settings = TrainingConfig(schedule=schedule, warmup_steps=warmup)
    factors = [learning_rate_factor(settings, step, last=40) for step in range(40)]
    assert all(0 < factor <= 1 for factor in factors)
    top = 0 if schedule == "constant" else min(warmup, 40)
    assert factors[:top] == sorted(factors[:top])
    after = factors[top:]
    if schedule == "warmup_linear":
        falls = [a - b for a, b in pairwise(after)]
        assert falls == pytest.approx([1 / max(1, 40 - warmup)] * len(falls))
        assert not after or after[-1] == pytest.approx(1 / (40 - warmup))
    else:
        assert after == [1.0] * len(after)


class Text(torch.nn.Module):
    """As much of a text encoder as the model's widths need."""

    width, sentence_dim, encoding = 6, 6, "pair"

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(6, 6)
        self.LayerNorm = torch.nn.LayerNorm(6)


@pytest.mark.parametrize("on_tau", [True, False])
def test_weight_decay_spares_biases_norms_and_transitions_if_wanted(on_tau: bool) -> None:
    config = Config.of({"training": {"decay_transitions": on_tau, "learning_rate": 0.5}, "text": {"learning_rate": 0.25}})
    text = Text()
    model = build_model(config, text, 5, 4)
    run = type("Run", (), {"model": model, "encoder": text})
    optimizer = make_optimizer(run, config)
    decay = {id(p): (g["weight_decay"], g["lr"]) for g in optimizer.param_groups for p in g["params"]}
    named = {**dict(model.named_parameters()), **dict(text.named_parameters())}
    assert len(decay) == len(named)
    for name, parameter in model.named_parameters():
        decayed = not name.endswith("bias") and (on_tau or not name.endswith("tau"))
        assert decay[id(parameter)] == (0.01 if decayed and parameter.dim() > 1 else 0.0, 0.5), name
    assert decay[id(text.dense.weight)] == (0.01, 0.25)
    assert decay[id(text.dense.bias)] == decay[id(text.LayerNorm.weight)] == (0.0, 0.25)
