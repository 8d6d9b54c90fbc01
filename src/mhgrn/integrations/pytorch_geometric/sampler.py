"""Neighbor sampling in a knowledge graph for the loaders of PyTorch Geometric, without pyg-lib or torch-sparse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from mhgrn.errors import UserError
from mhgrn.explain.walk_graph import ranges
from mhgrn.integrations.pytorch_geometric.stores import KnowledgeGraphStore

Ints = NDArray[np.int64]


class NeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples edges into nodes, hop by hop, for ``NodeLoader`` and ``LinkLoader`` of PyTorch Geometric.

    The sampler of PyTorch Geometric itself (``NeighborLoader``) needs the compiled package pyg-lib or torch-sparse. This one needs
    neither. For each node of a hop it draws edges into the node, uniformly and without replacement. A node that is reached again is
    not expanded again. The edges of a batch depend on ``seed`` and on the nodes of the batch only, not on the number of workers.

    Args:
        store: The edges, of one type.
        num_neighbors: The largest number of edges into a node, for each hop; -1: all.
        seed: Of the random numbers.

    >>> from mhgrn import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("desk", "AtLocation", "school")])
    >>> sampler = NeighborSampler(KnowledgeGraphStore(graph), [-1])
    >>> found = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([graph.id("school")])))
    >>> [graph.name(node) for node in found.node.tolist()], found.row.tolist(), found.col.tolist()
    (['school', 'child', 'desk'], [1, 2], [0, 0])
    """

    def __init__(self, store: KnowledgeGraphStore, num_neighbors: Sequence[int], seed: int = 0) -> None:
        if store.by_relation:
            raise UserError("this sampler reads a KnowledgeGraphStore with by_relation=False.")
        if not num_neighbors or any(number < -1 for number in num_neighbors):
            raise UserError(f"num_neighbors is {list(num_neighbors)}; give a number of edges for each hop, or -1 for all.")
        self.store, self.num_neighbors, self.seed = store, list(num_neighbors), seed

    def sample_from_nodes(self, inputs: NodeSamplerInput, **options: Any) -> SamplerOutput:
        """Sample around nodes; called by ``NodeLoader``."""
        return node_sample(inputs, self._sample)

    def sample_from_edges(self, inputs: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """Sample around the ends of edges; called by ``LinkLoader``."""
        return edge_sample(inputs, self._sample, len(self.store.graph), False, None, neg_sampling)

    @property
    def edge_permutation(self) -> None:
        """None: the numbers of sampled edges are those of the store."""
        return

    def _sample(self, seeds: Tensor, time: Tensor | None = None) -> SamplerOutput:
        if time is not None:
            raise UserError("facts have no time; sample without input_time.")
        pointer, source = self.store.target_ptr.numpy(), self.store.csc()[0].numpy()
        asked = seeds.numpy().astype(np.int64)
        if len(asked) and not 0 <= asked.min() <= asked.max() < len(self.store.graph):
            raise UserError(f"there are {len(self.store.graph):,} concepts; a number is out of range.")
        rng = np.random.default_rng([self.seed, *asked.tolist()])
        nodes = asked
        reached = [len(asked)]
        frontier = np.arange(len(asked))
        edges: list[Ints] = []
        targets: list[Ints] = []
        sources: list[Ints] = []
        for most in self.num_neighbors:
            edge, place = _draw_edges(pointer, nodes[frontier], most, rng)
            found, target = source[edge], frontier[place]
            new = np.setdiff1d(found, nodes)
            nodes = np.concatenate([nodes, new])
            frontier = np.arange(len(nodes) - len(new), len(nodes))
            edges, targets, sources = [*edges, edge], [*targets, target], [*sources, found]
            reached.append(len(new))
        order = np.argsort(nodes, kind="stable")
        every = np.concatenate(sources)
        row = order[np.searchsorted(nodes[order], every)]  # the first place of a concept, if it is a seed twice
        return SamplerOutput(
            node=torch.from_numpy(nodes),
            row=torch.from_numpy(row),
            col=torch.from_numpy(np.concatenate(targets)),
            edge=torch.from_numpy(np.concatenate(edges)),
            num_sampled_nodes=reached,
            num_sampled_edges=[len(edge) for edge in edges],
        )


def _draw_edges(pointer: Ints, nodes: Ints, most: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Edges into nodes, at most ``most`` for each (-1: all), and the place of the node of each edge; sorted by place, then edge."""
    first, count = pointer[nodes], pointer[nodes + 1] - pointer[nodes]
    few = count <= most if most >= 0 else np.ones(len(nodes), dtype=bool)
    edge = ranges(first[few], count[few])
    place = np.repeat(np.flatnonzero(few), count[few])
    many = np.flatnonzero(~few)
    if len(many) and most:
        drawn = first[many][:, None] + _distinct_numbers(count[many], most, rng)
        edge, place = np.concatenate([edge, drawn.ravel()]), np.concatenate([place, np.repeat(many, most)])
    order = np.lexsort((edge, place))
    return edge[order], place[order]


def _distinct_numbers(count: Ints, k: int, rng: np.random.Generator) -> Ints:
    """[n, k] distinct numbers below ``count`` [n] in every row, each set of k with the same probability (Floyd's algorithm).

    >>> _distinct_numbers(np.array([3]), 3, np.random.default_rng(0)).tolist()
    [[0, 1, 2]]
    """
    drawn = np.full((len(count), k), -1)
    for column in range(k):
        last = count - k + column
        number = rng.integers(0, last + 1)
        taken = (drawn[:, :column] == number[:, None]).any(1)
        drawn[:, column] = np.where(taken, last, number)
    return drawn
