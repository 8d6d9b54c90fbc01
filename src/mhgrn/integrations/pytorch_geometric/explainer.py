"""Explanations of :class:`torch_geometric.explain.Explainer` with exact edge marginals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ModelTaskLevel
from torch_geometric.nn import MessagePassing

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.explain import layer_marginals, named_fact, pool_of
from mhgrn.inference import QuestionAnswerer
from mhgrn.inference.asked import Asked, to_question
from mhgrn.kg.graph import Fact
from mhgrn.kg.sentences import fact_sentence
from mhgrn.model import Scores
from mhgrn.nn.conv import LayerTrace, MHGRNConv, MHGRNLayer


class _Maskable(MessagePassing):  # type: ignore[misc]
    """Receives the edge masks that PyTorch Geometric gives to every ``MessagePassing`` module of a model."""

    def given_mask(self) -> Tensor | None:
        """[E] the mask of the edges, from 0 to 1; None outside explanations."""
        mask: Tensor | None = self._edge_mask
        if not self.explain or mask is None:
            return None
        return mask.sigmoid() if self._apply_sigmoid else mask


class ExplainableConv(_Maskable):
    """:class:`mhgrn.MHGRNConv` for models that PyTorch Geometric explains.

    PyTorch Geometric masks edges of its own layers only. This one is such a layer, so that masked predictions, metrics such as
    ``fidelity``, and algorithms such as ``GNNExplainer`` work. A mask multiplies ``edge_weight``.

    Args:
        options: The arguments of :class:`mhgrn.MHGRNConv`.

    >>> conv = ExplainableConv(8, 16, num_relations=3, hops=2)
    >>> conv(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 2])).shape
    torch.Size([3, 16])
    """

    def __init__(self, *options: Any, **named: Any) -> None:
        super().__init__()
        self.conv = MHGRNConv(*options, **named)

    def forward(self, x: Tensor, edge_index: Tensor, *more: Any, edge_weight: Tensor | None = None, **named: Any) -> Tensor:
        """The arguments of :meth:`mhgrn.MHGRNConv.forward`."""
        mask = self.given_mask()
        if mask is not None:
            edge_weight = mask if edge_weight is None else edge_weight * mask
        out: Tensor = self.conv(x, edge_index, *more, edge_weight=edge_weight, **named)
        return out

    def reset_parameters(self) -> None:
        """Initialize the layer."""
        if hasattr(self, "conv"):
            self.conv.reset_parameters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.conv.extra_repr()})"


class QuestionModel(_Maskable):
    """The model of a run on one question, in the form that :class:`torch_geometric.explain.Explainer` takes.

    It returns the scores [1, choices] of the choices from node features and edges. The text of the question is fixed. ``data`` has
    the graphs of all choices, one after the other: ``x``, ``edge_index``, ``edge_type``, ``node_type``, ``batch`` (the choice of
    a node) and ``concepts``. The graph encoder must weigh edges, as ``mhgrn`` does.

    Args:
        qa: A loaded run, see :func:`mhgrn.load`.
        question: The question, as in :meth:`mhgrn.QuestionAnswerer.ask`.
        choices: Two or more choices, if ``question`` is a text.
    """

    def __init__(self, qa: QuestionAnswerer, question: Any, choices: Sequence[str] | None = None) -> None:
        super().__init__()
        encoder = qa.run.model.graph_encoder
        if not encoder.weighs_edges:
            raise UserError(f"the graph encoder {encoder.name} weighs no edges, so PyTorch Geometric cannot mask them.")
        read = qa.read([Asked(to_question(question, choices), effects=False)])
        batch, features = read.graphs.batch, read.graphs.features
        x = features if batch.feature_row is None else features.index_select(0, batch.feature_row)
        self.graph, self.choices = qa.run.graph, list(read.asked[0].question.choices)
        self._model, self._temperature = qa.run.model, qa.scorer.temperature
        self.first_head = qa.run.config.preset == "as_published"
        # copies are ordinary tensors: those of a question are made in inference mode, which gradients cannot use
        self._text = read.text._replace(s=read.text.s.clone(), extra=None if read.text.extra is None else read.text.extra.clone())
        self._relevance = None if batch.relevance is None else batch.relevance.clone()
        self._num_relations = batch.num_relations
        columns = {name: getattr(batch, name).clone() for name in ("edge_index", "edge_type", "node_type", "batch", "concepts")}
        self.data = Data(x=x.clone(), **columns)
        self.eval()

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The arguments of the model and of the explainer: ``explainer(**model.inputs)``."""
        return {name: self.data[name] for name in ("x", "edge_index", "edge_type", "node_type", "batch")}

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, node_type: Tensor, batch: Tensor) -> Tensor:
        """[1, choices] the scores of the choices.

        Args:
            x: [N, features] node features.
            edge_index: [2, E] edges.
            edge_type: [E] their relations.
            node_type: [N] question, answer or other.
            batch: [N] the choice of each node.
        """
        return self.read(x, edge_index, edge_type, node_type, batch)[0].score[None]

    def read(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, node_type: Tensor, batch: Tensor) -> tuple[Scores, GraphBatch]:
        """The scores with the attention behind them, and the graphs without the masked edges; arguments as in :meth:`forward`."""
        mask = self.given_mask()
        if mask is not None:
            kept = mask.detach() > 0
            edge_index, edge_type, mask = edge_index[:, kept], edge_type[kept], mask[kept]
        concepts = self.data.concepts
        graphs = GraphBatch(concepts, node_type, batch, edge_index, edge_type, len(self.choices), self._num_relations)
        if self._relevance is not None:
            graphs = graphs.with_relevance(self._relevance)
        if mask is not None and not bool((mask == 1).all()):
            graphs = graphs.with_edge_weight(mask.to(x.dtype))
        scores: Scores = self._model(self._text.s, x, graphs, self._text.tokens, self._text.extra)
        return scores._replace(score=scores.score / self._temperature), graphs

    def facts(self, explanation: Explanation, most: int = 10) -> list[tuple[str, float]]:
        """The facts of an explanation as sentences with their weights, the heaviest first. Both directions of a fact are added.

        Args:
            explanation: A result of an explainer of this model.
            most: The largest number of facts.
        """
        weights: dict[Fact, float] = {}
        graphs = GraphBatch.from_pyg(self.data, self._num_relations)
        for edge in explanation.edge_mask.nonzero()[:, 0].tolist():
            (source, target), relation = self.data.edge_index[:, edge].tolist(), int(self.data.edge_type[edge])
            fact = named_fact(graphs, self.graph, source, relation, target)
            weights[fact] = weights.get(fact, 0.0) + float(explanation.edge_mask[edge])
        ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:most]
        return [(fact_sentence(self.graph.schema, fact), weight) for fact, weight in ranked]


class WalkExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Explains models with :class:`mhgrn.MHGRNConv` layers, and :class:`QuestionModel`, by the distribution of their attention over
    walks.

    ``edge_mask`` is the expected number of times that the walk uses an edge, at most 1. It is exact and needs one forward pass:
    nothing is sampled or optimized. ``edge_marginals`` [E, layers × hops] has the probability that each hop of the walk is the
    edge, the first layer first. See :mod:`mhgrn.explain.walks`.

    - :class:`QuestionModel`: the walks behind the predicted choice (or the choice ``target``, with
      ``explanation_type="phenomenon"``). Edges of other choices have mask 0.
    - ``task_level="node"``: the walks into the nodes ``index``, which count the same; all nodes by default.
    - ``task_level="graph"``: the walks into all nodes of a graph, which count the same, as in mean pooling.

    Layers of other kinds are not explained. Layers get no ``edge_weight`` and no ``output_mask`` while they are explained.

    >>> from torch_geometric.explain import Explainer
    >>> model, edges = ExplainableConv(4, 2, num_relations=1, hops=1), torch.tensor([[0, 1], [2, 2]])  # 0 → 2 ← 1
    >>> config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    >>> explainer = Explainer(model, WalkExplainer(), "model", config, edge_mask_type="object")
    >>> explainer(torch.ones(3, 4), edges, edge_type=torch.zeros(2, dtype=torch.long), index=2).edge_mask
    tensor([0.5000, 0.5000])
    """

    def forward(
        self,
        model: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **named: Any,
    ) -> Explanation:
        """Explain a prediction; called by ``Explainer``."""
        if isinstance(x, dict):
            raise UserError("WalkExplainer explains graphs with edge_index and edge_type, not HeteroData.")
        with torch.no_grad():
            if isinstance(model, QuestionModel):
                scores, graphs = model.read(x, edge_index, **named)
                choice = int(target.view(-1)[0])
                pools = {choice: pool_of(scores.encoding, graphs, choice, model.first_head)}
                traces = scores.encoding.traces
            else:
                traces, graphs = _traces(model, x, edge_index, named)
                pools = self._pools(graphs, index)
        hops = sum(trace.length.shape[1] for trace in traces)
        marginals = x.new_zeros(edge_index.shape[1], hops, dtype=torch.double)
        for number, pool in pools.items():
            layers = layer_marginals(traces, graphs, number, pool)
            rows = np.concatenate([layer.by_hop for layer in layers]).T  # [E of the graph, layers × K]
            marginals[torch.from_numpy(layers[0].edges)] = torch.from_numpy(rows)
        marginals = marginals.to(x.dtype)
        return Explanation(edge_mask=marginals.sum(1).clamp(max=1), edge_marginals=marginals)

    def _pools(self, graphs: GraphBatch, index: int | Tensor | None) -> dict[int, dict[int, float]]:
        """The nodes whose walks are explained, with their shares, for each graph."""
        batch = graphs.batch
        chosen = None if index is None else torch.as_tensor(index).view(-1).tolist()
        pools: dict[int, dict[int, float]] = {}
        if self.model_config.task_level == ModelTaskLevel.graph:
            for number in range(graphs.num_graphs) if chosen is None else chosen:
                nodes = (batch == number).nonzero()[:, 0].tolist()
                pools[number] = dict.fromkeys(nodes, 1 / max(len(nodes), 1))
            return pools
        nodes = list(range(graphs.num_nodes)) if chosen is None else chosen
        for node in nodes:
            pool = pools.setdefault(int(batch[node]), {})
            pool[node] = pool.get(node, 0.0) + 1 / len(nodes)
        return pools

    def supports(self) -> bool:
        """Whether the settings of the explainer fit; called by ``Explainer``."""
        if self.explainer_config.node_mask_type is not None or self.explainer_config.edge_mask_type is None:
            raise UserError("WalkExplainer explains edges: use edge_mask_type='object', and no node_mask_type.")
        if self.model_config.task_level == ModelTaskLevel.edge:
            raise UserError("WalkExplainer explains models with task_level 'node' or 'graph'.")
        return True


def _traces(model: nn.Module, x: Tensor, edge_index: Tensor, named: dict[str, Any]) -> tuple[list[LayerTrace], GraphBatch]:
    """The attention of every MHGRN layer of a model, in the order of their calls, and the graphs they read."""
    traces: list[LayerTrace] = []
    read: list[GraphBatch] = []

    def keep(layer: nn.Module, given: tuple[Any, ...], result: tuple[Tensor, LayerTrace]) -> None:
        graphs, edge_log_weight = given[2], given[4]
        if edge_log_weight is not None or len(result[1].nodes) != graphs.num_nodes:
            raise UserError("a layer gets edge_weight or output_mask; WalkExplainer explains models that pass neither.")
        if not torch.equal(graphs.edge_index, edge_index):
            raise UserError("a layer gets other edges than the model; WalkExplainer explains models that pass them on.")
        traces.append(result[1])
        read.append(graphs)

    hooks = [module.register_forward_hook(keep) for module in model.modules() if isinstance(module, MHGRNLayer)]
    try:
        model(x, edge_index, **named)
    finally:
        for hook in hooks:
            hook.remove()
    if not traces:
        raise UserError("the model has no MHGRNConv; WalkExplainer explains the attention of such layers.")
    return traces, read[-1]
