"""Checkpoints of a training: weights, optimizer, random states and position, in one file without pickle."""

import json
import math
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from mhgrn.config import Config, changed_settings
from mhgrn.errors import UserError
from mhgrn.io.stored import read_folder
from mhgrn.io.tensors import check_tensors, parse_metadata, parse_tensors, save_tensors
from mhgrn.printing import shortened
from mhgrn.runs import FORMAT, MARKER, TEXT_PREFIX
from mhgrn.text.encoder import TextEncoder

CHECKPOINT = "checkpoint.safetensors"
MODEL, OPTIMIZER, RANDOM = "model.", "optimiser.", "random"


class Trained(Protocol):
    """A run that is trained, on choices or on open questions."""

    @property
    def folder(self) -> Path: ...
    @property
    def model(self) -> nn.Module: ...
    @property
    def encoder(self) -> TextEncoder: ...


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

    def label(self, epochs: int) -> str:
        """What the progress bar says in a training of at most so many epochs."""
        loss = f"  loss {self.loss / self.questions:.4f}" if self.questions else ""
        dev = f"  best dev {self.best['dev_accuracy']:.1%}" if self.best else ""
        return f"epoch {self.epoch + 1} of at most {epochs}{loss}{dev}"


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
    run: Trained, optimizer: torch.optim.Optimizer, scaler: Any, place: Place, randomness: Tensor, text_changed: bool
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


def load_checkpoint(
    run: Trained, optimizer: torch.optim.Optimizer, scaler: Any, last: Place, random_shape: tuple[int, int]
) -> tuple[Place, Tensor]:
    """Restore a checkpoint. Returns the position and the random states of all processes.

    Args:
        run: The run, whose model and text encoder get the stored weights.
        optimizer: Gets the stored state.
        scaler: Gets the stored state.
        last: The last position that the training can have.
        random_shape: The number of processes, and the size of a random state.
    """
    path = run.folder / CHECKPOINT
    content = read_folder(run.folder, MARKER, "run", FORMAT, lambda stored: stored.content(CHECKPOINT))
    tensors, about = parse_tensors(content, path), parse_metadata(content, path)
    try:
        randomness = tensors.pop(RANDOM)
        parts: dict[str, dict[str, Tensor]] = {MODEL: {}, TEXT_PREFIX: {}, OPTIMIZER: {}}
        for name, tensor in tensors.items():
            prefix = next(p for p in parts if name.startswith(p))
            parts[prefix][name.removeprefix(prefix)] = tensor
        check_tensors(parts[MODEL], run.model.state_dict(), path, MODEL)
        if parts[TEXT_PREFIX]:
            check_tensors(parts[TEXT_PREFIX], run.encoder.model.state_dict(), path, TEXT_PREFIX)
        if randomness.shape != random_shape or randomness.dtype != torch.uint8:
            raise ValueError(f"the random states are {randomness.dtype} of shape {list(randomness.shape)}")
        place = _checked_place(about["place"], last)
        state = _checked_state(parts[OPTIMIZER], optimizer)
        groups = _checked_groups(about["groups"], optimizer)
        run.model.load_state_dict(parts[MODEL])
        if parts[TEXT_PREFIX]:
            run.encoder.model.load_state_dict(parts[TEXT_PREFIX])
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        scaler.load_state_dict(about["scaler"])
    except UserError:
        raise
    except (StopIteration, LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"{path} does not fit its run ({reason}); start over with --force.") from None
    return place, randomness


def _checked_place(stored: dict[str, Any], last: Place) -> Place:
    place = Place(**{f.name: stored[f.name] for f in fields(Place)})
    for name, value in asdict(place).items():
        of = type(getattr(Place(), name))
        if type(value) is not of and not (of is float and type(value) is int):
            raise ValueError(f"{name} is of type {type(value).__name__}")
        if of in (int, float) and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {shortened(value)}")
    for name in ("epoch", "step", "step_in_epoch"):
        if getattr(place, name) > getattr(last, name):
            raise ValueError(f"{name} is {shortened(getattr(place, name))}, but the training ends at {getattr(last, name)}")
    if place.best:
        accuracy, last_better = place.best["dev_accuracy"], place.best["last_better"]
        measured = accuracy, place.best.get("dev_mrr", 0.0)
        if type(last_better) is not int or not 0 <= last_better < place.epoch or not all(0 <= one <= 1 for one in measured):
            raise ValueError(f"its best epoch is {shortened(place.best)}")
    return place


def _checked_state(stored: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """The state of each parameter: torch loads any tensor as such, also one of another shape."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in stored.items():
        number, _, what = name.partition(".")
        parameter = parameters[int(number)]
        shape = torch.Size() if what == "step" else parameter.shape
        if what not in ("step", "exp_avg", "exp_avg_sq") or tensor.shape != shape or not tensor.is_floating_point():
            raise ValueError(f"{OPTIMIZER}{shortened(name)} is {tensor.dtype} of shape {list(tensor.shape)}")
        state.setdefault(int(number), {})[what] = tensor
    for place, found in state.items():
        if len(found) != 3:
            raise ValueError(f"{OPTIMIZER}{place} has only {', '.join(found)}")
    return state


def _checked_groups(stored: Any, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The settings of the optimizer, which must be those of the run; its learning rates change in every step."""
    groups = []
    for group, old in zip(optimizer.state_dict()["param_groups"], stored, strict=True):
        same = json.loads(json.dumps(group))  # tuples become lists
        if any(old[key] != value for key, value in same.items() if key in old and key != "lr"):
            raise ValueError("the settings of its optimizer are others")
        if type(old["lr"]) is not float or not 0 <= old["lr"] < math.inf:
            raise ValueError(f"a learning rate is {shortened(old['lr'])}")
        groups.append(group | {"lr": old["lr"]})
    return groups


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
    if not 0 <= position <= 624 or has_gauss not in (0, 1):  # numpy would read beyond its state
        raise ValueError(f"a random state has the position {position}")
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
    if before.get("likelihood_weights") != now.get("likelihood_weights"):
        found.append("the language model's weights are different")
    if before.get("started_from") != now.get("started_from"):
        found.append("the run that it starts from is different")
    if before["data"].get("fingerprint") != now["data"]["fingerprint"]:
        found.append("the prepared data is different")
    try:
        found += changed_settings(Config.restore(before["config"]), Config.restore(now["config"]))
    except UserError as error:
        return [*found, f"its settings cannot be read ({error})"]
    same_encoder = before["text_weights"] == now["text_weights"]  # at another place
    return [text for text in found if not (same_encoder and text.startswith("text.encoder was"))]
