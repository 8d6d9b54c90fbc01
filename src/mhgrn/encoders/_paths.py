"""Shared by the graph encoders that list paths: the attention to each path."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.nn.walks import Walk, WalkList

TOLERANCE = 1e-9  # two walks whose log-weights differ by less tie


@dataclass(frozen=True)
class AttendedPaths:
    """The paths that were read, with their weights in g."""

    lengths: list[WalkList]
    count: Tensor  # [P] number of paths with this vector
    weight: Tensor  # [P] of all equal paths together; sums to 1 in a graph, or to less if the encoder attends to something else too

    def best(self, graph: int, count: int) -> list[Walk]:
        """The paths of a graph with the largest weights that visit no concept twice.

        ``ties`` counts those of equal weight, length and last concept.
        """
        found: list[tuple[float, Walk]] = []
        start = 0
        for walks in self.lengths:
            rows = ((walks.graph == graph) & walks.are_simple).nonzero()[:, 0]
            number, log_weight = self.count[start + rows], self.weight[start + rows].double().log()
            start += len(walks)
            log_weight = log_weight - number.log()  # of one path
            last = walks.nodes[rows, -1]
            for i in torch.argsort(-log_weight, stable=True)[:count].tolist():
                tie = (last == last[i]) & ((log_weight - log_weight[i]).abs() < TOLERANCE)
                walk = Walk(
                    walks.nodes[rows[i]].tolist(),
                    walks.relations[rows[i]].tolist(),
                    log_weight=float(log_weight[i]),
                    probability=float(log_weight[i].exp()),
                    ties=int(number[tie].sum()),
                )
                found.append((-walk.log_weight, walk))
        return [walk for _, walk in sorted(found, key=lambda item: item[0])[:count]]


class PathEncoder(GraphEncoder):
    """A graph encoder that reads paths one by one."""

    has_paths = True

    def attended_walks(self, encoding: GraphEncoding, batch: GraphBatch, graph: int, count: int) -> list[Walk]:
        """The walks with the largest weight in one graph's vector, best first; ``log_weight`` is the logarithm of that weight."""
        attended: AttendedPaths = encoding.traces[0]
        return attended.best(graph, count)
