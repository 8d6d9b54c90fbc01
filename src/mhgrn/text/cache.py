"""Vectors and token states of a frozen text encoder, computed once and stored."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter, save_array
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.stored import StoredArray, StoredFolder, read_folder
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.progress import say, track
from mhgrn.text.encoder import BATCH, TextEncoder, match
from mhgrn.text.tokens import Tokens

TOKENS_MARKER = "tokens.json"


class SentenceVectors:
    """The statement vectors of many questions from a frozen encoder. Every distinct text is encoded once."""

    def __init__(self, vectors: Tensor, stem: Tensor | None, choice: Tensor | None) -> None:
        self.vectors, self.stem, self.choice = vectors, stem, choice

    def __call__(self, statements: Tensor) -> Tensor:
        """Statement numbers [n] → s [n, sentence_dim]."""
        if self.stem is None or self.choice is None:
            return self.vectors[statements]
        return match(self.vectors[self.stem[statements]], self.vectors[self.choice[statements]])

    @classmethod
    def compute(cls, encoder: TextEncoder, pairs: Iterable[tuple[str, str]], cache: Path | None) -> "SentenceVectors":
        """Load the vectors of (stem, choice) pairs from the file ``cache``, or encode the pairs and write the file."""
        pairs = list(pairs)
        stem = choice = None
        if encoder.encoding == "separate":
            texts = sorted({text for pair in pairs for text in pair})
            row = {text: i for i, text in enumerate(texts)}
            stem, choice = (torch.tensor([row[pair[side]] for pair in pairs]) for side in (0, 1))
        if cache is not None and cache.exists():
            shape = (len(texts), encoder.width) if encoder.encoding == "separate" else (len(pairs), encoder.sentence_dim)
            return cls(_stored_vectors(cache, shape), stem, choice)
        before = encoder.truncated
        if encoder.encoding == "separate":
            vectors = encoder.embed_all(texts, "encoding texts")
        else:
            vectors = torch.empty(len(pairs), encoder.sentence_dim)
            order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
            with torch.inference_mode(), encoder.evaluating():
                for start in track(range(0, len(order), BATCH), "encoding statements"):
                    part = order[start : start + BATCH]
                    vectors[part] = encoder.sentences(*zip(*(pairs[i] for i in part), strict=True)).float().cpu()
        if encoder.truncated > before:
            most = encoder.settings.max_length
            say(f"{encoder.truncated - before:,} texts have more than text.max_length={most} tokens and were truncated.")
        if cache is not None:
            save_tensors(cache, {"vectors": vectors})
        return cls(vectors, stem, choice)


def _stored_vectors(cache: Path, shape: tuple[int, int]) -> Tensor:
    if not cache.is_file():
        raise UserError(f"{cache} is not a file; delete it, it is made again.")
    vectors = load_tensors(cache, is_own=True).get("vectors")
    if vectors is None or vectors.shape != shape or vectors.dtype != torch.float32:
        raise UserError(f"{cache} is damaged (its vectors do not fit the questions); delete it, it is made again.")
    return vectors


class TokenStates:
    """The token states of many statements from a frozen encoder, stored on disk in half precision.

    The states of a dataset do not fit into memory, and computing them in every epoch takes longer than training. So every distinct
    text is encoded once, and a batch reads its states from a memory-mapped file.
    """

    def __init__(self, states: StoredArray, pointer: NDArray[np.int64], of: Tensor) -> None:
        self._states, self._pointer = states, pointer
        self._of = of.numpy()  # [statements, 1 or 2] the numbers of a statement's texts

    def __call__(self, statements: Tensor) -> Tokens:
        """Statement numbers [n] → their tokens."""
        parts = [[self._text(i) for i in self._of[s]] for s in statements.tolist()]
        return Tokens.pad([torch.from_numpy(np.concatenate(part).astype(np.float32)) for part in parts])

    def _text(self, number: int) -> NDArray[np.float16]:
        start, stop = int(self._pointer[number]), int(self._pointer[number + 1])
        self._states.ensure(start, stop)
        states: NDArray[np.float16] = self._states.values[start:stop]
        return states

    @classmethod
    def compute(cls, encoder: TextEncoder, pairs: Sequence[tuple[str, str]], folder: Path) -> "TokenStates":
        """Load the states of (stem, choice) pairs from ``folder``, or encode the pairs and write the folder."""
        separate = encoder.encoding == "separate"
        # texts of similar length together: a batch is padded to its longest text
        units = sorted(
            {(text,) for pair in pairs for text in pair} if separate else set(pairs), key=lambda u: (sum(map(len, u)), u)
        )
        number = {unit: i for i, unit in enumerate(units)}
        of = torch.tensor([[number[text,] for text in pair] if separate else [number[pair]] for pair in pairs])
        if not (folder / TOKENS_MARKER).is_file():
            cls._write(encoder, units, folder)

        def read(stored: StoredFolder) -> "TokenStates":
            if stored.about["texts"] != len(units) or stored.about["width"] != encoder.width:
                raise UserError(f"{folder} is damaged (it does not fit the questions); delete it, it is made again.")
            states = stored.array("states", "float16", width=encoder.width)
            pointer = stored.array("pointer", "int64", length=len(units) + 1, high=len(states.values), is_pointer=True)
            pointer.ensure()
            return cls(states, pointer.values, of)

        return read_folder(folder, TOKENS_MARKER, "cache of token states", 1, read, {"texts": int, "width": int})

    @staticmethod
    def _write(encoder: TextEncoder, units: Sequence[tuple[str, ...]], folder: Path) -> None:
        with new_folder(folder, TOKENS_MARKER) as partial, torch.inference_mode(), encoder.evaluating():
            writer = ArrayWriter(partial / "states.npy", np.float16, encoder.width)
            pointer = [0]
            try:
                for start in track(range(0, len(units), BATCH), "encoding tokens"):
                    part = list(zip(*units[start : start + BATCH], strict=True))
                    for rows in (encoder.encode_texts(part[0]) if len(part) == 1 else encoder.encode_pairs(*part)).states():
                        writer.append(rows.half().cpu().numpy())
                        pointer.append(pointer[-1] + len(rows))
            finally:
                writer.close()
            save_array(partial / "pointer.npy", np.array(pointer))
            write_marker(partial / TOKENS_MARKER, {"format": 1, "texts": len(units), "width": encoder.width})
