"""PyTorch Geometric: explanations with exact edge marginals, and stores and a sampler for its loaders."""

from mhgrn.errors import UserError

try:
    import torch_geometric  # noqa: F401
except ImportError:
    raise UserError("PyTorch Geometric is not installed: pip install 'mhgrn[pyg]'") from None

from mhgrn.integrations.pytorch_geometric.explainer import ExplainableConv, QuestionModel, WalkExplainer
from mhgrn.integrations.pytorch_geometric.sampler import NeighborSampler
from mhgrn.integrations.pytorch_geometric.stores import KnowledgeGraphStore, NodeFeatureStore

__all__ = [
    "ExplainableConv",
    "KnowledgeGraphStore",
    "NeighborSampler",
    "NodeFeatureStore",
    "QuestionModel",
    "WalkExplainer",
]
