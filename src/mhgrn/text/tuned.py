"""The description of a tuned text encoder: ``tuning.json`` in its folder."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from mhgrn.errors import UserError
from mhgrn.io.stored import read_folder
from mhgrn.text.settings import TextEncoderSettings

MARKER = "tuning.json"
FORMAT = 1
KIND = "tuned text encoder"
KEYS = {"options": dict, "graph": str, "before": dict, "finished": bool}


class TunedEncoder(NamedTuple):
    """How a tuned text encoder reads texts, and what it was made from. None: not stored."""

    encoding: str | None
    pooling: str | None
    base_checksum: str | None  # of the weights before tuning
    base: str | None  # the path from this folder to the untuned encoder, if that is a folder

    def applied(self, settings: TextEncoderSettings) -> TextEncoderSettings:
        """The settings with ``auto`` replaced by what the encoder was tuned with."""
        encoding = self.encoding if settings.encoding == "auto" else settings.encoding
        if self.encoding is None or encoding != self.encoding:
            return settings
        pooling = self.pooling if settings.pooling == "auto" else settings.pooling
        return settings.model_copy(update={"encoding": encoding, "pooling": pooling})


def read_tuned(folder: Path) -> TunedEncoder | None:
    """What a folder says of its tuning; None if it holds no tuned text encoder. An unfinished one is refused."""
    if not os.path.isfile(folder / MARKER):
        return None
    about = read_about(folder)
    if not about["finished"]:
        raise UserError(f"{folder} contains an unfinished tuning of a text encoder; resume it with `mhgrn text tune`.")
    return TunedEncoder(about.get("encoding"), about.get("pooling"), about.get("base_checksum"), about.get("base"))


def read_about(folder: Path) -> dict[str, Any]:
    """Read and check ``tuning.json``."""
    about = read_folder(folder, MARKER, KIND, FORMAT, lambda stored: stored.about, KEYS)
    steps, shares = about.get("steps"), [about["before"].get(key) for key in ("held_out", "questions")]
    is_right = {
        "encoding": about.get("encoding") in (None, "separate", "pair"),
        "pooling": about.get("pooling") in (None, "mean", "cls", "pooler", "last"),
        "precision": about.get("precision") in (None, "float32", "bfloat16"),
        "base_checksum": isinstance(about.get("base_checksum"), str | None),
        "base": isinstance(about.get("base"), str | None),
        "steps": steps is None or (type(steps) is int and steps > 0),
        "before": all(share is None or (isinstance(share, int | float) and 0 <= share <= 1) for share in shares),
    }
    if wrong := [key for key, right in is_right.items() if not right]:
        raise UserError(f"{folder / MARKER} is damaged ({wrong[0]} has an impossible value); build the {KIND} again.")
    return about
