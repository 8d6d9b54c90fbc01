"""Answer questions with a trained run: one at a time or in batches, with paths and effects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.compiled.threads import one_ahead
from mhgrn.encoders._paths import PathEncoder
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.errors import UserError, did_you_mean
from mhgrn.explain import (
    AlteredGraphs,
    Effects,
    ReasoningPath,
    Triple,
    Walk,
    WalkDistribution,
    attends_to_walks,
    decode_walks,
    to_path,
)
from mhgrn.explain import attention as attention_data
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.statements import BUILDERS
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.printing import printable, shortened
from mhgrn.progress import track
from mhgrn.questions.question import Question
from mhgrn.questions.reading import questions_from
from mhgrn.runs import Run
from mhgrn.scoring import Graphs, Scorer, TextMemory, TextVectors, best_choice, probabilities
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Extractor, Subgraph, SubgraphLimits
from mhgrn.subgraphs.prepared import hidden_pairs, statement_builder

TIED = 8  # paths considered beyond those asked for, so that effects can choose among ties
PRINTED = 0.001  # the last printed digit of a probability
WIDEST = 60  # characters of the column of choices
MOST_FACTS = 10_000  # that may be added for one question
LONGEST_NAME = 1_000  # characters of their concepts and relations
ALTERED_FACTS = 1_000_000  # in the graphs that are scored at once for effects; bounds the memory


class Concepts(TypedDict):
    """The concepts that were found in the question, and in each choice."""

    question: list[str]
    choices: dict[str, list[str]]


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer with the facts behind it. ``print(answer)`` shows it as text.

    Args:
        question: The question.
        choice: The choice with the highest probability.
        probabilities: The probability of every choice.
        paths: Paths of the graph that lead to the choice, best first; none visits a concept twice. Empty if the model reads no
            graph, or no concept was found.
        concepts: The concepts of the graph that were found in the question and in each choice.
        notes: Remarks, for example that a choice is not in the graph.
        masses: How the attention of the choice is divided: ``walks``, ``circles``, ``no_path`` and ``itself``; see
            :mod:`mhgrn.explain.walks`.
        without_graph: The probability of the choice without the graph, if effects were asked for.
        attention: The attention weights of all choices, if they were asked for; see :func:`mhgrn.explain.attention`.

    >>> print(Answer("Where?", "sea", {"sea": 0.75, "tree": 0.25}, [], {"question": [], "choices": {}}))
    Where?
      → sea    75.0%
        tree   25.0%
    """

    question: str
    choice: str
    probabilities: dict[str, float]
    paths: list[ReasoningPath]
    concepts: Concepts
    notes: list[str] = field(default_factory=list)
    masses: dict[str, float] | None = None
    without_graph: float | None = None
    attention: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values. A path has its facts, its concepts and its text."""
        paths = [{**asdict(path), "facts": [list(fact) for fact in path.facts], "text": str(path)} for path in self.paths]
        answer = {**asdict(self), "paths": paths}
        return answer if self.attention is not None else {k: v for k, v in answer.items() if k != "attention"}

    def __repr__(self) -> str:
        share = self.probabilities[self.choice]
        return f"Answer(question={shortened(self.question)}, choice={shortened(self.choice)}, probability={share:.3f})"

    def __str__(self) -> str:
        choices = {choice: printable(choice) for choice in self.probabilities}
        width = min(max(map(len, choices.values())), WIDEST)
        lines = [printable(self.question, keep="\n\t")]
        for choice, probability in sorted(self.probabilities.items(), key=lambda item: -item[1]):
            mark = "→" if choice == self.choice else " "
            lines.append(f"  {mark} {choices[choice]:<{width}}  {probability:6.1%}")
        before = f"{self.probabilities[self.choice]:.1%} →"
        for path in self.paths:
            percent = f"{path.probability:.0%}" if path.probability >= 0.005 else "under 1%"
            share = [f"{percent} of attention"] if path.facts else []
            up_to = "up to " if len(path.facts) > 2 else ""  # some of the tied walks may visit a concept twice
            same = [f"one of {up_to}{path.ties:,} such paths"] if path.ties > 1 else []
            said = f"   ({', '.join(share + same)})" if share + same else ""
            lines.append(f"    {'because' if self._matters(path) else 'looked at'} {printable(str(path))}{said}")
            lines += [f"      without {printable(what)}: {before} {after}" for what, after in _shown_effects(path)]
        if self.without_graph is not None:
            lines.append(f"    without the graph: {before} {self.without_graph:.1%}")
        return "\n".join(lines + [f"    note: {printable(note)}" for note in self.notes])

    def _matters(self, path: ReasoningPath) -> bool:
        """Whether the answer is less probable without the path, by as much as is printed."""
        return bool(path.facts) and path.without_path is not None and self.probabilities[self.choice] - path.without_path >= PRINTED


def _shown_effects(path: ReasoningPath) -> list[tuple[str, str]]:
    """What is removed, and the probability without it; one line if all facts of a path have the same effect."""
    left = [f"{after:.1%}" for after in path.without or []]
    if not left or path.without_path is None:
        return []
    whole = [("this path", f"{path.without_path:.1%}")] if len(left) > 1 else []
    if len({*left, *(after for _, after in whole)}) == 1:
        return [("this path" if whole else "this fact", left[0])]
    if len(set(left)) == 1:
        return [("either fact" if len(left) == 2 else "any one of these facts", left[0]), *whole]
    names = [f"{fact.head} —{fact.relation}→ {fact.tail}".replace("_", " ") for fact in path.facts]
    return [*zip(names, left, strict=False), *whole]


class QuestionAnswerer:
    """Answers questions with a trained run.

    Args:
        run: The run, see :meth:`mhgrn.Run.load`. :func:`mhgrn.load` loads it and makes a QuestionAnswerer.
        device: Where the model computes, for example ``"cpu"`` or ``"cuda"``.

    >>> qa = QuestionAnswerer(Run.load("run"))  # doctest: +SKIP
    >>> qa.ask("Where would a child sit at a desk?", ["schoolroom", "patio"]).choice  # doctest: +SKIP
    'schoolroom'
    """

    def __init__(self, run: Run, device: str | torch.device = "cpu") -> None:
        self.run, self.scorer = run, Scorer(run, device)
        self._knowledge = self._knowledge_of(run.graph)
        self._statement = run.about["data"].get("statement", "auto")
        self._first_head = run.config.preset == "as_published"

    def __repr__(self) -> str:
        run, graph = self.run, self.run.graph
        of = f"{run.config.graph_encoder!r}, graph of {len(graph):,} concepts and {graph.fact_count:,} facts"
        return f"QuestionAnswerer(run={str(run.folder)!r}, graph_encoder={of}, device={str(self.scorer.device)!r})"

    def ask(
        self,
        question: "str | Mapping[str, Any] | Question",
        choices: Sequence[str] | None = None,
        facts: Sequence[tuple[str, str, str]] = (),
        *,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
    ) -> Answer:
        """Answer one multiple-choice question.

        Any number of threads may call this at the same time.

        Args:
            question: The question, or a dictionary with the fields of a question file, or a :class:`~mhgrn.Question`.
            choices: Two or more choices, if ``question`` is a text.
            facts: Facts to add to the graph for this answer, for example ``[("quokka", "IsA", "marsupial")]``, at most 10,000. The
                graph itself does not change.
            paths: Number of paths to show, best first.
            effects: Also compute the answer's probability without each fact of these paths, and without the graph.
            attention: Also return every attention weight.
        """
        return self.answer(_question(question, choices), facts, paths=paths, effects=effects, attention=attention)

    def answer(
        self,
        question: Question,
        facts: Sequence[tuple[str, str, str]] = (),
        *,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
    ) -> Answer:
        """Answer a :class:`~mhgrn.Question`; see :meth:`ask`."""
        shown = _Shown(paths, effects, attention)
        prepared = self._prepare([question], self._knowledge_with(facts), TextMemory(self.scorer))
        return self._answers(self._score(prepared), shown)[0]

    def ask_many(
        self,
        questions: Any,
        facts: Sequence[tuple[str, str, str]] = (),
        *,
        batch_size: int = 64,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
    ) -> Iterator[Answer]:
        """Answer many questions in batches, and show progress. The answers equal those of :meth:`ask`, in the same order.

        Args:
            questions: Questions, dictionaries with the fields of a question file, a pandas or polars frame, or a
                ``datasets.Dataset``; see :func:`mhgrn.questions.reading.questions_from`.
            facts: Facts to add to the graph for these answers.
            batch_size: Questions that are computed together. Larger batches are faster and need more memory.
            paths: Number of paths to show, best first.
            effects: Also compute each answer's probability without each fact of these paths, and without the graph.
            attention: Also return every attention weight.

        >>> rows = [{"question": "Where does a fish live?", "choices": ["sea", "tree"]}]
        >>> [answer.choice for answer in qa.ask_many(rows, effects=False)]  # doctest: +SKIP
        ['sea']
        """
        _check_count("batch_size", batch_size)
        shown, knowledge, memory = _Shown(paths, effects, attention), self._knowledge_with(facts), TextMemory(self.scorer)
        total = len(questions) if isinstance(questions, Sized) else None
        batches = _batches(track(questions_from(questions), "answering", total), batch_size)

        def prepare(batch: list[Question]) -> _Prepared:
            return self._prepare(batch, knowledge, memory)

        # from a stream, read a batch only after the previous batch is answered
        prepared = map(prepare, batches) if total is None else one_ahead(batches, prepare)
        return (answer for batch in prepared for answer in self._answers(self._score(batch), shown))

    def walks(self, question: str, choices: Sequence[str], choice: str | None = None) -> WalkDistribution:
        """The distribution over walks behind a choice.

        Args:
            question: The question.
            choices: Two or more choices.
            choice: One of the choices. By default the answer.
        """
        read = self._score(self._prepare([Question.asked(question, choices)], self._knowledge, TextMemory(self.scorer)))
        if choice is not None and choice not in choices:
            raise UserError(f"{shortened(choice)} is not one of the choices.{did_you_mean(choice, choices)}")
        number = read.best[0] if choice is None else list(choices).index(choice)
        return WalkDistribution.of(read.encoding, read.batch, number, self._first_head)

    def _prepare(self, questions: Sequence[Question], knowledge: "_Knowledge", memory: TextMemory) -> "_Prepared":
        """Ground, extract and encode the statements of questions: everything that comes before the model."""
        stems = [question.stem for question in questions for _ in question.choices]
        choices = [choice for question in questions for choice in question.choices]
        subgraphs = self._subgraphs(questions, knowledge)
        with torch.inference_mode():
            graphs = self.scorer.graphs(subgraphs, knowledge.graph, stems=stems)
            text, truncated = memory.text(stems, choices)
            text = self.scorer.with_likelihoods(text, questions, subgraphs, knowledge.graph)
        return _Prepared(questions, knowledge, subgraphs, graphs, text, truncated)

    def _score(self, prepared: "_Prepared") -> "_Read":
        with torch.inference_mode():
            score, encoding = self.scorer(prepared.text, prepared.graphs)
        batch = prepared.graphs.batch
        sizes = [len(question.choices) for question in prepared.questions]
        return _Read(
            **vars(prepared),
            first=np.cumsum([0, *sizes]).tolist(),
            batch=batch if batch.concepts.device.type == "cpu" else batch.to("cpu"),
            score=score,
            encoding=encoding,
            probabilities=(shares := probabilities(score, sizes)),
            best=[best_choice(of_question) for of_question in shares],
        )

    def _answers(self, read: "_Read", shown: "_Shown") -> list[Answer]:
        decoded = [self._decode(read, q, shown) for q in range(len(read.questions))]
        if shown.effects and self.run.model.graph_encoder.uses_graph:
            decoded = self._with_effects(read, decoded, shown.paths)
        return [self._to_answer(read, q, found, shown) for q, found in enumerate(decoded)]

    def _subgraphs(self, questions: Sequence[Question], knowledge: "_Knowledge") -> list[Subgraph]:
        statements: list[str] = []
        choices: list[str] = []
        for question in questions:
            build = BUILDERS[statement_builder(self._statement, [question])]
            statements += [build(question.stem, choice) for choice in question.choices]
            choices += question.choices
        mentioned = knowledge.grounder.mentioned(statements, choices, [len(question.choices) for question in questions])
        hidden = [hidden_pairs(question, knowledge.graph) for question in questions]
        found = knowledge.extract.several(mentioned, hidden)
        nodes, facts = (pairwise(np.cumsum([0, *sizes]).tolist()) for sizes in (found.nodes, found.facts))
        return [
            Subgraph(found.concepts[a:b], found.types[a:b], found.head[c:d], found.relation[c:d], found.tail[c:d], int(cut))
            for (a, b), (c, d), cut in zip(nodes, facts, found.cut.tolist(), strict=True)
        ]

    def _decode(self, read: "_Read", q: int, shown: "_Shown") -> "_Decoded":
        """The best paths of a question's answer by attention, and how attention is divided."""
        encoder = self.run.model.graph_encoder
        walks: list[Walk] = []
        masses = None
        number, most = read.first[q] + read.best[q], shown.paths + TIED if shown.effects else shown.paths
        if isinstance(encoder, PathEncoder):
            walks = encoder.attended_walks(read.encoding, read.batch, number, most)
        elif encoder.uses_graph and attends_to_walks(read.encoding):
            distribution = WalkDistribution.of(read.encoding, read.batch, number, self._first_head)
            masses = distribution.masses
            walks = decode_walks(distribution, read.encoding.traces[:-1], most)
            if not walks and distribution.pool:
                walks = [Walk([max(distribution.pool, key=distribution.pool.__getitem__)], [], 0.0)]
        paths = [to_path(walk, read.batch, read.knowledge.graph) for walk in walks]
        if len(paths) > shown.paths:  # keep the paths that tie with the last one to show
            paths = [path for path in paths if _share(path) >= _share(paths[shown.paths - 1])]
        return _Decoded(paths, masses)

    def _with_effects(self, read: "_Read", decoded: list["_Decoded"], count: int) -> list["_Decoded"]:
        """Add the effects of all paths and of their facts, and keep the ``count`` best paths of each question."""
        removed = [
            sorted({(fact,) for path in found.paths for fact in path.facts} | {tuple(path.facts) for path in found.paths})
            for found in decoded
        ]
        graph = read.knowledge.graph
        altered = [
            AlteredGraphs.of(read.subgraphs[a:b], [{t for fact in facts for t in _triples(graph, fact)} for facts in of_question])
            for (a, b), of_question in zip(pairwise(read.first), removed, strict=True)
        ]
        result = []
        for found, of_question, effects in zip(decoded, removed, self._effects(read, altered), strict=True):
            without = dict(zip(of_question, effects.without, strict=True))
            change = {facts[0]: after - effects.probability for facts, after in without.items() if len(facts) == 1}
            paths = [
                replace(path, without=[without[fact,] for fact in path.facts], without_path=without[tuple(path.facts)])
                for path in found.paths
            ]
            # effects break the ties of attention; rounded, because the last digits of a score depend on the batch
            paths.sort(key=lambda path: (-_share(path), round(sum(change[fact] for fact in set(path.facts)), 6)))
            result.append(found._replace(paths=paths[:count], without_graph=effects.without_graph))
        return result

    def _effects(self, read: "_Read", altered: Sequence[AlteredGraphs]) -> list[Effects]:
        """Score the altered graphs of all questions, many at once."""
        graphs = [graph for of_question in altered for graph in of_question.graphs]
        owner = [a + choice for a, of_question in zip(read.first, altered, strict=False) for choice in of_question.choice]
        parts, start, facts = [], 0, 0
        with torch.inference_mode():
            for end, graph in enumerate(graphs, start=1):
                facts += len(graph.head)
                if facts > ALTERED_FACTS or end == len(graphs):
                    of = owner[start:end]
                    relevance = partial(read.relevance, statements=of)
                    batch = self.scorer.graphs(graphs[start:end], read.knowledge.graph, read.features, relevance=relevance)
                    parts.append(self.scorer(read.text.rows(of), batch).score)
                    start, facts = end, 0
        scores = torch.split(torch.cat(parts), [len(of_question.graphs) for of_question in altered])
        return [
            of_question.effects(read.score[a:b], changed, best)
            for of_question, changed, (a, b), best in zip(altered, scores, pairwise(read.first), read.best, strict=True)
        ]

    def _to_answer(self, read: "_Read", q: int, decoded: "_Decoded", shown: "_Shown") -> Answer:
        question, (a, b), encoder = read.questions[q], read.first[q : q + 2], self.run.model.graph_encoder
        names = _distinct(question)
        concepts = _found(read.knowledge.graph, names, read.subgraphs[a:b])
        weights = None
        if shown.attention and attends_to_walks(read.encoding):
            numbers = dict(zip(names, range(a, b), strict=True))
            weights = attention_data(read.encoding, read.batch, numbers, read.knowledge.graph, self._first_head)
        notes = _notes(concepts, decoded.paths, decoded.masses, encoder)
        if encoder.uses_graph:
            notes += read.knowledge.extract.limits.note(names, read.subgraphs[a:b])
        if read.encoding.cut is not None:
            notes += _left_out(encoder, read.encoding.cut[a:b], names)
        if shown.attention and weights is None and encoder.uses_graph:
            notes.append("this model does not attend to walks, so it has no attention weights.")
        if any(read.truncated[a:b]):
            most = self.run.config.text.max_length
            notes.append(f"the text was truncated to text.max_length={most} tokens.")
        return Answer(
            question=question.stem,
            choice=names[read.best[q]],
            probabilities=dict(zip(names, read.probabilities[q], strict=True)),
            paths=decoded.paths,
            concepts=concepts,
            notes=notes,
            masses=decoded.masses,
            without_graph=decoded.without_graph,
            attention=weights,
        )

    def _knowledge_with(self, facts: Sequence[tuple[str, str, str]]) -> "_Knowledge":
        added = _checked_facts(facts)
        return self._knowledge_of(self.run.graph.with_facts(added)) if added else self._knowledge

    def _knowledge_of(self, graph: KnowledgeGraph) -> "_Knowledge":
        return _Knowledge(graph, Grounder(graph), Extractor(graph, SubgraphLimits.of(self.run.about["data"])))


@dataclass(frozen=True)
class _Shown:
    """What an answer should contain."""

    paths: int
    effects: bool
    attention: bool

    def __post_init__(self) -> None:
        _check_count("paths", self.paths)


class _Decoded(NamedTuple):
    paths: list[ReasoningPath]
    masses: dict[str, float] | None
    without_graph: float | None = None


class _Knowledge(NamedTuple):
    """A graph with its grounder and subgraph extractor."""

    graph: KnowledgeGraph
    grounder: Grounder
    extract: Extractor


@dataclass(frozen=True)
class _Prepared:
    """A batch of questions before the model."""

    questions: Sequence[Question]
    knowledge: _Knowledge
    subgraphs: list[Subgraph]
    graphs: Graphs
    text: TextVectors
    truncated: list[bool]  # whether the text of a statement was truncated


@dataclass(frozen=True)
class _Read(_Prepared):
    """A batch of questions after the model. Question q has the statements first[q] … first[q + 1] - 1."""

    first: list[int]
    batch: GraphBatch  # of ``graphs``, in main memory
    score: Tensor
    encoding: GraphEncoding
    probabilities: list[list[float]]
    best: list[int]  # the choice of each question

    @cached_property
    def _feature_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The batch's distinct concepts, and a row of ``graphs.features`` for each."""
        concepts, node = np.unique(self.batch.concepts.numpy(), return_index=True)
        row = self.batch.feature_row
        return concepts, node if row is None else row.numpy()[node]

    def features(self, concepts: Tensor) -> Tensor:
        """The features of some of the batch's concepts."""
        known, row = self._feature_rows
        return self.graphs.features[torch.from_numpy(row[np.searchsorted(known, concepts.numpy())])]

    def relevance(self, altered: GraphBatch, statements: Sequence[int]) -> Tensor:
        """The relevance of the nodes of altered graphs, each of one of the batch's statements."""
        assert self.batch.relevance is not None
        count = int(self.batch.concepts.max()) + 1 if self.batch.num_nodes else 1
        key, node = (self.batch.batch * count + self.batch.concepts).sort()
        place = torch.searchsorted(key, torch.tensor(statements)[altered.batch] * count + altered.concepts)
        return self.batch.relevance[node[place]]


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} is {shortened(value)}; it should be an integer of 1 or more.")


def _question(question: object, choices: object) -> Question:
    """A question as a user gives it to :meth:`QuestionAnswerer.ask`."""
    if isinstance(question, Question | Mapping):
        if choices is not None:
            raise UserError("the choices are given twice: in the question and as choices; leave one out.")
        return question if isinstance(question, Question) else Question.from_dict(question)
    if choices is None:
        raise UserError(f"the question {shortened(question)} has no choices; give a list of two or more texts.")
    if isinstance(choices, Mapping):  # label → text
        choices = list(choices.values())
    return Question.asked(question, choices)  # type: ignore[arg-type]  # checked there


def _checked_facts(facts: object) -> list[tuple[str, str, str]]:
    """Extra facts as tuples. Their number and the length of their names are limited, because a question waits for them."""
    if facts is None:
        return []
    if isinstance(facts, str | Mapping) or not isinstance(facts, Iterable):
        raise UserError(f"the facts are {shortened(facts)}; give a list of tuples (head, relation, tail).")
    found = []
    for number, fact in enumerate(facts, start=1):
        parts = tuple(fact[name] for name in Fact._fields if name in fact) if isinstance(fact, Mapping) else fact
        if (
            isinstance(parts, str)
            or not isinstance(parts, Sequence)
            or len(parts) != 3
            or not all(isinstance(p, str) for p in parts)
        ):
            raise UserError(f"fact {number}, {shortened(fact)}, is not a tuple of three texts: head, relation, tail.")
        if number > MOST_FACTS:
            raise UserError(f"more than {MOST_FACTS:,} facts are given for one question; build a graph with them instead.")
        if max(map(len, parts)) > LONGEST_NAME:
            raise UserError(f"fact {number}, {shortened(fact)}, has a name of more than {LONGEST_NAME:,} characters.")
        found.append((parts[0], parts[1], parts[2]))
    return found


def _batches(questions: Iterator[Question], size: int) -> Iterator[list[Question]]:
    while batch := list(islice(questions, size)):
        yield batch


def _share(path: ReasoningPath) -> float:
    """A path's probability, rounded so that ties are equal."""
    return float(f"{path.probability:.9g}")


def _triples(graph: KnowledgeGraph, fact: Fact) -> set[Triple]:
    """A fact as numbers; a fact of a symmetric relation is stored in both directions."""
    relation = [r.name for r in graph.schema.relations].index(fact.relation)
    triple = Triple(graph.id(fact.head), relation, graph.id(fact.tail))
    return {triple, Triple(triple.tail, relation, triple.head)} if relation in graph.schema.symmetric_ids else {triple}


def _found(graph: KnowledgeGraph, choices: Sequence[str], subgraphs: Sequence[Subgraph]) -> Concepts:
    asked = {c for subgraph in subgraphs for c in _of_type(subgraph, QUESTION)}
    answers = {c: [graph.name(n) for n in _of_type(g, ANSWER)] for c, g in zip(choices, subgraphs, strict=True)}
    return {"question": sorted(graph.name(c) for c in asked), "choices": answers}


def _of_type(subgraph: Subgraph, kind: int) -> list[int]:
    """The concepts of a subgraph with a node type."""
    concepts: list[int] = np.asarray(subgraph.concepts)[subgraph.types == kind].tolist()
    return concepts


def _distinct(question: Question) -> list[str]:
    """Distinct names of the choices: their texts, with a letter added to repeated texts, or to all if that is not enough."""
    texts = question.choices
    lettered = [f"{text} ({question.label(i)})" for i, text in enumerate(texts)]
    names = [long if texts.count(text) > 1 else text for text, long in zip(texts, lettered, strict=True)]
    return names if len(set(names)) == len(names) else lettered


def _left_out(encoder: GraphEncoder, cut: Tensor, choices: Sequence[str]) -> list[str]:
    some = [f"{choice} ({int(n):,})" for choice, n in zip(choices, cut.tolist(), strict=True) if n]
    return [f"part of the graph was omitted because of {encoder.limit_setting}: {', '.join(some)}."] if some else []


def _notes(concepts: Concepts, paths: list[ReasoningPath], masses: dict[str, float] | None, encoder: GraphEncoder) -> list[str]:
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
