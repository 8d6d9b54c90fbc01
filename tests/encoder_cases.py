"""What must hold for every graph encoder, inherited: a subclass names its encoder and gives its equation computed naively.

class TestRGCN(EncoderCase):
    name = "rgcn"
    settings = {"hidden_dim": 4, "dropout": 0.0}
    variants = [{}, {"layers": 1}]

    def naive(self, encoder, s, features, batch): ...
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config, section
from mhgrn.encoders import graph_encoders
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
from mhgrn.errors import UserError
from mhgrn.features import NoFeatures, RandomFeatures
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import build_model, parameter_count
from mhgrn.nn.layers import AttentivePooling
from mhgrn.runs import Run, describe
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.tokens import Tokens
from mhgrn.training.evaluation import evaluate
from mhgrn.training.examples import Examples, question_losses
from mhgrn.training.loop import train

S, FEATURES, RELATIONS, TOKENS = 6, 5, 2, 7
EVERY = (np.arange(50), np.full(50, OTHER, np.uint8), *np.zeros((3, 0), np.int64))  # a node for each concept of random graphs
random_graphs = settings(max_examples=12, suppress_health_check=[HealthCheck.differing_executors])


class EncoderCase:
    name: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}  # small widths, no dropout
    variants: ClassVar[list[dict[str, Any]]] = [{}]  # settings besides, under which the equation must hold
    learns: ClassVar[bool] = True  # ten questions by heart
    max_nodes: ClassVar[int] = 5  # of the random graphs
    edges: ClassVar[int] = 6

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        """g [G, out_dim] by the equation with loops, from the encoder's own parameters; the score [G] if it gives one."""
        raise NotImplementedError

    def encoder(self, **settings: Any) -> GraphEncoder:
        """In double precision, without dropout, every parameter random."""
        kind = graph_encoders.load(self.name)
        dims = Dims(S, FEATURES if kind.uses_features else 0, 2 * RELATIONS, TOKENS)
        made = kind(dims, kind.Settings.model_validate({**self.settings, **settings})).double().eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.normal_(std=0.7, generator=generator)
        return made

    def inputs(self, seed: int, batch: GraphBatch) -> tuple[Tensor, Tensor, Tokens]:
        """s, features and token states for a batch."""
        kind = graph_encoders.load(self.name)
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        G, length = batch.num_graphs, 4
        content = torch.rand(G, length, generator=generator) < 0.7
        content[:, 0] = True
        s = normal(G, S if kind.uses_text else 0)
        return s, normal(batch.num_nodes, FEATURES if kind.uses_features else 0), Tokens(normal(G, length, TOKENS), content)

    def random(self, seed: int, graphs: int = 3, answers: bool = True) -> tuple[GraphBatch, Tensor, Tensor, Tokens]:
        rng = np.random.default_rng(seed)
        batch = related(oracles.random_batch(rng, graphs, RELATIONS, self.max_nodes, self.edges, answers))
        return batch, *self.inputs(seed, batch)

    # ---- what it says of itself

    def test_it_is_registered_and_says_what_it_is(self) -> None:
        kind = graph_encoders.load(self.name)
        assert kind.name == self.name
        assert kind.shares_features == isinstance(self, SharingCase)
        for text in (kind.summary, kind.equation):
            assert text
            assert "\n" not in text

    def test_its_section_refuses_what_it_does_not_know(self) -> None:
        key = section(self.name)
        config = Config.of({"graph_encoder": self.name, key: self.settings})
        assert isinstance(config.encoder_settings, graph_encoders.load(self.name).Settings)
        assert Config.of(config.model_dump()) == config
        with pytest.raises(UserError, match=rf"unknown setting {key}\.hiden_dim"):
            Config.of({key: {"hiden_dim": 3}})

    # ---- the equation

    @random_graphs
    @given(seed=st.integers(0, 10**6), graphs=st.integers(1, 3))
    def test_it_equals_its_equation(self, seed: int, graphs: int) -> None:
        for variant in self.variants:
            encoder = self.encoder(**variant)
            batch, s, features, tokens = self.random(seed, graphs)
            found, found_gradients = _with_gradients(
                encoder, s, features, lambda s, x, e=encoder, b=batch, t=tokens: result(e(s, x, b, t))
            )
            wanted, wanted_gradients = _with_gradients(
                encoder, s, features, lambda s, x, e=encoder, b=batch, t=tokens: self.naive(e, s, x, b, t)
            )
            torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-9, msg=lambda m, v=variant: f"{v}: {m}")
            for name, gradient in found_gradients.items():
                torch.testing.assert_close(
                    gradient,
                    wanted_gradients[name],
                    rtol=1e-6,
                    atol=1e-8,
                    msg=lambda m, n=name, v=variant: f"gradient of {n}, {v}: {m}",
                )

    # ---- invariances

    @random_graphs
    @given(seed=st.integers(0, 10**6))
    def test_the_order_of_nodes_and_edges_does_not_matter(self, seed: int) -> None:
        batch, s, features, tokens = self.random(seed)
        rng = np.random.default_rng(seed)
        # within each graph
        order = torch.from_numpy(
            np.concatenate([np.zeros(0, int), *(rng.permutation(np.flatnonzero(batch.batch == g)) for g in range(3))])
        )
        place = torch.argsort(order)
        edges = torch.from_numpy(rng.permutation(batch.edge_index.shape[1]))
        permuted = GraphBatch(
            batch.concepts[order],
            batch.node_type[order],
            batch.batch,
            place[batch.edge_index[:, edges]],
            batch.edge_type[edges],
            3,
            batch.num_relations,
        )
        permuted = related(permuted)
        for variant in self.variants:
            encoder = self.encoder(**variant)
            torch.testing.assert_close(
                result(encoder(s, features[order], permuted, tokens)), result(encoder(s, features, batch, tokens))
            )

    @random_graphs
    @given(seed=st.integers(0, 10**6))
    def test_a_batch_gives_what_its_graphs_give_one_by_one(self, seed: int) -> None:
        batch, s, features, tokens = self.random(seed)
        for variant in self.variants:
            encoder = self.encoder(**variant)
            together = result(encoder(s, features, batch, tokens))
            for graph, (nodes, alone) in enumerate(one_by_one(batch)):
                here = slice(graph, graph + 1)
                own = Tokens(tokens.states[here], tokens.content[here])
                torch.testing.assert_close(result(encoder(s[here], features[nodes], alone, own))[0], together[graph])

    @random_graphs
    @given(seed=st.integers(0, 10**6))
    def test_what_it_says_it_does_not_read_makes_no_difference(self, seed: int) -> None:
        subgraphs = oracles.random_subgraphs(np.random.default_rng(seed), 3, RELATIONS, 9, 7)
        for variant in self.variants:
            encoder = self.encoder(**variant)
            whole, part = (related(GraphBatch.collate(subgraphs, RELATIONS, reach)) for reach in (None, encoder.reach))
            s, features, tokens = self.inputs(seed, GraphBatch.collate([*subgraphs, Subgraph(*EVERY)], RELATIONS))
            of_concept = features[-50:]
            s, tokens = s[:3], Tokens(tokens.states[:3], tokens.content[:3])
            torch.testing.assert_close(
                result(encoder(s, of_concept[part.concepts], part, tokens)),
                result(encoder(s, of_concept[whole.concepts], whole, tokens)),
            )

    @pytest.mark.parametrize("kinds", [[], [QUESTION], [ANSWER], [OTHER], [QUESTION, OTHER], [ANSWER, OTHER], [QUESTION, ANSWER]])
    def test_missing_kinds_of_nodes_and_edges(self, kinds: list[int]) -> None:
        n = len(kinds)
        for facts in ([], [(0, 1, 1)] if n > 1 else []):
            columns = np.array(facts, dtype=np.int64).reshape(-1, 3).T
            batch = related(GraphBatch.collate([Subgraph(np.arange(n), np.array(kinds, dtype=np.uint8), *columns)], RELATIONS))
            s, features, tokens = self.inputs(0, batch)
            for variant in self.variants:
                encoder = self.encoder(**variant)
                value, gradients = _with_gradients(
                    encoder, s, features, lambda s, x, e=encoder, b=batch, t=tokens: result(e(s, x, b, t))
                )
                assert torch.isfinite(value).all()
                assert all(torch.isfinite(g).all() for g in gradients.values())

    def test_no_graph_at_all(self) -> None:
        batch = related(GraphBatch.collate([], RELATIONS))
        assert len(result(self.encoder()(*self.inputs(0, batch)[:2], batch, self.inputs(0, batch)[2]))) == 0

    # ---- precision

    def test_float32_and_bfloat16_autocast_come_near_double(self) -> None:
        batch, s, features, tokens = self.random(5)
        encoder = self.encoder()
        wanted = result(encoder(s, features, batch, tokens)).detach()
        assert wanted.any() == bool(wanted.numel())
        single = encoder.float()
        tokens = Tokens(tokens.states.float(), tokens.content)
        torch.testing.assert_close(
            result(single(s.float(), features.float(), batch, tokens)).double(), wanted, rtol=1e-3, atol=1e-3 * scale(wanted)
        )
        with torch.autocast("cpu", torch.bfloat16):
            found = result(single(s.float(), features.float(), batch, tokens))
            loss = found.float().sum()
        if loss.requires_grad:
            loss.backward()
            assert all(torch.isfinite(p.grad).all() for p in single.parameters() if p.grad is not None)
        assert ((found.double() - wanted).abs() <= 0.1 * scale(wanted)).all()

    def test_an_encoder_in_half_precision_comes_near_double(self) -> None:
        batch, s, features, tokens = self.random(5)
        encoder = self.encoder()
        wanted = result(encoder(s, features, batch, tokens)).detach()
        for dtype in (torch.bfloat16, torch.float16):
            half = self.encoder().to(dtype)
            states = Tokens(tokens.states.to(dtype), tokens.content)
            found = result(half(s.to(dtype), features.to(dtype), batch, states))
            if found.requires_grad:
                found.float().sum().backward()
                assert all(torch.isfinite(p.grad).all() for p in half.parameters() if p.grad is not None)
            assert ((found.double() - wanted).abs() <= 0.1 * scale(wanted)).all()

    # ---- in the whole system

    def config(self, **more: Any) -> Config:
        return Config.of(
            {"graph_encoder": self.name, section(self.name): self.settings, "features": "random", "score_dropout": 0.0} | more
        )

    def examples(self, data: PreparedData, graph: KnowledgeGraph, folder: Path) -> Examples:
        """An untrained run on real questions."""
        torch.manual_seed(0)
        config = self.config()
        text = load_text_encoder(config.text)
        features = RandomFeatures() if graph_encoders.load(self.name).uses_features else NoFeatures()
        model = build_model(config, text, features.dim, 2 * len(graph.schema))
        about = describe(config, graph, text, features, {"folder": str(data.folder), "statement": "fill-in-the-blank"})
        return Examples(data, Run(folder, about, config, graph, text, features, model))

    def test_what_was_learnt_is_saved_and_loaded_bit_by_bit(
        self, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
    ) -> None:
        """Ten questions are learnt by heart, the run is saved, loaded, and scores and answers as before."""
        examples = self.examples(small_data, starter_graph, tmp_path)
        run = examples.run
        batch = examples.batch(range(10))
        if parameter_count(run.model):
            optimizer = torch.optim.Adam(run.model.parameters(), lr=0.01)
            for _ in range(80 if self.learns else 3):
                optimizer.zero_grad()
                loss = question_losses(examples.scores(batch, live_text=False), batch).mean()
                loss.backward()
                optimizer.step()
            if self.learns:
                assert float(loss.detach()) < 0.05
        run.model.eval()
        run.save({"dev_accuracy": 0.0, "epoch": 1}, text_changed=False)
        again = Run.load(tmp_path)
        with torch.inference_mode():
            before = examples.scores(batch, live_text=False)
            assert torch.equal(Examples(small_data, again).scores(batch, live_text=False), before)
        question = small_data.questions[0]
        answer = QuestionAnswerer(again).answer(question)
        assert answer == QuestionAnswerer(run).answer(question)
        # alone and in a batch the same, up to rounding
        alone = torch.tensor(list(answer.probabilities.values()), dtype=torch.float64)
        torch.testing.assert_close(alone, torch.softmax(before[: len(alone)].double(), 0), rtol=1e-3, atol=1e-3)

    def test_train_evaluate_and_ask(self, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
        config = self.config(training={"epochs": 1})
        run = train(small_data, config, tmp_path / "run", starter_graph)
        assert run.config == config
        assert evaluate(run, small_data, "dev")["accuracy"] == run.about["metrics"]["dev_accuracy"]
        answer = QuestionAnswerer(run).ask("Where would a child sit at a desk?", ["schoolroom", "classroom"])
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        kind = graph_encoders.load(self.name)
        assert bool(answer.paths) == kind.has_paths
        assert any("no paths" in note or "individual paths" in note for note in answer.notes) != kind.has_paths
        if not kind.uses_features:
            assert isinstance(run.features, NoFeatures)
            with pytest.raises(UserError, match="uses no node features"):
                Run.load(tmp_path / "run", features="random")


class SharingCase(EncoderCase):
    """An encoder that takes a row of features for each concept, shared by its nodes."""

    @random_graphs
    @given(seed=st.integers(0, 10**6))
    def test_nodes_of_one_concept_may_share_a_row_of_features(self, seed: int) -> None:
        encoder = self.encoder()
        batch, s, _, tokens = self.random(seed)
        shared, concepts = replace(batch, concepts=batch.concepts % 3).sharing_features()
        assert shared.feature_row is not None
        features = torch.randn(len(concepts), FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        found = _with_gradients(encoder, s, features, lambda s, x: result(encoder(s, x, shared, tokens)))
        wanted = _with_gradients(encoder, s, features, lambda s, x: result(encoder(s, x[shared.feature_row], batch, tokens)))
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)


def result(encoding: GraphEncoding) -> Tensor:
    """What an encoder gives: g, or its own score."""
    return encoding.g if encoding.score is None else encoding.score


def pooled_naively(pool: AttentivePooling, s: Tensor, h: Tensor, batch: GraphBatch, nodes: list[int]) -> Tensor:
    """Attentive pooling with loops: one softmax a graph and head over its pooled nodes."""
    width = h.shape[1] // pool.heads
    rows = []
    for graph in range(batch.num_graphs):
        mine = [i for i in nodes if batch.batch[i] == graph]
        parts = []
        for head in range(pool.heads):
            at = slice(head * width, (head + 1) * width)
            logits = [pool.query(s[graph])[at] @ pool.key(h[i])[at] / width**0.5 for i in mine]
            shares = torch.softmax(torch.stack(logits), 0) if mine else []
            parts.append(sum((a * pool.value(h[i])[at] for a, i in zip(shares, mine, strict=True)), h.new_zeros(width)))
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def scale(value: Tensor) -> float:
    return float(value.abs().max()) + 1.0 if value.numel() else 1.0


def related(batch: GraphBatch) -> GraphBatch:
    """The batch with a relevance of its nodes that depends on their concepts."""
    return batch.with_relevance(torch.sin(1.7 * batch.concepts.double()))


def one_by_one(batch: GraphBatch) -> Iterator[tuple[Tensor, GraphBatch]]:
    """The nodes of each graph, and the graph as a batch of its own."""
    for graph in range(batch.num_graphs):
        nodes = (batch.batch == graph).nonzero()[:, 0]
        mine = (batch.batch[batch.edge_index[0]] == graph).nonzero()[:, 0]
        offset = int(nodes[0]) if len(nodes) else 0
        yield (
            nodes,
            related(
                GraphBatch(
                    batch.concepts[nodes],
                    batch.node_type[nodes],
                    torch.zeros_like(nodes),
                    batch.edge_index[:, mine] - offset,
                    batch.edge_type[mine],
                    1,
                    batch.num_relations,
                )
            ),
        )


def _with_gradients(
    encoder: GraphEncoder, s: Tensor, features: Tensor, compute: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The value, and the gradients of an uneven sum of it with respect to everything it depends on."""
    encoder.zero_grad()
    s, features = s.clone().requires_grad_(), features.clone().requires_grad_()
    value = compute(s, features)
    if value.requires_grad:
        (value * torch.linspace(-1, 1.5, value.numel(), dtype=value.dtype).view_as(value)).sum().backward()
    sources = {"s": s, "features": features, **{n: p for n, p in encoder.named_parameters() if p.requires_grad}}
    return value.detach(), {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in sources.items()}
