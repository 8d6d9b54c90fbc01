"""The weights of walks."""

from typing import NamedTuple

from torch import Tensor


class WalkWeights(NamedTuple):
    """The structured relational attention of a batch: log α of a walk is the sum of the logits along it (equation 10).

    g(φ(i)), the weight of a walk's last node, is a common factor of a node's messages and of their normalizer, so it cancels.
    """

    start: Tensor  # [N] f(φ(j), s) of every node
    relation: Tensor  # [G, m] δ(r, s)
    turn: Tensor  # [m, m] τ(r, r'): r first, r' next; [G, m, m] where it depends on s
