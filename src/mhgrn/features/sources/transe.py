"""TransE vectors, trained on the graph's facts by PyKEEN."""

import gc
import logging
import os
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from pydantic import Field

from mhgrn.errors import UserError
from mhgrn.features.folder import BLOCK, FeatureFolder, Request
from mhgrn.features.source import FeatureSource
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, say
from mhgrn.settings import Settings

LEARNING_RATE = 0.01
SLOW = 60  # seconds; longer training prints an estimate


class TransESettings(Settings):
    dim: int = Field(100, ge=1, le=65_536, description="width of the vectors")
    epochs: int = Field(100, ge=1, le=10**6, description="training epochs")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="random seed")


class TransESource(FeatureSource):
    """TransE: vectors h of concepts and r of relations such that h + r ≈ t for the graph's facts.

    All facts are used for training, even if only some concepts are requested. A concept without facts has no vector.
    """

    name = "transe"
    summary = "TransE, trained on the graph's facts by PyKEEN"
    Settings = TransESettings
    settings: TransESettings
    opens_directly = False
    always_in_key = ("dim", "epochs", "seed")

    def __init__(self, graph: KnowledgeGraph, settings: TransESettings | None = None) -> None:
        super().__init__(graph, settings)
        self.dim = self.settings.dim
        if not graph.fact_count:
            raise UserError(f"{graph.folder or 'the graph'} has no facts to train on.")

    def write(self, request: Request, place: Path) -> FeatureFolder:
        graph, settings = self.graph, self.settings
        heads, tails = graph.heads(), np.asarray(graph.tail, dtype=np.int64)
        facts = np.stack([heads, np.asarray(graph.relation, dtype=np.int64), tails], axis=1)
        entities, relations = _train(facts, len(graph), len(graph.schema), settings)
        has_fact = np.zeros(len(graph), dtype=bool)
        has_fact[heads] = has_fact[tails] = True
        covered = request.concepts[has_fact[request.concepts]]
        blocks = (entities[covered[start : start + BLOCK]] for start in range(0, len(covered), BLOCK))
        return request.write(place, covered, blocks, self.dim, relations)


def _train(facts: Ints, concepts: int, relations: int, settings: TransESettings) -> tuple[Any, Any]:
    """The vectors of concepts and of relations."""
    epochs = settings.epochs
    with TemporaryDirectory() as elsewhere, warnings.catch_warnings(), bar("training TransE", epochs) as advance:
        warnings.simplefilter("ignore")  # about deprecations inside PyKEEN and missing accelerators
        os.environ.setdefault("PYSTOW_HOME", elsewhere)  # otherwise PyKEEN creates folders in the user's home
        try:
            from pykeen.models import TransE
            from pykeen.training import SLCWATrainingLoop
            from pykeen.training.callbacks import TrainingCallback
            from pykeen.triples import CoreTriplesFactory
        except ImportError:
            raise UserError("TransE needs PyKEEN: pip install 'mhgrn[transe]'") from None
        logging.getLogger("pykeen").setLevel(logging.ERROR)
        ends: list[float] = []  # end times of epochs

        class Progress(TrainingCallback):  # type: ignore[misc]
            def post_epoch(self, epoch: int, epoch_loss: float, **_: Any) -> None:
                ends.append(time.perf_counter())
                # the first epoch includes set-up, so the second one is measured
                if len(ends) == 2 and (left := (ends[1] - ends[0]) * (epochs - 2)) > SLOW:
                    say(f"{epochs - 2} more epochs of {ends[1] - ends[0]:.1f} seconds: about {left / 60:.0f} minutes.")
                advance(epoch)

        factory = CoreTriplesFactory(torch.from_numpy(facts), num_entities=concepts, num_relations=relations)
        model = TransE(triples_factory=factory, embedding_dim=settings.dim, random_seed=settings.seed)
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
        gc.freeze()  # PyKEEN collects garbage after every epoch; skip the objects that exist now
        try:
            loop.train(
                factory,
                num_epochs=epochs,
                # the cost of a step grows with the number of concepts, so a large graph gets large batches
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
