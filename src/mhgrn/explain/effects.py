"""What mattered: the answer's probability when facts are taken away, or the whole graph.

Attention says where the model looked; an effect says what changed the answer. A fact is removed from the knowledge graph, so
from the graphs of all choices that contain it, in both directions; the concepts stay where they are, nothing is grounded anew.
Only graphs that change are encoded again, all of them in one pass.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
    """A fact by the graph's numbers."""

    head: int
    relation: int
    tail: int


@dataclass(frozen=True)
class Effects:
    """The answer's probability as it is, without each of some sets of facts, and without the graph."""

    probability: float
    without: list[float]
    without_graph: float


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
) -> Effects:
    """How the probability of choice number ``answer`` changes, for one question with a subgraph for each choice.

    ``score`` [G] are the choices' scores as they are, ``s`` [G, S] the statements' vectors, ``rows`` gives the features of
    concepts, and each of ``removals`` is a set of facts that are taken away together. Without the graph, every choice has an empty
    one.
    """
    if not 0 <= answer < len(subgraphs):
        raise UserError(f"the question has {len(subgraphs)} choices, numbered from 0; there is no choice {answer}.")
    if model.training:
        raise UserError("effects are those of a model in evaluation mode; call model.eval() first.")
    nothing = np.zeros(0, dtype=np.int64)
    copies = [Subgraph(nothing, nothing, nothing, nothing, nothing)] * len(subgraphs)
    owner = list(range(len(subgraphs)))  # the choice that each copy belongs to
    altered: list[dict[int, int]] = []  # for each removal, choice → the copy that stands in for its graph
    for removal in removals:
        altered.append({})
        for choice, subgraph in enumerate(subgraphs):
            is_kept = ~_among(subgraph, removal)
            if is_kept.all():
                continue
            altered[-1][choice] = len(copies)
            head, relation, tail = (np.asarray(c)[is_kept] for c in (subgraph.head, subgraph.relation, subgraph.tail))
            copies.append(replace(subgraph, head=head, relation=relation, tail=tail))
            owner.append(choice)
    with torch.inference_mode():
        batch = GraphBatch.collate(copies, schema_size, model.graph_encoder.reach)
        read = None if tokens is None else Tokens(tokens.states[owner], tokens.content[owner])
        changed = model(s[owner], rows(batch.concepts), batch, read).score

    def probability(number_of: Mapping[int, int]) -> float:
        scores = [changed[number_of[choice]] if choice in number_of else score[choice] for choice in range(len(subgraphs))]
        return float(torch.softmax(torch.stack(scores).double(), 0)[answer])

    empty = {choice: choice for choice in range(len(subgraphs))}
    return Effects(probability({}), [probability(numbers) for numbers in altered], probability(empty))


def _among(subgraph: Subgraph, facts: Collection[Triple]) -> Mask:
    """Which of a subgraph's facts are among some facts."""
    concepts, relation = np.asarray(subgraph.concepts), np.asarray(subgraph.relation)
    head, tail = concepts[subgraph.head], concepts[subgraph.tail]
    found = np.zeros(len(relation), dtype=bool)
    for fact in facts:
        found |= (head == fact.head) & (relation == fact.relation) & (tail == fact.tail)
    return found
