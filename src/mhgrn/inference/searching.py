"""The smallest sets of facts that carry the answers of a batch, searched together; see :mod:`mhgrn.explain.smallest_set`."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders._paths import PathEncoder
from mhgrn.explain import Walk, WalkDistribution, attends_to_walks
from mhgrn.explain.judge import Judge
from mhgrn.explain.smallest_set import Candidates, Request, Search, Set, SmallestSet, ranked, search
from mhgrn.explain.walk_graph import Floats, Ints, Mask
from mhgrn.inference.altered import FactMasks, score_masks
from mhgrn.inference.evidence_set import stored_direction
from mhgrn.kg.graph import Fact
from mhgrn.scoring import Graphs, TextVectors
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens

WALKS = 6  # best walks by attention
USED = 8  # facts with the largest marginals
DIRECT = 12  # facts between a concept of the question and one of the answer
SCORED = 30_000  # facts of the graphs that are scored for the sets of one size: more sets are tried on small graphs
WIDTH = (6, 48)  # sets of each size that are removed
REMOVED = 4  # times as many single facts are removed if there are no derivatives
RIVAL = 0.15  # part in the probability of all other choices from which on derivatives count a choice
STEEPEST = 24  # facts with the largest derivatives
COMPLETED = 2  # ways to complete a fact to a walk


def smallest_sets(masks: Sequence[FactMasks], first_head: bool = False) -> list[SmallestSet]:
    """Find the smallest set of facts that carries the answer, for some questions of a batch.

    A set's facts are numbers of :attr:`FactMasks.facts`. All searches advance together, so their graphs are scored together.

    Args:
        masks: The questions.
        first_head: Use the attention of head 0, as the published code does.
    """
    if not masks:
        return []
    score_masks([(of, np.zeros((0, len(of.facts)), dtype=bool)) for of in masks], without_graph=True)
    searches = [_search(of, Proposals(of, first_head)) for of in masks]
    found: dict[int, SmallestSet] = {}
    requests: dict[int, Request] = {}
    for number, one in enumerate(searches):
        requests[number] = next(one)
    while requests:
        scored = [number for number, request in requests.items() if not request.gradient]
        scores = score_masks([(masks[number], requests[number].keep) for number in scored])
        replies: dict[int, Floats] = {number: score.numpy() for number, score in zip(scored, scores, strict=True)}
        for number, request in requests.items():
            if request.gradient:
                replies[number] = fact_gradients(masks[number], request.keep)
        requests = {}
        for number, reply in replies.items():
            try:
                requests[number] = searches[number].send(reply)
            except StopIteration as end:
                found[number] = end.value
    return [found[number] for number in range(len(masks))]


def _search(masks: FactMasks, proposed: "Proposals") -> Search:
    judge = Judge(masks.read.best[masks.q], masks.score.numpy(), masks.without_graph.numpy())
    least, most = WIDTH
    width = min(max(SCORED // max(1, len(masks.facts.number[judge.answer])), least), most)
    if not judge.dependent:
        return search(judge, Candidates((), (), proposed.mine), width)
    return search(judge, proposed.candidates(width), width)


class Proposals:
    """Facts and walks of one question that may carry its answer.

    Args:
        masks: The question.
        first_head: Use the attention of head 0.
    """

    def __init__(self, masks: FactMasks, first_head: bool) -> None:
        self.encoder, self.masks, self.first_head = masks.scorer.run.model.graph_encoder, masks, first_head
        self.choice = masks.read.best[masks.q]
        self.statement = masks.first + self.choice
        self.mine = masks.facts.mask(masks.facts.number[self.choice].tolist())  # [F] the facts of the answer's graph

    def candidates(self, width: int) -> Candidates:
        """The best walks by attention, the most used facts, and those between question and answer. For a model without
        derivatives also other facts: those of the answer's graph first, and of these the ones of the question's and the answer's
        concepts."""
        walks = [tuple(sorted({*self._facts_of(walk)})) for walk in self._walks()]
        walks = [walk for walk in dict.fromkeys(walks) if walk]
        direct = np.flatnonzero((self._ends == QUESTION).any(1) & (self._ends == ANSWER).any(1))
        facts = [fact for walk in walks for fact in walk] + self._most_used() + direct[:DIRECT].tolist()
        if not self.encoder.weighs_edges:
            mentioned = np.isin(self._ends, (QUESTION, ANSWER)).sum(1) + 3 * self.mine  # facts of other choices come last
            facts = [*facts, *np.argsort(-mentioned, kind="stable").tolist()]
            facts = list(dict.fromkeys(facts))[: REMOVED * width]
        return Candidates(list(dict.fromkeys(facts)), walks, self.mine, self.encoder.weighs_edges, self._completed)

    @cached_property
    def _ends(self) -> Ints:
        """[F, 2] the types of the two concepts of each fact of the answer's graph; -1 for other facts."""
        subgraph = self.masks.facts.subgraphs[self.choice]
        types = np.full((len(self.masks.facts), 2), -1)
        concepts, mine = np.asarray(subgraph.concepts, dtype=np.int64), self.masks.facts.facts[self.mine][:, [0, 2]]
        order = np.argsort(concepts)
        types[self.mine] = np.asarray(subgraph.types)[order[np.searchsorted(concepts[order], mine)]]
        return types

    @cached_property
    def _distribution(self) -> WalkDistribution | None:
        read = self.masks.read
        if not attends_to_walks(read.encoding) or not self.mine.any():
            return None
        return read.walks(self.statement, self.first_head)

    def _walks(self) -> list[Walk]:
        read = self.masks.read
        if isinstance(self.encoder, PathEncoder):
            return self.encoder.attended_walks(read.encoding, read.batch, self.statement, WALKS)
        return [] if self._distribution is None else read.best_walks(self.statement, self.first_head, WALKS)

    def _most_used(self) -> list[int]:
        if self._distribution is None:
            return []
        marginals = self._distribution.edge_marginals()
        batch = self.masks.read.batch
        source, target = batch.edge_index[:, marginals.edges].numpy()
        uses = sums(self._numbers(source, target, batch.edge_type[marginals.edges].numpy()), marginals.uses, len(self.masks.facts))
        return ranked(uses, USED)

    def _facts_of(self, walk: Walk) -> list[int]:
        nodes = np.array(walk.nodes, dtype=np.int64)
        found: list[int] = self._numbers(nodes[:-1], nodes[1:], np.array(walk.relations, dtype=np.int64)).tolist()
        return found

    def _numbers(self, source: Ints, target: Ints, relation: Ints) -> Ints:
        return edge_facts(self.masks, self.masks.read.batch, source, target, relation)

    def _completed(self, fact: int, effect: Floats) -> Iterator[Set]:
        """A fact of a concept of the question, or of the answer, with those that lead on from it to the other side."""
        for end in (0, 1):
            here, there = self._ends[fact, end], self._ends[fact, 1 - end]
            if here not in (QUESTION, ANSWER) or there in (QUESTION, ANSWER, -1):
                continue
            middle = self.masks.facts.facts[fact, 2 * (1 - end)]
            ends = self.masks.facts.facts[:, [0, 2]]
            wanted = ANSWER if here == QUESTION else QUESTION
            leads_on = ((ends == middle) & (self._ends[:, ::-1] == wanted)).any(1)
            on = np.flatnonzero(leads_on & self.mine)
            yield from (tuple(sorted((fact, int(on[place])))) for place in ranked(effect[on], COMPLETED))


def edge_facts(masks: FactMasks, batch: GraphBatch, source: Ints, target: Ints, relation: Ints) -> Ints:
    """[n] the facts of edges of a batch, by the numbers of their nodes and their relations."""
    half, concepts = batch.num_relations // 2, batch.concepts.numpy()
    is_reverse = (relation >= half)[:, None]
    rows = np.stack([concepts[source], relation % half, concepts[target]], axis=1)
    return masks.facts.places(np.where(is_reverse, rows[:, ::-1], rows), masks.read.knowledge.graph.schema.symmetric_ids)


def fact_gradients(masks: FactMasks, keep: Mask, choices: Sequence[int] = ()) -> Floats:
    """[M, F] the derivatives of the log odds of a choice against others by the weight of each fact, 1 for facts that are there.

    Args:
        masks: The question. Its graph encoder must weigh edges.
        keep: [M, F] the facts that are there; the derivative by the others is 0.
        choices: The choice and the others; by default the answer and its :func:`rivals`, because others hardly count.
    """
    read, scorer, answer = masks.read, masks.scorer, masks.read.best[masks.q]
    choices = choices or [answer, *rivals(masks.score.numpy(), answer)]
    statements = [masks.first + choice for choice in choices] * len(keep)
    with torch.no_grad():  # copies, because no derivative passes through tensors of inference_mode
        graphs = scorer.graphs(
            [masks.facts.kept_of(choice, row) for row in keep for choice in choices],
            read.knowledge.graph,
            lambda concepts: read.features(concepts).clone(),
            relevance=lambda batch: read.relevance(batch, statements).clone(),
        )
        rows = read.text.rows(statements)
        tokens = None if rows.tokens is None else Tokens(rows.tokens.states.clone(), rows.tokens.content.clone())
        text = TextVectors(rows.s.clone(), tokens, None if rows.extra is None else rows.extra.clone())
    batch = graphs.batch
    weight = torch.ones(batch.edge_index.shape[1], dtype=torch.double, device=scorer.device, requires_grad=True)
    with torch.enable_grad():
        flat = scorer(text, Graphs(batch.with_edge_weight(weight), graphs.features)).score.double()
        flat = flat if read.prior is None else flat + read.prior[statements].double()  # the derivative of a log odds depends on it
        score = flat.view(-1, len(choices))
        logit = score[:, 0] - score[:, 1:].logsumexp(1)
        if not logit.requires_grad:  # no edge reaches a score
            return np.zeros(keep.shape)
        (gradient,) = torch.autograd.grad(logit.sum(), weight)
    on_cpu = batch.to("cpu") if batch.concepts.device.type != "cpu" else batch
    source, target = on_cpu.edge_index.numpy()
    fact = edge_facts(masks, on_cpu, source, target, on_cpu.edge_type.numpy())
    row = on_cpu.batch.numpy()[source] // len(choices)
    return sums(row * keep.shape[1] + fact, gradient.cpu().numpy(), keep.size).reshape(keep.shape)


def rivals(score: Floats, answer: int) -> list[int]:
    """The other choices that have a part of at least :data:`RIVAL` in the probability of all others; the best one at least.

    >>> rivals(np.array([0.0, 2.0, 1.9, -9.0]), answer=0)
    [1, 2]
    """
    others = np.exp(score - np.delete(score, answer).max())
    others[answer] = 0
    others /= others.sum()
    return [choice for choice, share in enumerate(others.tolist()) if choice != answer and share >= min(RIVAL, others.max())]


def steepest_facts(masks: FactMasks, choices: Sequence[int]) -> list[Fact]:
    """The facts with the largest derivatives of the difference of two choices, positive or negative."""
    (slope,) = fact_gradients(masks, np.ones((1, len(masks.facts)), dtype=bool), choices)
    found = [number for number in ranked(np.abs(slope), STEEPEST) if slope[number]]
    return [stored_direction(masks.read.knowledge.graph, masks.facts.facts[number].tolist()) for number in found]


def sums(number: Ints, value: Floats, count: int) -> Floats:
    """[count] the sums of the values of each number."""
    found: Floats = np.bincount(number, value, minlength=count).astype(np.float64)
    return found
