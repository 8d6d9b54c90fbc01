"""Load a run to answer questions with: in the process of a user, or in a worker of an engine."""

from functools import lru_cache
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch

from mhgrn.engines.engine import Context, on_nodes, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.inference.answerer import QuestionAnswerer
from mhgrn.inference.open import OpenAnswerer
from mhgrn.open.run import OpenRun, is_open_run
from mhgrn.runs import Run
from mhgrn.scoring import find_device
from mhgrn.text.packed import TextPrecision, check_precision


def load_answerer(
    run: str | Path,
    kg: str | Path | None = None,
    features: str | None = None,
    device: str | torch.device = "cpu",
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
    text_precision: TextPrecision = "float32",
) -> QuestionAnswerer:
    """Load the run of a folder; see :func:`mhgrn.load`."""
    device = find_device(device)
    check_precision(text_precision)
    if is_open_run(run):
        return OpenAnswerer(OpenRun.load(run, kg, encoder, allow_download, allow_pickle), text_precision)
    loaded = Run.load(run, kg, features, encoder, allow_download, allow_pickle)
    return QuestionAnswerer(loaded, device, text_precision=text_precision)


def loading_context(qa: QuestionAnswerer, options: Context) -> Context:
    """What :func:`answerer_of` needs to load the same run on a node.

    Args:
        qa: The loaded run.
        options: The other arguments of :func:`load_answerer`, as JSON values.
    """
    run = qa.open_run if isinstance(qa, OpenAnswerer) else qa.run
    return {"run": place_on_nodes(run.folder), "options": on_nodes(options), "fingerprints": run.fingerprints()}


def answerer_of(context: Context) -> QuestionAnswerer:
    """Load a run from its :func:`loading_context`. The process keeps it. Another one is refused."""
    return _answerer(dumps(context, sort_keys=True))


@lru_cache(maxsize=1)
def _answerer(context: str) -> QuestionAnswerer:
    about: dict[str, Any] = loads(context)
    qa = load_answerer(about["run"], **about["options"])
    run = qa.open_run if isinstance(qa, OpenAnswerer) else qa.run
    check_same(f"the run {about['run']}", run.fingerprints(), about["fingerprints"])
    return qa
