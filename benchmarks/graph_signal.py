"""Information in the graph alone: logistic regressions on text vectors and on counts taken from a question's graph.

    python benchmarks/graph_signal.py --data PREPARED [--features FOLDER] [--seeds 3] [--json FILE]

No graph network is trained. Each row is a logistic regression over the choices, on the text vectors s of the frozen built-in
encoder and on:

- counts: for each relation and direction log (1 + facts) from the question's concepts to the choice's, and from other concepts;
- links: the number of the question's concepts adjacent to the choice's, each counted once; the same weighted by their degrees in
  the whole graph; their number of common neighbors, in four such forms; and the degree of the choice's concepts;
- asked: weights of counts and links that depend on the question, through 16 numbers made of its vector;
- features: the mean node features of the question's and of the choice's concepts: the choice's, its product with the question's
  text, and the product of both.

Prints the dev accuracy of the best epoch on dev, by seed. The test split is not used.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from measuring import add_json_option, write_json
from mhgrn.config import Config
from mhgrn.features import open_features
from mhgrn.kg import KnowledgeGraph
from mhgrn.progress import track
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.cache import SentenceVectors
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder

EPOCHS, BATCH, RATE, WARM_UP, WEIGHT_DECAY, DROPOUT, ASKED = 6, 32, 1e-3, 150, 0.01, 0.5, 16


def counts_of(graph: Subgraph, relations: int) -> NDArray[Any]:
    """log (1 + facts) between question and choice, and between other concepts and choice, by relation and direction."""
    found = np.zeros((2, 2 * relations))
    types = graph.types[graph.head], graph.types[graph.tail]
    for row, kind in enumerate((QUESTION, OTHER)):
        for direction, (start, end) in enumerate((types, types[::-1])):
            part = graph.relation[(start == kind) & (end == ANSWER)]
            found[row, direction * relations : (direction + 1) * relations] = np.bincount(part, minlength=relations)
    return np.log1p(found).ravel()


def links_of(graph: Subgraph, kg: KnowledgeGraph, degree: NDArray[Any]) -> NDArray[Any]:
    """Adjacency and common neighbors of the question's and the choice's concepts, over all relations."""
    asked, chosen = (graph.concepts[graph.types == kind] for kind in (QUESTION, ANSWER))
    found = np.zeros(9)
    of_choice = {int(a): kg.neighbors(a) for a in chosen}
    for j in asked:
        mine, most = kg.neighbors(j), np.zeros(4)
        for a, theirs in of_choice.items():
            common = np.intersect1d(mine, theirs, assume_unique=True)
            touches, both = float(np.isin(a, mine)), np.sqrt((1 + degree[j]) * (1 + degree[a]))
            most = np.maximum(most, [touches, touches / both, len(common), len(common) / both])
        weight = 1 / np.log(2 + degree[j])
        found[:4] += most[0], most[0] * weight, most[0] / (1 + degree[j]), most[1]
        found[4:7] += np.log1p(most[2]), np.log1p(most[2]) * weight, most[3]
        found[7] = max(found[7], most[3])
    found[8] = np.log1p(degree[chosen]).mean() if len(chosen) else 0
    return found


def node_features(data: PreparedData, s: Tensor, source: str, kg: KnowledgeGraph, encoder: TextEncoder) -> Tensor:
    features = open_features(source, kg, encoder)
    features.require(data.used)
    means = torch.zeros(2, len(s), features.dim)
    for number in track(range(len(s)), "node features"):
        graph = data.subgraph(number)
        for side, kind in enumerate((QUESTION, ANSWER)):
            if (mine := graph.concepts[graph.types == kind]).size:
                means[side, number] = features.rows(torch.from_numpy(mine.astype(np.int64))).mean(0)
    question, choice = (functional.normalize(part, dim=1) * features.dim**0.5 for part in means)
    products = [s[:, : features.dim] * choice] if features.dim == encoder.width else []
    return torch.cat([choice, *products, question * choice], dim=1)


class Regression(nn.Module):
    """Logistic regression; all weights start at 0."""

    def __init__(self, text: int, graph: int, query: int) -> None:
        super().__init__()
        self.text, self.graph, self.dropout = nn.Linear(text, 1), nn.Linear(graph, 1), nn.Dropout(DROPOUT)
        self.asked = nn.Linear(query, ASKED) if query else None
        self.of_asked = nn.Linear(ASKED, graph)
        for layer in (self.text, self.graph, self.of_asked):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, text: Tensor, graph: Tensor) -> Tensor:
        score: Tensor = (self.text(self.dropout(text)) + self.graph(graph))[..., 0]
        if self.asked is not None:
            query = self.dropout(text[..., : self.asked.in_features])
            score = score + (graph * self.of_asked(torch.tanh(self.asked(query)))).sum(-1)
        return score


def accuracy(text: Tensor, graph: Tensor, query: int, answer: Tensor, splits: dict[str, range], seed: int) -> float:
    """Best dev accuracy of all epochs, in percent."""
    torch.manual_seed(seed)
    model = Regression(text.shape[-1], graph.shape[-1], query)
    train, dev = torch.tensor(splits["train"]), torch.tensor(splits["dev"])
    steps = EPOCHS * -(-len(train) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / WARM_UP) * max(0.0, 1 - i / steps))
    best = 0.0
    for _ in range(EPOCHS):
        model.train()
        for part in torch.split(train[torch.randperm(len(train))], BATCH):
            loss = functional.cross_entropy(model(text[part], graph[part]), answer[part])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
        model.eval()
        with torch.no_grad():
            best = max(best, 100 * float((model(text[dev], graph[dev]).argmax(1) == answer[dev]).double().mean()))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="prepared questions, all with the same number of choices")
    parser.add_argument("--features", help="node features, as in the setting `features`")
    parser.add_argument("--seeds", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = PreparedData.load(options.data)
    kg = data.load_graph()
    degree = np.diff(kg.neighbor_ptr)
    encoder = load_text_encoder(Config().text)
    choices = len(data.questions[0].choices)
    if any(len(question.choices) != choices for question in data.questions):
        parser.error(f"{options.data}: its questions have different numbers of choices.")
    pairs = [(question.stem, choice) for question in data.questions for choice in question.choices]
    s = SentenceVectors.compute(encoder, pairs, None)(torch.arange(len(pairs)))
    graphs = [data.subgraph(i) for i in track(range(len(pairs)), "reading graphs")]
    counts = torch.tensor(np.array([counts_of(g, len(kg.schema)) for g in track(graphs, "counts")]), dtype=torch.float32)
    links = torch.tensor(np.array([links_of(g, kg, degree) for g in track(graphs, "links")]), dtype=torch.float32)
    links = 2 * (links - links.mean(0)) / links.std(0)
    both = torch.cat([counts, links], dim=1)
    none = s.new_zeros(len(s), 0)
    rows = {
        "counts": (none, counts, 0),
        "counts and links": (none, both, 0),
        "text": (s, none, 0),
        "text, counts": (s, counts, 0),
        "text, links": (s, links, 0),
        "text, counts and links": (s, both, 0),
        "text, counts and links, asked": (s, both, encoder.width),
    }
    if options.features:
        features = node_features(data, s, options.features, kg, encoder)
        rows["text and features"] = (torch.cat([s, features], dim=1), none, 0)
        rows["text and features, counts and links"] = (torch.cat([s, features], dim=1), both, 0)
    answer = torch.tensor([question.answer if question.answer is not None else 0 for question in data.questions])
    found: dict[str, list[float]] = {}
    for name, (text, graph, query) in rows.items():
        shaped = text.view(len(answer), choices, -1), graph.reshape(len(answer), choices, -1)
        found[name] = [accuracy(*shaped, query, answer, data.splits, seed) for seed in range(options.seeds)]
        print(f"{name:<38} {statistics.mean(found[name]):5.1f}   {'  '.join(f'{x:.1f}' for x in found[name])}", flush=True)
    write_json(options.json, found)


if __name__ == "__main__":
    main()
