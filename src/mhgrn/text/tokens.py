"""Token states of a batch of statements."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class Tokens:
    """The text encoder's states of the tokens of G statements, padded to the longest.

    >>> tokens = Tokens.pad([torch.zeros(2, 8), torch.zeros(5, 8)])
    >>> tokens.states.shape, tokens.content.sum(1).tolist()
    (torch.Size([2, 5, 8]), [2, 5])
    """

    states: Tensor  # [G, L, token_dim]
    content: Tensor  # [G, L] True for tokens of the text, False for padding

    @classmethod
    def pad(cls, states: Sequence[Tensor]) -> "Tokens":
        """Combine the token states of several statements, each [tokens, token_dim]."""
        content = [torch.ones(len(rows), dtype=torch.bool, device=rows.device) for rows in states]
        return cls(pad_sequence(list(states), batch_first=True), pad_sequence(content, batch_first=True))
