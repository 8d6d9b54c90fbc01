"""Questions to explain: their facts, the model's attention to them, and the derivatives of the answer by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mhgrn.encoders._paths import PathEncoder
from mhgrn.explain import SmallestSet, Walk, WalkDistribution, attends_to_walks, decode_walks
from mhgrn.faithfulness.gradients import edge_gradients, integrated_gradients
from mhgrn.faithfulness.metrics import Floats, Ints
from mhgrn.inference.altered import FactMasks
from mhgrn.inference.batch import Read
from mhgrn.inference.searching import smallest_sets
from mhgrn.scoring import Scorer

WALKS = 24  # best walks by attention
INTEGRATION_POINTS = 10


@dataclass(frozen=True)
class Explained:
    """A batch of questions that the model has answered, with what the explanation methods share.

    Args:
        scorer: Scores graphs.
        read: The batch. Its tensors must not be of ``torch.inference_mode``.
        masks: The facts of each question.
        seeds: Of each question, for random explanations and ties.
        first_head: Use the attention of head 0, as the published code does.
    """

    scorer: Scorer
    read: Read
    masks: Sequence[FactMasks]
    seeds: Sequence[Sequence[int]]
    first_head: bool

    def __len__(self) -> int:
        return len(self.masks)

    def answer(self, q: int) -> int:
        """The number of the answer's statement in the batch."""
        return self.read.first[q] + self.read.best[q]

    def rng(self, q: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self.seeds[q], purpose])

    @cached_property
    def ties(self) -> list[Ints]:
        """[F] of each question: a random order that decides ties."""
        return [self.rng(q, 0).permutation(len(masks.facts)) for q, masks in enumerate(self.masks)]

    # ---- from edges to facts

    @cached_property
    def edge_question(self) -> Ints:
        """[E] the question of each edge of the batch."""
        graph = self.read.batch.batch[self.read.batch.edge_index[1]].numpy()
        owner: Ints = np.searchsorted(self.read.first, graph, side="right") - 1
        return owner

    @cached_property
    def edge_fact(self) -> Ints:
        """[E] the fact of each edge of the batch, as a number among its question's facts."""
        batch, symmetric = self.read.batch, self.read.knowledge.graph.schema.symmetric_ids
        half = batch.num_relations // 2
        source, target = (batch.concepts[ends].numpy() for ends in batch.edge_index)
        relation = batch.edge_type.numpy()
        is_reverse = relation >= half
        rows = np.stack([np.where(is_reverse, target, source), relation % half, np.where(is_reverse, source, target)], axis=1)
        number = np.zeros(len(rows), dtype=np.int64)
        for q, masks in enumerate(self.masks):
            mine = self.edge_question == q
            number[mine] = masks.facts.places(rows[mine], symmetric)
        return number

    def by_fact(self, value: Floats, edges: Ints | None = None) -> list[Floats]:
        """[F] of each question: the sums of values [E] over the edges of each fact: both directions, in all choices."""
        question, fact = self.edge_question, self.edge_fact
        if edges is not None:
            question, fact = question[edges], fact[edges]
        sums = []
        for q, masks in enumerate(self.masks):
            mine = question == q
            sums.append(np.bincount(fact[mine], value[mine], minlength=len(masks.facts)).astype(np.float64))
        return sums

    def facts_of(self, walk: Walk, q: int) -> list[int]:
        """The numbers of a walk's facts, in order."""
        return [self._edge_place[q][a, r, b] for a, r, b in zip(walk.nodes, walk.relations, walk.nodes[1:], strict=False)]

    @cached_property
    def _edge_place(self) -> list[dict[tuple[int, int, int], int]]:
        """Of each question: the fact of each edge of the answer's graph."""
        batch = self.read.batch
        graph = batch.batch[batch.edge_index[1]].numpy()
        found = []
        for q in range(len(self)):
            mine = np.flatnonzero(graph == self.answer(q))
            columns = batch.edge_index[0, mine], batch.edge_type[mine], batch.edge_index[1, mine]
            keys = zip(*(column.tolist() for column in columns), strict=True)
            found.append(dict(zip(keys, self.edge_fact[mine].tolist(), strict=True)))
        return found

    # ---- attention

    @cached_property
    def distributions(self) -> list[WalkDistribution] | None:
        """The attention to walks of each answer; None if the model has none."""
        read = self.read
        if not attends_to_walks(read.encoding):
            return None
        return [WalkDistribution.of(read.encoding, read.batch, self.answer(q), self.first_head) for q in range(len(self))]

    @cached_property
    def walks(self) -> list[list[Walk]]:
        """The best walks of each answer by attention."""
        read, encoder = self.read, self.scorer.run.model.graph_encoder
        if isinstance(encoder, PathEncoder):
            return [encoder.attended_walks(read.encoding, read.batch, self.answer(q), WALKS) for q in range(len(self))]
        return [decode_walks(walks, read.encoding.traces[:-1], WALKS) for walks in self.distributions or []]

    @cached_property
    def marginals(self) -> list[Floats]:
        """[F] of each question: the expected number of uses of each fact by the answer's walk."""
        found = []
        for q, walks in enumerate(self.distributions or []):
            marginals = walks.edge_marginals()
            found.append(self.by_fact(marginals.uses, marginals.edges)[q])
        return found

    @cached_property
    def smallest(self) -> list[SmallestSet]:
        """The smallest set of facts that carries each answer."""
        return smallest_sets(self.masks, self.first_head)

    # ---- derivatives

    @cached_property
    def gradients(self) -> list[Floats]:
        """[F] of each question: the derivative of the answer's logit by the weight of each fact."""
        return self.by_fact(edge_gradients(self.scorer, self.read, 1.0).numpy())

    @cached_property
    def integrated(self) -> list[Floats]:
        """[F] of each question: integrated gradients of the answer's logit from no facts to all facts."""
        return self.by_fact(integrated_gradients(self.scorer, self.read, INTEGRATION_POINTS).numpy())

    def completeness_gap(self, q: int) -> float:
        """How far the sum of the integrated gradients is from the difference that all facts make to the answer's logit."""
        masks = self.masks[q]
        both = torch.stack([masks.score, masks.scores(np.zeros((1, len(masks.facts)), dtype=bool))[0]])
        with_facts, without = _logits(both, self.read.best[q])
        return float(abs(self.integrated[q].sum() - (with_facts - without)))


def _logits(score: Tensor, answer: int) -> Tensor:
    rest = torch.cat([score[:, :answer], score[:, answer + 1 :]], 1)
    return score[:, answer] - rest.logsumexp(1)
