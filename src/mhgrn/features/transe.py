"""Features from the graph alone: TransE, trained on its facts by PyKEEN."""

import gc
import logging
import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from mhgrn.errors import UserError
from mhgrn.features.folder import BLOCK, HOLDS, MARKER, FeatureFolder, Request, reached
from mhgrn.io.folders import check_replaceable
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, say

LEARNING_RATE = 0.01
SLOW = 60  # seconds from which on the time is told beforehand


def from_transe(
    graph: KnowledgeGraph,
    folder: str | Path | None = None,
    only: Iterable[str | Path] = (),
    dim: int = 100,
    epochs: int = 100,
    seed: int = 0,
) -> FeatureFolder:
    """A concept's vector h and a relation's r such that h + r ≈ t for the graph's facts; the relations' are kept too.

    All facts are trained on, whatever ``only`` says of the concepts to keep. A concept without a fact has no vector.
    """
    concepts = reached(graph, only)
    if not graph.fact_count:
        raise UserError(f"{graph.folder or 'the graph'} has no fact to train on.")
    request = Request(graph, concepts, {"from": "transe", "dim": dim, "epochs": epochs, "seed": seed})
    place = check_replaceable(request.place(folder), MARKER, HOLDS)
    if (found := request.finished(place)) is not None:
        say(f"{place} is there already.")
        return found
    heads, tails = graph.heads(), np.asarray(graph.tail, dtype=np.int64)
    facts = np.stack([heads, np.asarray(graph.relation, dtype=np.int64), tails], axis=1)
    entities, relations = _train(facts, len(graph), len(graph.schema), dim, epochs, seed)
    has_fact = np.zeros(len(graph), dtype=bool)
    has_fact[heads] = has_fact[tails] = True
    covered = concepts[has_fact[concepts]]
    blocks = (entities[covered[start : start + BLOCK]] for start in range(0, len(covered), BLOCK))
    return request.write(place, covered, blocks, dim, relations)


def _train(facts: Ints, concepts: int, relations: int, dim: int, epochs: int, seed: int) -> tuple[Any, Any]:
    """The vectors of concepts and of relations."""
    with TemporaryDirectory() as elsewhere, warnings.catch_warnings(), bar("training TransE", epochs) as advance:
        warnings.simplefilter("ignore")  # of its own old parts, and of accelerators that are not there
        os.environ.setdefault("PYSTOW_HOME", elsewhere)  # PyKEEN makes folders for data sets in the user's home, unasked
        try:
            from pykeen.models import TransE
            from pykeen.training import SLCWATrainingLoop
            from pykeen.training.callbacks import TrainingCallback
            from pykeen.triples import CoreTriplesFactory
        except ImportError:
            raise UserError("TransE is trained by PyKEEN, which is not installed: pip install 'mhgrn[transe]'") from None
        logging.getLogger("pykeen").setLevel(logging.ERROR)
        ends: list[float] = []  # of epochs

        class Progress(TrainingCallback):  # type: ignore[misc]
            def post_epoch(self, epoch: int, epoch_loss: float, **_: Any) -> None:
                ends.append(time.perf_counter())
                # the first epoch also sets things up, so the second one is the measure
                if len(ends) == 2 and (left := (ends[1] - ends[0]) * (epochs - 2)) > SLOW:
                    say(f"{epochs - 2} more epochs of {ends[1] - ends[0]:.1f} seconds: about {left / 60:.0f} minutes.")
                advance(epoch)

        factory = CoreTriplesFactory(torch.from_numpy(facts), num_entities=concepts, num_relations=relations)
        model = TransE(triples_factory=factory, embedding_dim=dim, random_seed=seed)
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
        gc.freeze()  # PyKEEN collects garbage after every epoch, and would look through all modules each time
        try:
            loop.train(
                factory,
                num_epochs=epochs,
                # a step costs as much as there are concepts, so a large graph takes large ones
                batch_size=int(np.clip(len(facts) // 64, 256, 16_384)),
                num_workers=0,
                use_tqdm=False,
                callbacks=Progress(),
            )
        finally:
            gc.unfreeze()
        with torch.inference_mode():
            entities, between = (r[0](None).numpy() for r in (model.entity_representations, model.relation_representations))
    return entities, between
