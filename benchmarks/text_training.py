"""Forward and backward pass of a text encoder in training: with padding, and without.

    python benchmarks/text_training.py [--batch N] [--rounds N] [--json FILE]

The texts are those of a step of `mhgrn text tune` on the starter graph: questions about facts, and names of concepts. Both forms
take turns on the same texts, in bfloat16 where the processor has instructions for it. With padding, texts of similar length are
encoded together, in three groups of questions and three of names.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch

from measuring import Sample, add_json_option, compare, sample, write_json
from mhgrn.starter import build_graph
from mhgrn.text import encoder as encoding
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuning.pairs import FactPairs, PairOptions
from mhgrn.text.tuning.tuning import GROUPS, computes_bfloat16


def texts_of(batch: int) -> list[list[str]]:
    """Questions and names of a step, sorted by length."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = FactPairs(build_graph(Path(folder)), PairOptions(), None).batch(0, batch)
    return [sorted(texts, key=len) for texts in (drawn.questions, drawn.names)]


def batched(texts: list[str], size: int) -> list[list[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def differentiate(encoder: TextEncoder, groups: list[list[str]]) -> None:
    encoder.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=computes_bfloat16()):
        total = sum(encoder.embed(texts).float().sum() for texts in groups)
    assert isinstance(total, torch.Tensor)
    total.backward()  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=192, help="questions of a step (default: 192)")
    parser.add_argument("--rounds", type=int, default=7)
    add_json_option(parser)
    options = parser.parse_args()

    encoder = load_text_encoder(TextEncoderSettings())
    kinds = texts_of(options.batch)
    grouped = [group for texts in kinds for group in batched(texts, -(-len(texts) // GROUPS))]

    def with_padding() -> Sample:
        with patch.object(encoding, "unpadded", lambda model: None):
            return sample(lambda: differentiate(encoder, grouped))

    forms: dict[str, Callable[[], Sample]] = {
        "with padding": with_padding,
        "without": lambda: sample(lambda: differentiate(encoder, kinds)),
    }
    comparison = compare(forms, options.rounds)
    for name in forms:
        wall, cpu = comparison.seconds(name)
        print(f"{name:<16} {wall.text(' s')} a step, {cpu.text(' s')} of processor time")
    print(f"without padding: {comparison.ratio('with padding', 'without').times()}")
    print(comparison.conditions())
    write_json(options.json, {"comparison": comparison.as_json()})


if __name__ == "__main__":
    main()
