"""The concepts and the remarks of an answer."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from mhgrn.encoders.base import GraphEncoder
from mhgrn.explain import ReasoningPath
from mhgrn.inference.answer import Concepts
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph


def found_concepts(graph: KnowledgeGraph, choices: Sequence[str], subgraphs: Sequence[Subgraph]) -> Concepts:
    asked = {c for subgraph in subgraphs for c in _of_type(subgraph, QUESTION)}
    answers = {c: [graph.name(n) for n in _of_type(g, ANSWER)] for c, g in zip(choices, subgraphs, strict=True)}
    return {"question": sorted(graph.name(c) for c in asked), "choices": answers}


def _of_type(subgraph: Subgraph, kind: int) -> list[int]:
    """The concepts of a subgraph with a node type."""
    concepts: list[int] = np.asarray(subgraph.concepts)[subgraph.types == kind].tolist()
    return concepts


def left_out(encoder: GraphEncoder, cut: Tensor, choices: Sequence[str]) -> list[str]:
    some = [f"{choice} ({int(n):,})" for choice, n in zip(choices, cut.tolist(), strict=True) if n]
    return [f"part of the graph was omitted because of {encoder.limit_setting}: {', '.join(some)}."] if some else []


def notes_of(concepts: Concepts, paths: list[ReasoningPath], masses: dict[str, float] | None, encoder: GraphEncoder) -> list[str]:
    if not encoder.uses_graph:
        return ["this model does not use the graph, so it has no paths."]
    notes = []
    if not concepts["question"]:
        notes.append("the question contains no concept of the graph.")
    if empty := [choice for choice, found in concepts["choices"].items() if not found]:
        judged = ", scored by text only" if encoder.uses_text else ""
        notes.append(f"not in the graph{judged}: {', '.join(empty)}.")
    if paths and not paths[0].facts:
        notes.append(f"no path of the graph leads to {paths[0].entity.replace('_', ' ')}.")
    elif paths and masses is not None and masses["walks"] < 0.5:
        others = {
            "circles": "walks that lead away from the choice's concepts and back",
            "itself": "the choice's own concepts",
            "no_path": "walk lengths without a path",
        }
        rest = others[max(others, key=masses.__getitem__)]
        notes.append(f"paths have only {masses['walks']:.0%} of attention, the rest is mostly on {rest}.")
    if encoder.has_paths and not paths and not notes:
        notes.append("the model reads no path from the question to the choice.")
    if not encoder.has_paths:
        notes.append(f"the graph encoder {encoder.name} does not use individual paths, so none are shown.")
    return notes
