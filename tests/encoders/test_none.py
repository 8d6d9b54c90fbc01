from torch import Tensor

from encoder_cases import EncoderCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder
from mhgrn.text.tokens import Tokens


class TestNone(EncoderCase):
    name = "none"

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        return s.new_zeros(len(s), 0)
