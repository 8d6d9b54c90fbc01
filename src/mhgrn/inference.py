"""Answering a new question: the whole flow from text to answer, paths and effects, in one place."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders._paths import PathEncoder
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.errors import UserError, did_you_mean
from mhgrn.explain import ReasoningPath, Triple, Walk, WalkDistribution, attends_to_walks, decode_walks, to_path
from mhgrn.explain import attention as attention_data
from mhgrn.explain import effects as effects_of
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Extractor, Limits, Subgraph
from mhgrn.subgraphs.prepared import ground, statement_builder
from mhgrn.text.tokens import Tokens

TIED = 8  # paths considered beyond those asked for, so that effects can choose among ties


class Concepts(TypedDict):
    """The graph's concepts in the question's text, and in each choice's."""

    question: list[str]
    choices: dict[str, list[str]]


@dataclass(frozen=True)
class Answer:
    """The chosen choice, every choice's probability, and the facts the choice rests on."""

    question: str
    choice: str
    probabilities: dict[str, float]
    paths: list[ReasoningPath]  # of the chosen choice, best first; empty if the model has no graph or nothing was grounded
    concepts: Concepts  # what was found in the graph
    notes: list[str] = field(default_factory=list)  # what the reader should know, e.g. that nothing was grounded
    masses: dict[str, float] | None = None  # how the choice's attention is shared out: walks, no_path, itself
    without_graph: float | None = None  # the choice's probability with the graph switched off, if effects were asked for
    attention: dict[str, Any] | None = None  # of all choices, if it was asked for: see mhgrn.explain.attention

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; a path carries its facts, its concepts and its text."""
        paths = [{**asdict(path), "facts": [list(fact) for fact in path.facts], "text": str(path)} for path in self.paths]
        answer = {**asdict(self), "paths": paths}
        return answer if self.attention is not None else {k: v for k, v in answer.items() if k != "attention"}

    def __str__(self) -> str:
        width = max(map(len, self.probabilities))
        lines = [self.question]
        for choice, probability in sorted(self.probabilities.items(), key=lambda item: -item[1]):
            mark = "→" if choice == self.choice else " "
            lines.append(f"  {mark} {choice:<{width}}  {probability:6.1%}")
        before = f"{self.probabilities[self.choice]:.1%} →"
        for path in self.paths:
            percent = f"{path.probability:.0%}" if path.probability >= 0.005 else "under 1%"
            share = [f"{percent} of attention"] if path.facts else []
            same = [f"one of {path.ties:,} such paths"] if path.ties > 1 else []
            said = f"   ({', '.join(share + same)})" if share + same else ""
            helps = not path.without or min(path.without) < self.probabilities[self.choice]
            lines.append(f"    {'because' if path.facts and helps else 'looked at'} {path}{said}")
            lines += [f"      without {what}: {before} {after}" for what, after in _shown_effects(path)]
        if self.without_graph is not None:
            lines.append(f"    without the graph: {before} {self.without_graph:.1%}")
        return "\n".join(lines + [f"    note: {note}" for note in self.notes])


def _shown_effects(path: ReasoningPath) -> list[tuple[str, str]]:
    """What is taken away, and the probability that is left; one line where all facts of a path have the same effect."""
    left = [f"{after:.1%}" for after in path.without or []]
    if len(set(left)) == 1:
        return [({1: "this fact", 2: "either fact"}.get(len(left), "any one of these facts"), left[0])]
    names = [f"{fact.head} —{fact.relation}→ {fact.tail}".replace("_", " ") for fact in path.facts]
    return list(zip(names, left, strict=False))


class QuestionAnswerer:
    """A trained run that answers questions."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._knowledge = self._knowledge_of(run.graph)
        self._statement = run.about["data"].get("statement", "auto")
        self._first_head = run.config.preset == "as_published"

    def ask(
        self,
        question: str,
        choices: Sequence[str],
        facts: Sequence[tuple[str, str, str]] = (),
        *,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
    ) -> Answer:
        """Answer one multiple-choice question.

        ``facts`` are taken as known for this answer, beside those of the graph, which stays as it is:
        ``facts=[("quokka", "IsA", "marsupial")]``. The answer shows the ``paths`` best paths, with ``effects`` also what its
        probability is without each of their facts and without the graph, and with ``attention`` every attention weight.
        """
        return self.answer(Question.asked(question, choices), facts, paths=paths, effects=effects, attention=attention)

    def answer(
        self,
        question: Question,
        facts: Sequence[tuple[str, str, str]] = (),
        *,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
    ) -> Answer:
        """:meth:`ask`, for a question that was read from a file."""
        if paths < 1:
            raise UserError(f"{paths} paths were asked for; ask for 1 or more.")
        names = _distinct(question)
        encoder = self.run.model.graph_encoder
        read = self._read(question, facts)
        best = int(read.score.argmax())
        shown, masses, without_graph = self._explain(read, best, paths, effects)
        concepts = _found(read.graph, names, read.subgraphs)
        weights = None
        if attention and attends_to_walks(read.encoding):
            numbers = {name: number for number, name in enumerate(names)}
            weights = attention_data(read.encoding, read.batch, numbers, read.graph, self._first_head)
        notes = _notes(concepts, shown, masses, encoder) + _cut(encoder, read.encoding, names)
        if attention and weights is None and encoder.uses_graph:
            notes.append("this model attends to no walks; there is no attention to show.")
        if read.texts_cut:
            notes.append(f"the text has more than text.max_length={self.run.config.text.max_length} tokens; its end was not read.")
        return Answer(
            question=question.stem,
            choice=names[best],
            probabilities=dict(zip(names, torch.softmax(read.score.double(), 0).tolist(), strict=True)),
            paths=shown,
            concepts=concepts,
            notes=notes,
            masses=masses,
            without_graph=without_graph,
            attention=weights,
        )

    def walks(self, question: str, choices: Sequence[str], choice: str | None = None) -> WalkDistribution:
        """The distribution over walks behind a choice, or behind the answer: see :class:`mhgrn.explain.WalkDistribution`."""
        read = self._read(Question.asked(question, choices))
        if choice is not None and choice not in choices:
            raise UserError(f"{choice!r} is none of the choices.{did_you_mean(choice, choices)}")
        number = int(read.score.argmax()) if choice is None else list(choices).index(choice)
        return WalkDistribution.of(read.encoding, read.batch, number, self._first_head)

    def _read(self, question: Question, facts: Sequence[tuple[str, str, str]] = ()) -> "_Read":
        """From text to scores."""
        run = self.run
        encoder = run.model.graph_encoder
        graph, grounder, extract = self._knowledge if not facts else self._knowledge_of(run.graph.with_facts(facts))
        statement = statement_builder(self._statement, [question])
        subgraphs = [extract(m) for m in ground(question, grounder, statement)]
        batch = GraphBatch.collate(subgraphs, len(graph.schema), run.model.graph_encoder.reach)
        cut = run.encoder.truncated
        with torch.inference_mode():
            stems = [question.stem] * len(question.choices)
            tokens = None
            if encoder.uses_tokens:
                s, tokens = run.encoder.read(stems, question.choices)
            else:
                s = run.encoder.sentences(stems, question.choices) if encoder.uses_text else torch.zeros(len(stems), 0)
            features = run.features.rows(batch.concepts, graph)
            score, encoding = run.model(s, features, batch, tokens)
        return _Read(graph, subgraphs, batch, s, tokens, features, score, encoding, run.encoder.truncated > cut)

    def _explain(
        self, read: "_Read", choice: int, count: int, effects: bool
    ) -> tuple[list[ReasoningPath], dict[str, float] | None, float | None]:
        """The best paths, the masses, and the choice's probability without the graph."""
        encoder = self.run.model.graph_encoder
        if not encoder.uses_graph:
            return [], None, None
        walks: list[Walk] = []
        masses = None
        most = count + TIED if effects else count
        if isinstance(encoder, PathEncoder):
            walks = encoder.attended_walks(read.encoding, read.batch, choice, most)
        elif attends_to_walks(read.encoding):
            distribution = WalkDistribution.of(read.encoding, read.batch, choice, self._first_head)
            masses = distribution.masses
            walks = decode_walks(distribution, read.encoding.traces[:-1], most)
            if not walks and distribution.pool:
                walks = [Walk([max(distribution.pool, key=distribution.pool.__getitem__)], [], 0.0)]
        paths = [to_path(walk, read.batch, read.graph) for walk in walks]
        if len(paths) > count:  # those that attention alone would show, and what ties with them
            paths = [path for path in paths if _share(path) >= _share(paths[count - 1])]
        if not effects:
            return paths, masses, None
        facts = sorted({fact for path in paths for fact in path.facts})
        found = effects_of(
            self.run.model,
            read.score,
            read.s,
            read.rows,
            read.subgraphs,
            len(read.graph.schema),
            choice,
            [_triples(read.graph, fact) for fact in facts],
            read.tokens,
        )
        without = dict(zip(facts, found.without, strict=True))
        paths = [replace(path, without=[without[fact] for fact in path.facts]) for path in paths]

        def rank(path: ReasoningPath) -> tuple[float, float]:
            """Effect breaks the ties that attention leaves; rounded, as a score's last digits depend on the batch it is in."""
            return -_share(path), round(sum(without[fact] - found.probability for fact in set(path.facts)), 6)

        paths.sort(key=rank)
        return paths[:count], masses, found.without_graph

    def _knowledge_of(self, graph: KnowledgeGraph) -> "_Knowledge":
        about = self.run.about["data"]
        return _Knowledge(graph, Grounder(graph), Extractor(graph, Limits(about.get("max_nodes"), about.get("max_degree"))))


class _Read(NamedTuple):
    """A question as the model saw it."""

    graph: KnowledgeGraph
    subgraphs: list[Subgraph]
    batch: GraphBatch
    s: Tensor
    tokens: Tokens | None
    features: Tensor
    score: Tensor
    encoding: GraphEncoding
    texts_cut: bool

    def rows(self, concepts: Tensor) -> Tensor:
        """The features of concepts that are among the batch's."""
        known, place = np.unique(self.batch.concepts.numpy(), return_index=True)
        return self.features[torch.from_numpy(place[np.searchsorted(known, concepts.numpy())])]


class _Knowledge(NamedTuple):
    """A graph and what finds and cuts out a question's part of it."""

    graph: KnowledgeGraph
    grounder: Grounder
    extract: Extractor


def _share(path: ReasoningPath) -> float:
    """A path's probability without the digits in which equal ones may differ."""
    return float(f"{path.probability:.9g}")


def _triples(graph: KnowledgeGraph, fact: Fact) -> set[Triple]:
    """A fact by numbers; one of a symmetric relation is stored both ways."""
    relation = [r.name for r in graph.schema.relations].index(fact.relation)
    triple = Triple(graph.id(fact.head), relation, graph.id(fact.tail))
    return {triple, Triple(triple.tail, relation, triple.head)} if relation in graph.schema.symmetric_ids else {triple}


def _found(graph: KnowledgeGraph, choices: Sequence[str], subgraphs: Sequence[Subgraph]) -> Concepts:
    def names(subgraph: Subgraph, kind: int) -> list[str]:
        return [graph.name(int(c)) for c in np.asarray(subgraph.concepts)[subgraph.types == kind]]

    asked = sorted({name for subgraph in subgraphs for name in names(subgraph, QUESTION)})
    return {"question": asked, "choices": {c: names(g, ANSWER) for c, g in zip(choices, subgraphs, strict=True)}}


def _distinct(question: Question) -> list[str]:
    """The choices' texts, with their letter where a file repeats one; all with it if one is already written so."""
    texts = question.choices
    lettered = [f"{text} ({question.label(i)})" for i, text in enumerate(texts)]
    names = [long if texts.count(text) > 1 else text for text, long in zip(texts, lettered, strict=True)]
    return names if len(set(names)) == len(names) else lettered


def _cut(encoder: GraphEncoder, encoding: GraphEncoding, choices: Sequence[str]) -> list[str]:
    if encoding.cut is None:
        return []
    some = [f"{choice} ({int(n):,})" for choice, n in zip(choices, encoding.cut.tolist(), strict=True) if n]
    return [f"part of the graph was left out, being beyond {encoder.limit_setting}: {', '.join(some)}."] if some else []


def _notes(concepts: Concepts, paths: list[ReasoningPath], masses: dict[str, float] | None, encoder: GraphEncoder) -> list[str]:
    if not encoder.uses_graph:
        return ["this model reads no graph; there is no path to show."]
    notes = []
    if not concepts["question"]:
        notes.append("nothing in the question is a concept of the graph.")
    if empty := [choice for choice, found in concepts["choices"].items() if not found]:
        judged = ", judged by text alone" if encoder.uses_text else ""
        notes.append(f"not in the graph{judged}: {', '.join(empty)}.")
    if paths and not paths[0].facts:
        notes.append(f"no path of the graph leads to {paths[0].entity.replace('_', ' ')}.")
    elif paths and masses is not None and masses["walks"] < 0.5:
        rest = "the choice's own concepts" if masses["itself"] >= masses["no_path"] else "lengths that no path has"
        notes.append(f"paths have only {masses['walks']:.0%} of attention, the rest is mostly on {rest}.")
    if encoder.has_paths and not paths and not notes:
        notes.append("no path that the model reads leads from the question to the choice.")
    if not encoder.has_paths:
        notes.append(f"the graph encoder {encoder.name} follows no single paths; there is none to show.")
    return notes


def load(run: str | FilePath | None = None, kg: str | FilePath | None = None, features: str | None = None) -> QuestionAnswerer:
    """Load a run folder; without one, the starter model, which is trained once and kept in the user's cache."""
    if run is None:
        from mhgrn.starter import starter_run

        run = starter_run()
    return QuestionAnswerer(Run.load(run, kg, features))
