"""Effects: the answer's probability without some facts, or without the whole graph.

Attention says where the model looked; an effect says what changed the answer. Removing a fact removes it from the graphs of all
choices that contain it, in both directions. The concepts stay, and nothing is grounded again. Only graphs that change are encoded
again.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.explain.walk_graph import Mask
from mhgrn.model import KnowledgeAwareQA
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.text.tokens import Tokens


class Triple(NamedTuple):
    """A fact by the numbers of its concepts and its relation."""

    head: int
    relation: int
    tail: int


@dataclass(frozen=True)
class Effects:
    """The answer's probability, the same without each of some sets of facts, and without the graph."""

    probability: float
    without: list[float]
    without_graph: float


@dataclass(frozen=True)
class AlteredGraphs:
    """The graphs that must be scored for the effects of one question: first an empty graph for each choice, then every graph that
    contains a removed fact, without it."""

    graphs: list[Subgraph]
    choice: list[int]  # the choice that each graph belongs to
    replaced: list[dict[int, int]]  # for each removal: choice → the number of the graph that replaces the choice's

    @classmethod
    def of(cls, subgraphs: Sequence[Subgraph], removals: Sequence[Collection[Triple]]) -> Self:
        """``subgraphs`` has one graph for each choice; each of ``removals`` is a set of facts that are removed together."""
        graphs = [empty_subgraph()] * len(subgraphs)
        owner = list(range(len(subgraphs)))
        replaced: list[dict[int, int]] = []
        for removal in removals:
            replaced.append({})
            for choice, subgraph in enumerate(subgraphs):
                rest = without_facts(subgraph, removal)
                if rest is not subgraph:
                    replaced[-1][choice] = len(graphs)
                    graphs.append(rest)
                    owner.append(choice)
        return cls(graphs, owner, replaced)

    def effects(self, score: Tensor, altered: Tensor, answer: int) -> Effects:
        """The effects on the choice ``answer``, from the scores of the choices and of ``self.graphs``."""
        choices = len(score)
        numbers = torch.arange(choices).repeat(len(self.replaced) + 2, 1)  # into the scores of choices, then of altered graphs
        for row, replacements in enumerate(self.replaced):
            for choice, number in replacements.items():
                numbers[row, choice] = choices + number
        numbers[-1] += choices  # every graph is empty
        both = torch.cat([score, altered]).detach().double().cpu()
        *without, unchanged, without_graph = torch.softmax(both[numbers], 1)[:, answer].tolist()
        return Effects(unchanged, without, without_graph)


def effects(
    model: KnowledgeAwareQA,
    score: Tensor,
    s: Tensor,
    rows: Callable[[Tensor], Tensor],
    subgraphs: Sequence[Subgraph],
    schema_size: int,
    answer: int,
    removals: Sequence[Collection[Triple]] = (),
    tokens: Tokens | None = None,
    relevance: Callable[[GraphBatch, Sequence[int]], Tensor] | None = None,
) -> Effects:
    """Compute how the probability of the choice ``answer`` of one question changes.

    Args:
        model: A model in evaluation mode.
        score: [G] the scores of the choices.
        s: [G, S] the vectors of the statements.
        rows: Gives the features of concepts.
        subgraphs: The graph of each choice.
        schema_size: Number of relations of the graph, without their reverses.
        answer: Number of the choice.
        removals: Sets of facts; the facts of a set are removed together.
        tokens: For graph encoders that read token states.
        relevance: For graph encoders that use it: gives the relevance of the nodes of graphs of the choices with these numbers.
    """
    if not 0 <= answer < len(subgraphs):
        raise UserError(f"the question has {len(subgraphs)} choices, numbered from 0; there is no choice {answer}.")
    if model.training:
        raise UserError("effects need a model in evaluation mode; call model.eval() first.")
    altered = AlteredGraphs.of(subgraphs, removals)
    with torch.inference_mode():
        batch = GraphBatch.collate(altered.graphs, schema_size, model.graph_encoder.reach)
        if relevance is not None:
            batch = batch.with_relevance(relevance(batch, altered.choice))
        read = None if tokens is None else Tokens(tokens.states[altered.choice], tokens.content[altered.choice])
        changed = model(s[altered.choice], rows(batch.concepts), batch, read).score
    return altered.effects(score, changed, answer)


def empty_subgraph() -> Subgraph:
    """A graph without nodes: what is left without the graph."""
    nothing = np.zeros(0, dtype=np.int64)
    return Subgraph(nothing, nothing, nothing, nothing, nothing)


def without_facts(subgraph: Subgraph, facts: Collection[Triple]) -> Subgraph:
    """A subgraph without some facts; the same object if it has none of them."""
    is_kept = ~_among(subgraph, facts)
    if is_kept.all():
        return subgraph
    head, relation, tail = (np.asarray(column)[is_kept] for column in (subgraph.head, subgraph.relation, subgraph.tail))
    return replace(subgraph, head=head, relation=relation, tail=tail)


def _among(subgraph: Subgraph, facts: Collection[Triple]) -> Mask:
    """[facts] whether each fact of a subgraph is one of ``facts``."""
    concepts, relation = np.asarray(subgraph.concepts), np.asarray(subgraph.relation)
    head, tail = concepts[subgraph.head], concepts[subgraph.tail]
    found = np.zeros(len(relation), dtype=bool)
    for fact in facts:
        found |= (head == fact.head) & (relation == fact.relation) & (tail == fact.tail)
    return found
