"""The batches of a study: computed in this process, or by the workers of an engine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from mhgrn.engines import Session, Work
from mhgrn.engines.engine import Context, Item, on_nodes, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.faithfulness import measuring
from mhgrn.faithfulness.methods import METHODS
from mhgrn.faithfulness.metrics import Floats
from mhgrn.faithfulness.robustness import PERTURBATIONS
from mhgrn.faithfulness.study import Alter, Study, without_graph
from mhgrn.progress import bar
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData


class Alteration(NamedTuple):
    """How the graphs of questions are altered: see :data:`PERTURBATIONS`; the other names are ``whole`` and ``none``."""

    name: str = "whole"
    strength: float = 0.0

    def function(self, study: Study) -> Alter | None:
        if self.name == "whole":
            return None
        if self.name == "none":
            return without_graph
        schema, perturb = study.run.graph.schema, PERTURBATIONS[self.name]
        symmetric, relations = frozenset(schema.symmetric_ids), len(schema)
        return lambda q, subgraphs: perturb(subgraphs, self.strength, study.seed, symmetric, relations)


class Scoring(NamedTuple):
    """Questions to score with altered graphs."""

    alteration: Alteration
    questions: Sequence[int]


class Explaining(NamedTuple):
    """A batch of questions to explain."""

    questions: list[int]
    methods: list[str]  # to measure
    limited: list[int]  # those whose attainable limits are searched


def explain(study: Study, batch: Explaining) -> Iterator[dict[str, Any]]:
    """Results of a batch by their names in the store: of the questions, then of each method, then the limits."""
    explained = study.explained(batch.questions)
    rows = measuring.base_rows(explained, batch.questions)
    yield {f"question {q}": row for q, row in zip(batch.questions, rows, strict=True)}
    for name in batch.methods:
        found = measuring.measured(explained, METHODS[name], rows)
        values: dict[str, Any] = {f"question {q} {name}": row for q, row in zip(batch.questions, found, strict=True)}
        if name == "integrated":
            values |= {f"gap {q}": explained.completeness_gap(place) for place, q in enumerate(batch.questions)}
        yield values
    for some in study.batches(batch.limited):
        searched = study.explained(some)
        limits = measuring.limits(searched, measuring.base_rows(searched, some))
        yield {f"limits {q}": limit for q, limit in zip(some, limits, strict=True)}


@dataclass(frozen=True)
class Computing:
    """Computes the batches of a study.

    Args:
        study: The study.
        session: Of an engine. None: this process computes.
        loaded_with: How nodes load the run: the arguments of :meth:`Run.load` besides the folder.
    """

    study: Study
    session: Session | None = None
    loaded_with: Context = field(default_factory=dict)

    def scores(self, wanted: Mapping[str, Scoring]) -> Iterator[tuple[str, list[Floats]]]:
        """The scores of questions by name, in order."""
        study = self.study
        batches = [(name, of.alteration, part) for name, of in wanted.items() for part in study.batches(of.questions)]
        found: Iterator[list[list[float]]]
        if self.session is None:
            found = ([score.tolist() for score in study.scores(part, of.function(study))] for _, of, part in batches)
        else:
            parts = [[self._item(q) | {"alteration": list(of)} for q in part] for _, of, part in batches]
            found = map(json.loads, self.session.map(self._work(scores_of_part, parts)))
        with bar("scoring questions", len(batches)) as advance:
            numbered = enumerate(zip(batches, found, strict=True), start=1)
            for name, group in groupby(numbered, key=lambda one: one[1][0][0]):
                scores: list[Floats] = []
                for number, (_, part_scores) in group:
                    scores += map(np.array, part_scores)
                    advance(number, name)
                yield name, scores

    def explained(self, batches: Sequence[Explaining]) -> Iterator[tuple[Explaining, dict[str, Any]]]:
        """The results of batches by their names, see :func:`explain`; a batch may have several."""
        if self.session is None:
            yield from ((batch, found) for batch in batches for found in explain(self.study, batch))
            return
        parts = [[self._item(q) | {"methods": b.methods, "is_limited": q in b.limited} for q in b.questions] for b in batches]
        results = self.session.map(self._work(explanations_of_part, parts))
        yield from zip(batches, map(json.loads, results), strict=True)

    def _item(self, q: int) -> Item:
        return {"id": self.study.data.questions[q].id, "question": q}

    def _work(self, function: Any, parts: list[list[Item]]) -> Work:
        study = self.study
        study.warm_up()  # what is stored with the data is computed once, and not by each node
        context = {
            "run": place_on_nodes(study.run.folder),
            "loaded_with": on_nodes(self.loaded_with),
            "data": place_on_nodes(study.data.folder),
            "split": study.split,
            "seed": study.seed,
            "fingerprints": study.fingerprints(),
        }
        return Work(function, context, parts, torch.get_num_threads())


def scores_of_part(context: Context, items: list[Item]) -> bytes:
    """The scores of a batch, as JSON. The process keeps the study."""
    study = _study(json.dumps(context, sort_keys=True))
    alter = Alteration(*items[0]["alteration"]).function(study)
    scores = study.scores([item["question"] for item in items], alter)
    return json.dumps([score.tolist() for score in scores]).encode()


def explanations_of_part(context: Context, items: list[Item]) -> bytes:
    """All results of :func:`explain`, as JSON. The process keeps the study."""
    limited = [item["question"] for item in items if item["is_limited"]]
    batch = Explaining([item["question"] for item in items], items[0]["methods"], limited)
    found: dict[str, Any] = {}
    for values in explain(_study(json.dumps(context, sort_keys=True)), batch):
        found |= values
    return json.dumps(found).encode()


@lru_cache(maxsize=1)
def _study(context: str) -> Study:
    about = json.loads(context)
    run = Run.load(about["run"], **about["loaded_with"])
    study = Study(run, PreparedData.load(about["data"]), about["split"], seed=about["seed"])
    check_same(f"the run {about['run']} or the data {about['data']}", study.fingerprints(), about["fingerprints"])
    return study
