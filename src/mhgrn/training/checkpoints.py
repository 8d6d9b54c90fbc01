"""Checkpoints of a training: weights, optimizer, random states and position, in one file without pickle."""

import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhgrn.config import Config, changed_settings
from mhgrn.errors import UserError
from mhgrn.io.tensors import load_metadata, load_tensors, save_tensors
from mhgrn.runs import TEXT_PREFIX, Run

CHECKPOINT = "checkpoint.safetensors"
MODEL, OPTIMIZER, RANDOM = "model.", "optimiser.", "random"


@dataclass
class Place:
    """The position of a training, and its sums over the current epoch."""

    epoch: int = 0  # epochs done
    step_in_epoch: int = 0
    step: int = 0  # steps done in all
    loss: float = 0.0  # sum over this epoch's questions
    chance: float = 0.0  # the same for a model that knows nothing: Σ log (number of choices)
    from_chance: float = 0.0  # sum of how far each question's loss was from that
    questions: int = 0  # trained on in this epoch
    spread: float = 0.0  # largest difference between two choices' scores in this epoch
    seconds: float = 0.0  # spent on this epoch
    best: dict[str, Any] = field(default_factory=dict)  # the best epoch's row, and when dev accuracy last rose
    log_bytes: int = 0  # of metrics.jsonl so far

    def next_epoch(self) -> None:
        self.epoch += 1
        self.step_in_epoch = self.questions = 0
        self.loss = self.chance = self.from_chance = self.spread = self.seconds = 0.0


class Clock:
    """Decides when a checkpoint is due: every so many steps or minutes."""

    def __init__(self, every: int | str) -> None:
        number, _, unit = str(every).partition(" ")
        self.steps = None if unit == "minutes" else int(number)
        self.seconds = 60 * float(number)
        self.restart()

    def restart(self) -> None:
        self._since = time.monotonic()

    def is_due(self, step: int) -> bool:
        return step % self.steps == 0 if self.steps is not None else time.monotonic() - self._since >= self.seconds


def save_checkpoint(
    run: Run, optimizer: torch.optim.Optimizer, scaler: Any, place: Place, randomness: Tensor, text_changed: bool
) -> None:
    """Write the checkpoint of ``run.folder``. The last one stays until this one is complete."""
    tensors = {MODEL + name: tensor for name, tensor in run.model.state_dict().items()}
    if text_changed:
        tensors |= {TEXT_PREFIX + name: tensor for name, tensor in run.encoder.model.state_dict().items()}
    state = optimizer.state_dict()
    for number, values in state["state"].items():
        tensors |= {f"{OPTIMIZER}{number}.{name}": torch.as_tensor(value) for name, value in values.items()}
    tensors[RANDOM] = randomness
    about = {"place": asdict(place), "groups": state["param_groups"], "scaler": scaler.state_dict()}
    save_tensors(run.folder / CHECKPOINT, tensors, about)


def load_checkpoint(run: Run, optimizer: torch.optim.Optimizer, scaler: Any) -> tuple[Place, Tensor]:
    """Restore a checkpoint. Returns the position and the random states of all processes."""
    path = run.folder / CHECKPOINT
    tensors, about = load_tensors(path), load_metadata(path)
    try:
        randomness = tensors.pop(RANDOM)
        parts: dict[str, dict[str, Tensor]] = {MODEL: {}, TEXT_PREFIX: {}, OPTIMIZER: {}}
        for name, tensor in tensors.items():
            prefix = next(p for p in parts if name.startswith(p))
            parts[prefix][name.removeprefix(prefix)] = tensor
        run.model.load_state_dict(parts[MODEL])
        if parts[TEXT_PREFIX]:
            run.encoder.model.load_state_dict(parts[TEXT_PREFIX])
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts[OPTIMIZER].items():
            number, _, what = name.partition(".")
            state.setdefault(int(number), {})[what] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": about["groups"]})
        scaler.load_state_dict(about["scaler"])
        place = Place(**{f.name: about["place"][f.name] for f in fields(Place)})
    except (StopIteration, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{path} does not fit its run ({reason}); start over with --force.") from None
    return place, randomness


def random_state(device: torch.device) -> Tensor:
    """The states of all random number generators of this process, as a fixed number of bytes."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    version, numbers, next_gauss = random.getstate()
    python = [version, *numbers]
    parts = [
        torch.get_rng_state().numpy(),
        np.asarray(keys, dtype=np.uint32),
        np.array([position, has_gauss], dtype=np.int64),
        np.array([gauss, np.nan if next_gauss is None else next_gauss]),
        np.array(python, dtype=np.int64),
    ]
    if device.type == "cuda":
        parts.append(torch.cuda.get_rng_state(device).numpy())
    return torch.from_numpy(np.concatenate([part.view(np.uint8) for part in parts]))


def set_random_state(state: Tensor, device: torch.device) -> None:
    """Restore the states that :func:`random_state` returned."""
    sizes = [len(torch.get_rng_state()), 4 * 624, 16, 16, 8 * 626]
    torch_state, keys, numpy_ints, floats, python, cuda = (part.copy() for part in np.split(state.cpu().numpy(), np.cumsum(sizes)))
    torch.set_rng_state(torch.from_numpy(torch_state))
    position, has_gauss = numpy_ints.view(np.int64).tolist()
    gauss, next_gauss = floats.view(np.float64).tolist()
    np.random.set_state(("MT19937", keys.view(np.uint32), position, has_gauss, gauss))
    version, *numbers = python.view(np.int64).tolist()
    random.setstate((version, tuple(numbers), None if np.isnan(next_gauss) else next_gauss))
    if device.type == "cuda" and len(cuda):
        torch.cuda.set_rng_state(torch.from_numpy(cuda), device)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What decides a run and is not the same in two descriptions of one, each as a few words."""
    found = []
    for what, name in (
        ("graph_fingerprint", "the graph"),
        ("text_weights", "the text encoder's weights"),
        ("feature_dim", "the width of the node features"),
        ("processes", "the number of processes"),
    ):
        if before.get(what) != now[what]:
            is_number = isinstance(now[what], int)
            found.append(f"{name} was {before.get(what)} and is {now[what]}" if is_number else f"{name} is different")
    if before["data"].get("fingerprint") != now["data"]["fingerprint"]:
        found.append("the prepared data is different")
    try:
        return found + changed_settings(Config.restore(before["config"]), Config.restore(now["config"]))
    except UserError as error:
        return [*found, f"its settings cannot be read ({error})"]
