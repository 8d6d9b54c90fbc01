"""Why one choice rather than another: the facts that most change the difference of their log odds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from mhgrn.encoders._paths import PathEncoder
from mhgrn.encoders.base import GraphEncoder
from mhgrn.explain import WalkDistribution, attends_to_walks, to_path
from mhgrn.inference.batch import Read
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence
from mhgrn.printing import printable
from mhgrn.subgraphs.extract import OTHER

CANDIDATES = 24  # facts of each choice that are removed in turn
SHOWN = 10
MOST_TIMES = 20.0  # the largest difference of log odds that is printed exactly
SMALLEST = 1e-5  # changes of a difference that are not rounding


@dataclass(frozen=True)
class ContrastFact:
    """A fact, and the difference of two choices without it."""

    fact: Fact
    sentence: str
    difference_without: float

    @property
    def triple(self) -> str:
        return f"{self.fact.head} —{self.fact.relation}→ {self.fact.tail}".replace("_", " ")


@dataclass(frozen=True)
class Contrast:
    """Two choices, and the facts whose removal most changes the difference of their log odds, most changing first.

    ``difference`` is the logarithm of how many times as probable ``this`` is as ``other``.
    """

    this: str
    other: str
    difference: float
    facts: list[ContrastFact]

    def lines(self, triples: bool = False) -> list[str]:
        """The lines of an answer's text. Facts are sentences, or triples."""
        if self.this == self.other:
            return [f"{printable(self.other)} is the answer itself; nothing to compare it with."]
        lines = [f"{printable(self.this)} rather than {printable(self.other)}: {_odds(self.difference)}"]
        said = [printable(one.triple if triples else one.sentence) for one in self.facts]
        width = max(map(len, said), default=0)
        after = (f"without it {_odds(one.difference_without)}" for one in self.facts)
        lines += [f"  {text:<{width}}   ({odds})" for text, odds in zip(said, after, strict=True)]
        return lines if self.facts else [*lines, "  no fact changes this."]


def _odds(difference: float) -> str:
    """A difference of log odds in words.

    >>> _odds(math.log(3)), _odds(-math.log(2.5)), _odds(9.0)
    ('3.0 times as probable', '1 / 2.5 times as probable', '8,103 times as probable')
    """
    times = math.exp(min(abs(difference), MOST_TIMES))
    number = f"{times:.1f}" if times < 100 else f"{times:,.0f}"
    return f"{'' if difference >= 0 else '1 / '}{number} times as probable"


def candidates(read: Read, statements: Sequence[int], encoder: GraphEncoder, first_head: bool) -> list[Fact]:
    """Facts that may matter for some statements: the most attended ones; if the model attends to none, those of the question's
    and the choice's concepts."""
    found: dict[Fact, None] = {}
    for statement in statements:
        found |= dict.fromkeys(_most_attended(read, statement, encoder, first_head)[:CANDIDATES])
    return list(found)


def _most_attended(read: Read, statement: int, encoder: GraphEncoder, first_head: bool) -> list[Fact]:
    graph = read.knowledge.graph
    if not encoder.uses_graph or not len(read.subgraphs[statement].head):
        return []
    if isinstance(encoder, PathEncoder):
        walks = encoder.attended_walks(read.encoding, read.batch, statement, CANDIDATES)
        return [fact for walk in walks for fact in to_path(walk, read.batch, graph).facts]
    if attends_to_walks(read.encoding):
        return list(WalkDistribution.of(read.encoding, read.batch, statement, first_head).fact_uses(graph))
    subgraph = read.subgraphs[statement]
    mentioned = subgraph.types != OTHER
    ends = mentioned[subgraph.head].astype(int) + mentioned[subgraph.tail]
    order = (-ends).argsort(kind="stable").tolist()[:CANDIDATES]
    names = [graph.name(int(concept)) for concept in subgraph.concepts]
    relations = graph.schema.relations
    return [Fact(names[subgraph.head[i]], relations[subgraph.relation[i]].name, names[subgraph.tail[i]]) for i in order]


def contrast_of(
    this: str,
    other: str,
    facts: Sequence[Fact],
    score: Tensor,
    replaced: Sequence[Mapping[int, int]],
    altered: Tensor,
    graph: KnowledgeGraph,
) -> Contrast:
    """The contrast of two choices.

    Args:
        this: The name of the first choice.
        other: The name of the second choice.
        facts: The facts that were removed, one at a time.
        score: [2] the scores of the choices.
        replaced: For each fact: choice (0 or 1) → the number of its altered graph.
        altered: The scores of the altered graphs.
        graph: The graph.
    """
    before = score.double().tolist()
    after = altered.double().tolist()
    difference = before[0] - before[1]
    found = []
    for fact, changes in zip(facts, replaced, strict=True):
        mine, theirs = (after[changes[choice]] if choice in changes else before[choice] for choice in (0, 1))
        if abs(mine - theirs - difference) >= SMALLEST:
            found.append(ContrastFact(fact, fact_sentence(graph.schema, fact), mine - theirs))
    found.sort(key=lambda one: (-round(abs(one.difference_without - difference), 5), one.fact))
    return Contrast(this, other, difference, found[:SHOWN])
