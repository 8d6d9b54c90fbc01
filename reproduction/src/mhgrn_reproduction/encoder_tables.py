"""Tables 1 and 11: properties and sizes of the graph encoders."""

import math
from typing import Any

import numpy as np

from mhgrn.encoders import graph_encoders
from mhgrn.subgraphs.extract import Subgraph
from mhgrn_reproduction.printed import result, yes
from mhgrn_reproduction.scalability import random_subgraph, small_model, step

YES, NO = "yes", "no"
PAPER_PROPERTIES = {  # relations, interpretable, scalable in nodes, in hops
    "gcn": (NO, NO, YES, YES),
    "rgcn": (YES, NO, YES, YES),
    "kagnet": (YES, YES, NO, NO),
    "mhgrn": (YES, YES, YES, YES),
}


def properties() -> dict[str, Any]:
    """Table 1: properties of every graph encoder, found by running it on a graph and on the same graph with other relations."""
    from mhgrn.encoders._paths import PathEncoder

    rows = []
    for name in graph_encoders.built_in():
        kind = graph_encoders.load(name)
        paper = PAPER_PROPERTIES.get(name)
        relations = yes(_uses_relations(name)) if kind.uses_graph else "–"
        paths = yes(not issubclass(kind, PathEncoder)) if kind.uses_graph else "–"
        rows.append([name, relations, yes(kind.has_paths), paths, ", ".join(paper) if paper else "–"])
    columns = [
        "graph encoder",
        "uses relations",
        "shows paths",
        "does not enumerate paths",
        "paper: relations, paths, nodes, hops",
    ]
    notes = [
        "Uses relations: the score of a random graph changes if every fact gets another relation.",
        "The paper's properties are multi-relational, interpretable, scalable in nodes, and scalable in hops. An encoder that"
        " enumerates paths has neither of the last two. Measured times: `mhgrn reproduce scalability`.",
    ]
    return result("properties", columns, rows, notes)


def _uses_relations(name: str) -> bool:
    import torch

    graph = random_subgraph(12, 20, 5, np.random.default_rng(0))
    model = small_model(name, 5)
    for parameter in model.parameters():  # parameters initialized with zero would hide the relations
        torch.nn.init.normal_(parameter, std=0.3)
    other = Subgraph(graph.concepts, graph.types, graph.head, (graph.relation + 1) % 5, graph.tail)
    scores = [step(model, [each], 5, learn=False) for each in (graph, other)]
    return not torch.allclose(scores[0], scores[1], atol=1e-7)


PAPER_PARAMETERS = {"rn": 399, "rgcn": 365, "gconattn": 453, "mhgrn": 544, "qagnn": 2845}  # qagnn: see the notes


def parameters() -> dict[str, Any]:
    """Table 11: trained parameters outside the text encoder, at the paper's widths."""
    from mhgrn.catalogue import catalogue

    rows = []
    for entry in catalogue():
        if entry.name not in graph_encoders.built_in() or entry.default is None or entry.as_published is None:
            continue
        paper = PAPER_PARAMETERS.get(entry.name)
        same = yes(math.floor(entry.as_published.parameters / 1000 + 0.5) == paper) if paper else "–"
        ours = [f"{entry.as_published.parameters:,}", f"{entry.default.parameters:,}"]
        rows.append([entry.name, *ours, f"{paper:,}K" if paper else "–", same])
    notes = [
        "Statement vectors and node features of width 1024, 17 relations and their reverses; the score layer is included.",
        "The number of qagnn is that of Wang et al. 2022 (GNN is a Counter?), because its own paper has none. The equations of that"
        " paper, from which qagnn is written, give fewer.",
    ]
    return result("parameters", ["graph encoder", "as published", "by default", "paper", "the same"], rows, notes)
