"""The relation network, over the edges from the question's concepts to the answer's."""

from typing import ClassVar

from mhgrn.encoders.base import Dims, EncoderSettings
from mhgrn.encoders.khop_rn import KHopRN, KHopRNSettings, RelationNetworkSettings


class RNSettings(RelationNetworkSettings):
    """Settings of ``rn``."""


class RN(KHopRN):
    """The relation network of equation 3, with the as-published values of :class:`KHopRN`.

    .. math:: g = mean\\{ MLP(h_j ⊕ e_r ⊕ h_i) : j ∈ Q, i ∈ A, (j, r, i) ∈ E \\}
    """

    name = "rn"
    summary = "relation network: a vector for every edge from question to answer concepts, averaged"
    equation = "the paper's equation 3: g = mean{MLP(h_j ⊕ e_r ⊕ h_i)} over edges from Q to A"
    Settings: ClassVar[type[EncoderSettings]] = RNSettings
    limit_setting = "rn.published_paths"

    def __init__(self, dims: Dims, settings: RNSettings) -> None:
        super().__init__(dims, KHopRNSettings(hops=1, pooling="mean", max_paths=None, **settings.model_dump()))
