from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import oracles
from encoder_cases import RELATIONS, SharingCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder
from mhgrn.encoders.kvmem import KVMem, _triples
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import OTHER
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.tokens import Tokens


class TestKVMem(SharingCase):
    name = "kvmem"
    settings: ClassVar = {"hidden_dim": 4, "memory_dim": 6, "dropout": 0.0}

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, KVMem)
        assert tokens is not None
        h = functional.gelu(encoder.project.linear(features), approximate="tanh")
        facts = [
            (i, r, j)
            for i, j, r in zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True)
            if r < batch.num_relations // 2
        ]
        rows = []
        for graph in range(batch.num_graphs):
            memory = []
            for i, r, j in facts:
                if batch.batch[i] == graph:
                    out, _ = encoder.memory(torch.stack([h[i], encoder.relations.weight[r], h[j]])[None])
                    memory.append(torch.cat([out[0, -1, :3], out[0, 0, 3:]]))  # both directions, each where it ends
            read = []
            for state, own in zip(tokens.states[graph], tokens.content[graph], strict=True):
                if own:
                    p = encoder.token(state)
                    c = torch.zeros_like(p)
                    if memory:
                        m = torch.stack(memory)
                        c = torch.softmax(m @ p, 0) @ m
                    read.append((p + c) / 2)
            rows.append(torch.stack(read).amax(0) if read else s.new_zeros(6))
        return torch.stack(rows)

    def test_tokens_that_are_not_the_texts_own_do_not_matter(self) -> None:
        batch, s, features, tokens = self.random(3)
        encoder = self.encoder()
        other = torch.where(tokens.content[..., None], tokens.states, 100.0)
        torch.testing.assert_close(
            encoder(s, features, batch, Tokens(other, tokens.content)).g, encoder(s, features, batch, tokens).g
        )

    def test_a_text_without_tokens_gives_zero(self) -> None:
        batch, s, features, tokens = self.random(3)
        for states in (tokens.states, tokens.states[:, :0]):
            none = Tokens(states, torch.zeros(states.shape[:2], dtype=torch.bool))
            assert not self.encoder()(s, features, batch, none).g.any()


def test_triples_of_mentioned_concepts_come_first_and_the_rest_is_counted() -> None:
    batch = oracles.random_batch(np.random.default_rng(1), 5, RELATIONS, max_nodes=6, edges=12)
    others = (batch.node_type == OTHER).long()
    *_, everything = _triples(batch, None)
    assert not everything.any()
    all_heads, _, all_tails, _, _ = _triples(batch, None)
    for limit in (0, 1, 3, 100):
        head, relation, tail, place, cut = _triples(batch, limit)
        edges = set(zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True))
        assert set(zip(head.tolist(), tail.tolist(), relation.tolist(), strict=True)) <= edges
        for graph in range(5):
            mine, every = batch.batch[head] == graph, batch.batch[all_heads] == graph
            tiers = (others[head] + others[tail])[mine].tolist()
            assert tiers == sorted((others[all_heads] + others[all_tails])[every].tolist())[:limit]
            assert cut[graph] == int(every.sum()) - len(tiers)
            assert place[mine].tolist() == list(range(len(tiers)))


def test_tokens_read_live_and_from_the_cache_give_the_same_scores(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    examples = TestKVMem().examples(small_data, starter_graph, tmp_path)
    batch = examples.batch(range(4))
    assert isinstance(examples.run.model.score, torch.nn.Linear)
    torch.nn.init.normal_(examples.run.model.score.weight, std=0.1)
    with torch.inference_mode():
        live, cached = (examples.scores(batch, live_text=live) for live in (True, False))
    torch.testing.assert_close(live, cached, rtol=1e-2, atol=1e-2)
    assert live.std() > 0.05
