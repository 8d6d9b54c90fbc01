"""Derivatives of the answer's logit by the weights of edges: 1 is present, 0 is absent.

The logit of an answer with probability p is log p/(1 − p). Between 0 and 1 the model is continuous, see
:func:`mhgrn.nn.presence.walk_presence`.
"""

import numpy as np
import torch
from torch import Tensor

from mhgrn.inference.batch import Read
from mhgrn.scoring import Graphs, Scorer


def answer_logits(score: Tensor, read: Read) -> Tensor:
    """[questions] log p/(1 − p) of the answers, from the scores [G] of all statements."""
    found = []
    for q, best in enumerate(read.best):
        mine = score[read.first[q] : read.first[q + 1]]
        others = torch.arange(len(mine), device=mine.device) != best
        found.append(mine[best] - mine[others].logsumexp(0))
    return torch.stack(found)


def edge_gradients(scorer: Scorer, read: Read, weight: float) -> Tensor:
    """[E] the derivative of each question's logit by the weight of each edge, where all weights are ``weight``."""
    edges = torch.full((read.graphs.batch.edge_index.shape[1],), weight, dtype=torch.double, device=scorer.device)
    edges.requires_grad_()
    with torch.enable_grad():
        graphs = Graphs(read.graphs.batch.with_edge_weight(edges), read.graphs.features)
        total = answer_logits(scorer(read.text, graphs).score.double(), read).sum()
        if not total.requires_grad:  # no edge reaches any score
            return torch.zeros_like(edges)
        (gradient,) = torch.autograd.grad(total, edges)
    return gradient.detach().cpu()


def integrated_gradients(scorer: Scorer, read: Read, points: int) -> Tensor:
    """[E] the integral of the derivatives along the straight line from no edges to all edges (Sundararajan et al. 2017).

    Gauss-Legendre quadrature over u, where all weights are u³: the answer may depend on the logarithm of the number of walks, which
    changes fastest near 0.
    """
    nodes, shares = np.polynomial.legendre.leggauss(points)
    total: Tensor | None = None
    for u, share in zip((nodes + 1) / 2, shares / 2, strict=True):
        part = edge_gradients(scorer, read, float(u**3)) * float(3 * u**2 * share)
        total = part if total is None else total + part
    assert total is not None
    return total
