"""The questions of a batch are grounded, scored, explained and answered together."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from mhgrn.compiled.threads import one_ahead
from mhgrn.encoders._paths import PathEncoder
from mhgrn.errors import UserError
from mhgrn.explain import (
    AlteredGraphs,
    ReasoningPath,
    Walk,
    WalkDistribution,
    attends_to_walks,
    to_path,
)
from mhgrn.explain import attention as attention_data
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.statements import BUILDERS
from mhgrn.inference.altered import FactMasks, altered_scores, altered_subgraphs
from mhgrn.inference.answer import Answer
from mhgrn.inference.asked import (
    Asked,
    Names,
    check_count,
    checked_facts,
    choice_number,
    distinct_names,
    naming,
    to_question,
    triples,
)
from mhgrn.inference.batch import Decoded, Knowledge, Prepared, Read, batched, per_part
from mhgrn.inference.certainty import calibration_for, certainty_notes, least_confidence, likely_choices
from mhgrn.inference.contrast import Contrast, candidates, contrast_of
from mhgrn.inference.evidence import Evidence
from mhgrn.inference.evidence_set import evidence_set
from mhgrn.inference.gathering import evidence_of
from mhgrn.inference.notes import found_concepts, left_out, notes_of
from mhgrn.inference.proposing import Proposer, rank_proposed, refuse_without_choices
from mhgrn.inference.searching import WALKS, smallest_sets, steepest_facts
from mhgrn.inference.sources import shown_facts, sources_of
from mhgrn.inference.view import view_of
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.progress import track
from mhgrn.questions.question import Question, checked_stem
from mhgrn.questions.reading import questions_from
from mhgrn.runs import Run
from mhgrn.scoring import Scorer, TextMemory, best_choice, probabilities
from mhgrn.sharing import Shareable
from mhgrn.subgraphs.extract import Extractor, Subgraph, SubgraphLimits
from mhgrn.subgraphs.extracting import hidden_pairs
from mhgrn.subgraphs.prepared import statement_builder
from mhgrn.text.packed import TextPrecision

TIED = 8  # paths considered beyond those asked for, so that effects can choose among ties


class QuestionAnswerer(Shareable):
    """Answers questions with a trained run.

    Args:
        run: The run, see :meth:`mhgrn.Run.load`. :func:`mhgrn.load` loads it and makes a QuestionAnswerer.
        device: Where the model computes, for example ``"cpu"`` or ``"cuda"``.
        text_memory: Bytes of text vectors to keep from one call to the next, so that a text is encoded once. By default none. The
            weights of the text encoder must not change.
        text_precision: Of the text encoder: ``"float32"``, or ``"int8"``, which is several times as fast on a processor and changes
            probabilities a little. See :meth:`mhgrn.TextEncoder.for_answering`.

    >>> qa = QuestionAnswerer(Run.load("run"))  # doctest: +SKIP
    >>> qa.ask("Where would a child sit at a desk?", ["schoolroom", "patio"]).choice  # doctest: +SKIP
    'schoolroom'
    """

    def __init__(
        self, run: Run, device: str | torch.device = "cpu", text_memory: int = 0, text_precision: TextPrecision = "float32"
    ) -> None:
        run = replace(run, encoder=run.encoder.for_answering(text_precision))
        self.run, self.scorer = run, Scorer(run, device)
        if text_precision != "float32" and self.scorer.device.type != "cpu":
            raise UserError(f"text_precision={text_precision} is for cpu, not for {self.scorer.device}; use float32.")
        self.memory = TextMemory(self.scorer, text_memory) if text_memory else None
        self._knowledge, self._proposer = self._knowledge_of(run.graph), Proposer(run.graph, run.encoder)
        self._statement = run.about["data"].get("statement", "auto")
        self._first_head = run.config.preset == "as_published"

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""
        return self.run.graph

    def __repr__(self) -> str:
        run, graph = self.run, self.run.graph
        of = f"{run.config.graph_encoder!r}, graph of {len(graph):,} concepts and {graph.fact_count:,} facts"
        return f"QuestionAnswerer(run={str(run.folder)!r}, graph_encoder={of}, device={str(self.scorer.device)!r})"

    def ask(
        self,
        question: "str | Mapping[str, Any] | Question",
        choices: Sequence[str] | None = None,
        facts: Sequence[Names] = (),
        *,
        without: Sequence[Names] = (),
        n: int = 10,
        graph: bool = True,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
        subgraph: bool = False,
        contrast: str | None = None,
        abstain_below: float | None = None,
        coverage: float | None = None,
        by: str = "evidence",
    ) -> Answer:
        """Answer one question, with or without choices.

        Any number of threads may call this at the same time.

        Args:
            question: The question, or a dictionary with the fields of a question file, or a :class:`~mhgrn.Question`.
            choices: Two or more choices, if ``question`` is a text. None: concepts are proposed as choices, see :meth:`rank`.
            facts: Facts to add to the graph for this answer, for example ``[("quokka", "IsA", "marsupial")]``, at most 10,000. The
                graph itself does not change.
            without: Facts of the graph to leave out for this answer. Their concepts stay.
            n: Number of answers to a question without choices.
            graph: False: answer without the graph.
            paths: Number of paths to show, best first.
            effects: Compute what the facts do. False is faster, and shows only where the model looked.
            attention: Also return every attention weight.
            subgraph: Also return the question's part of the graph, at most 200 nodes.
            contrast: Also compare the answer with this choice, see :meth:`contrast`.
            abstain_below: The answer says that it is not sure enough if its probability is lower than this. None: than the value
                that is stored with the run, if there is one. 0: never.
            coverage: Also return a set of choices that contains the right one with this probability, for example 0.9. The run must
                be calibrated, see :func:`mhgrn.calibrate`.
            by: ``"evidence"``: explain the answer by the smallest set of facts that carries it. ``"attention"``: by the best paths
                and the answer's probability without each of their facts.
        """
        if choices is None and isinstance(question, str):
            refuse_without_choices(graph=not graph, attention=attention, subgraph=subgraph, contrast=contrast, coverage=coverage)
            return self.rank(question, n, paths, [*facts, *without], effects=effects, abstain_below=abstain_below)
        asked = Asked(
            to_question(question, choices),
            facts,
            without,
            graph,
            paths,
            effects,
            attention,
            subgraph=subgraph,
            contrast=contrast,
            abstain_below=abstain_below,
            coverage=coverage,
            by=by,
        )
        return self.answer_all([asked])[0]

    def rank(self, question: str, n: int = 10, paths: int = 3, facts: Sequence[Names] = (), **options: Any) -> Answer:
        """Answer a question without choices: concepts that walks reach are proposed and scored as choices.

        Args:
            question: The question. ``[…]`` marks a concept that walks start at.
            n, paths: Number of answers, and of paths to each.
            facts: Refused.
            options: ``effects`` and ``abstain_below``, as in :meth:`ask`.
        """
        refuse_without_choices(facts=facts)
        return rank_proposed(self, self._proposer, question, n, paths, **options)

    def answer(self, question: Question, facts: Sequence[Names] = (), **options: Any) -> Answer:
        """Answer a :class:`~mhgrn.Question`; ``options`` are those of :meth:`ask`."""
        return self.answer_all([Asked(question, facts, **options)])[0]

    def ask_many(
        self,
        questions: Any,
        facts: Sequence[Names] = (),
        *,
        batch_size: int = 64,
        paths: int = 3,
        effects: bool = True,
        attention: bool = False,
        abstain_below: float | None = None,
        coverage: float | None = None,
        by: str = "evidence",
    ) -> Iterator[Answer]:
        """Answer many questions in batches, and show progress. The answers equal those of :meth:`ask`, in the same order.

        Args:
            questions: Questions, dictionaries with the fields of a question file, a pandas or polars frame, or a
                ``datasets.Dataset``; see :func:`mhgrn.questions.reading.questions_from`.
            facts: Facts to add to the graph for these answers.
            batch_size: Questions that are computed together. Larger batches are faster and need more memory.
            paths: Number of paths to show, best first.
            effects: Compute what the facts do, see :meth:`ask`.
            attention: Also return every attention weight.
            abstain_below: As in :meth:`ask`.
            coverage: As in :meth:`ask`.
            by: How answers are explained, see :meth:`ask`.
        """
        check_count("batch_size", batch_size)
        check_count("paths", paths)
        knowledge = self._knowledge_with(checked_facts(facts))
        total = len(questions) if isinstance(questions, Sized) else None
        batches = batched(track(questions_from(questions), "answering", total), batch_size)
        options: dict[str, Any] = {"paths": paths, "effects": effects, "attention": attention, "by": by}
        options |= {"abstain_below": abstain_below, "coverage": coverage}
        memories = per_part(self._memory, batch_size)

        def prepare(batch: list[Question]) -> Prepared:
            return self._prepare([Asked(question, **options) for question in batch], knowledge, next(memories))

        # from a stream, read a batch only after the previous batch is answered
        prepared = map(prepare, batches) if total is None else one_ahead(batches, prepare)
        return (answer for batch in prepared for answer in self.answers_of(self._score(batch)))

    def answer_all(self, asked: Sequence[Asked]) -> list[Answer]:
        """Answer questions that may have different options. Those that add the same facts to the graph are computed together."""
        groups: dict[tuple[Names, ...], list[int]] = {}
        for number, one in enumerate(asked):
            groups.setdefault(tuple(one.facts), []).append(number)
        answers: dict[int, Answer] = {}
        memory = self._memory()
        for numbers in groups.values():
            read = self.read([asked[number] for number in numbers], memory)
            answers |= zip(numbers, self.answers_of(read), strict=True)
        return [answers[number] for number in range(len(asked))]

    def read(self, asked: Sequence[Asked], memory: TextMemory | None = None) -> Read:
        """Score questions that add the same facts to the graph, and keep what explanations need; see :class:`FactMasks`."""
        return self._score(self._prepare(asked, self._knowledge_with(asked[0].facts), memory or self._memory()))

    def contrast(
        self,
        question: "str | Mapping[str, Any] | Question",
        choices: Sequence[str] | None,
        this: str,
        other: str,
        facts: Sequence[Names] = (),
        *,
        without: Sequence[Names] = (),
    ) -> Contrast:
        """Why one choice rather than another: the facts whose removal most changes the difference of their log odds.

        Args:
            question: The question, as in :meth:`ask`.
            choices: Two or more choices, if ``question`` is a text.
            this: One of the choices.
            other: Another one.
            facts: Facts to add to the graph.
            without: Facts of the graph to leave out.
        """
        asked = Asked(to_question(question, choices), facts, without, effects=False)
        numbers = choice_number(asked.question, this), choice_number(asked.question, other)
        read = self.read([asked])
        return self._contrast(read, 0, *numbers)

    def evidence(
        self, question: "str | Mapping[str, Any] | Question", choices: Sequence[str] | None = None, budget: int = 300
    ) -> Evidence:
        """Facts and paths of the graph that may help with a question, as sentences, best first, within a token budget.

        Args:
            question: The question, as in :meth:`ask`.
            choices: Two or more choices. Without them a text is an open question, and the model itself is not used.
            budget: The largest number of tokens of :attr:`Evidence.text`, counted by the tokenizer of the run's text encoder.

        >>> print(qa.evidence("Where would a child sit?", budget=100).context())  # doctest: +SKIP
        """
        check_count("budget", budget)
        if isinstance(question, str) and choices is None:
            return evidence_of(checked_stem(question), None, budget, self._knowledge, self.scorer, None, self._first_head)
        asked = Asked(to_question(question, choices), effects=False)
        texts = asked.question.stem, list(asked.question.choices)
        return evidence_of(*texts, budget, self._knowledge, self.scorer, self.read([asked]), self._first_head)

    def walks(self, question: str, choices: Sequence[str], choice: str | None = None) -> WalkDistribution:
        """The distribution over walks behind a choice.

        Args:
            question: The question.
            choices: Two or more choices.
            choice: One of the choices. By default the answer.
        """
        asked = Asked(Question.asked(question, choices))
        read = self.read([asked])
        number = read.best[0] if choice is None else choice_number(asked.question, choice)
        return WalkDistribution.of(read.encoding, read.batch, number, self._first_head)

    def _memory(self) -> TextMemory:
        return self.memory or TextMemory(self.scorer)

    def _prepare(self, asked: Sequence[Asked], knowledge: Knowledge, memory: TextMemory) -> Prepared:
        """Ground, extract and encode the statements of questions: everything that comes before the model."""
        calibration_for(self.run, asked)
        questions = [one.question for one in asked]
        stems = [question.stem for question in questions for _ in question.choices]
        choices = [choice for question in questions for choice in question.choices]
        found = self._subgraphs(questions, knowledge)
        subgraphs = altered_subgraphs(asked, knowledge.graph, found)
        with torch.inference_mode():
            graphs = self.scorer.graphs(subgraphs, knowledge.graph, stems=stems)
            text, truncated = memory.text(stems, choices)
            text = self.scorer.with_likelihoods(text, questions, subgraphs, knowledge.graph)
        return Prepared(asked, knowledge, found, subgraphs, graphs, text, truncated)

    def _score(self, prepared: Prepared) -> Read:
        with torch.inference_mode():
            score, encoding = self.scorer(prepared.text, prepared.graphs)
        batch = prepared.graphs.batch
        sizes = [len(one.question.choices) for one in prepared.asked]
        return Read(
            **vars(prepared),
            first=np.cumsum([0, *sizes]).tolist(),
            batch=batch if batch.concepts.device.type == "cpu" else batch.to("cpu"),
            score=score,
            encoding=encoding,
            probabilities=(shares := probabilities(score, sizes)),
            best=[best_choice(of_question, self.scorer.temperature) for of_question in shares],
        )

    def answers_of(self, read: Read) -> list[Answer]:
        """The answers of questions that were read."""
        decoded = [self._decode(read, q, read.best[q]) for q in range(len(read.asked))]
        if self.run.model.graph_encoder.uses_graph and any(asked.effects for asked in read.asked):
            decoded = self._with_evidence(read, self._with_effects(read, decoded))
        return [self._to_answer(read, q, found) for q, found in enumerate(decoded)]

    def _subgraphs(self, questions: Sequence[Question], knowledge: Knowledge) -> list[Subgraph]:
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

    def paths_of(self, read: Read, q: int, choice: int) -> list[ReasoningPath]:
        """The best paths to any choice of a question, by attention."""
        return self._decode(read, q, choice).paths[: read.asked[q].paths]

    def _decode(self, read: Read, q: int, choice: int) -> Decoded:
        """The best paths of a question's choice by attention, and how attention is divided."""
        encoder, asked = self.run.model.graph_encoder, read.asked[q]
        walks: list[Walk] = []
        masses = None
        number, most = read.first[q] + choice, asked.paths + TIED if asked.effects_of_paths else asked.paths
        if isinstance(encoder, PathEncoder):
            walks = encoder.attended_walks(read.encoding, read.batch, number, most)
        elif encoder.uses_graph and attends_to_walks(read.encoding):
            distribution = read.walks(number, self._first_head)
            masses = distribution.masses
            searched = max(most, WALKS) if asked.searches_evidence else most  # so that the search for evidence finds them
            walks = read.best_walks(number, self._first_head, searched)[:most]
            if not walks and distribution.pool:
                walks = [Walk([max(distribution.pool, key=distribution.pool.__getitem__)], [], 0.0)]
        paths = [to_path(walk, read.batch, read.knowledge.graph) for walk in walks]
        if len(paths) > asked.paths:  # keep the paths that tie with the last one to show
            paths = [path for path in paths if _share(path) >= _share(paths[asked.paths - 1])]
        return Decoded(paths, masses)

    def _with_effects(self, read: Read, decoded: list[Decoded]) -> list[Decoded]:
        """Add the effects of all paths and of their facts, and keep the best paths of each question."""
        chosen = [q for q, asked in enumerate(read.asked) if asked.effects_of_paths]
        if not chosen:
            return decoded
        removed = [
            sorted({(fact,) for path in decoded[q].paths for fact in path.facts} | {tuple(path.facts) for path in decoded[q].paths})
            for q in chosen
        ]
        graph = read.knowledge.graph
        altered = [
            AlteredGraphs.of(self._of(read, q), [{t for fact in facts for t in triples(graph, fact)} for facts in of_question])
            for q, of_question in zip(chosen, removed, strict=True)
        ]
        graphs = [
            (one, read.first[q] + choice)
            for q, of in zip(chosen, altered, strict=True)
            for one, choice in zip(of.graphs, of.choice, strict=True)
        ]
        scores = torch.split(altered_scores(self.scorer, read, graphs), [len(of.graphs) for of in altered])
        result = list(decoded)
        for q, of_question, of, changed in zip(chosen, removed, altered, scores, strict=True):
            effects = of.effects(read.score[read.first[q] : read.first[q + 1]], changed, read.best[q])
            without = dict(zip(of_question, effects.without, strict=True))
            change = {facts[0]: after - effects.probability for facts, after in without.items() if len(facts) == 1}
            paths = [
                replace(path, without=[without[fact,] for fact in path.facts], without_path=without[tuple(path.facts)])
                for path in decoded[q].paths
            ]
            # effects break the ties of attention; rounded, because the last digits of a score depend on the batch
            paths.sort(key=lambda path: (-_share(path), round(sum(change[fact] for fact in set(path.facts)), 6)))
            result[q] = decoded[q]._replace(paths=paths[: read.asked[q].paths], without_graph=effects.without_graph)
        return result

    def _with_evidence(self, read: Read, decoded: list[Decoded]) -> list[Decoded]:
        """Add the smallest sets of facts that carry the answers."""
        chosen = [q for q, asked in enumerate(read.asked) if asked.searches_evidence]
        masks = [FactMasks(self.scorer, read, q) for q in chosen]
        result = list(decoded)
        for q, of, found in zip(chosen, masks, smallest_sets(masks, self._first_head), strict=True):
            shown = evidence_set(found, of.facts, read.knowledge.graph, distinct_names(read.asked[q].question))
            result[q] = decoded[q]._replace(evidence=shown, without_graph=shown.without_graph)
        return result

    def _contrast(self, read: Read, q: int, this: int, other: int) -> Contrast:
        """Remove each candidate fact from the graphs of two choices, all at once, and keep those that change most."""
        graph, both = read.knowledge.graph, [read.first[q] + this, read.first[q] + other]
        encoder = self.run.model.graph_encoder
        facts = candidates(read, both, encoder, self._first_head)
        if encoder.weighs_edges and encoder.uses_graph:
            facts = list(dict.fromkeys([*facts, *steepest_facts(FactMasks(self.scorer, read, q), [this, other])]))
        of = AlteredGraphs.of([read.subgraphs[statement] for statement in both], [triples(graph, fact) for fact in facts])
        changed = altered_scores(self.scorer, read, ((one, both[choice]) for one, choice in zip(of.graphs, of.choice, strict=True)))
        names = distinct_names(read.asked[q].question)
        return contrast_of(names[this], names[other], facts, read.score[both], of.replaced, changed, graph)

    def _of(self, read: Read, q: int) -> list[Subgraph]:
        return read.subgraphs[read.first[q] : read.first[q + 1]]

    def _to_answer(self, read: Read, q: int, decoded: Decoded) -> Answer:
        asked, (a, b), encoder = read.asked[q], read.first[q : q + 2], self.run.model.graph_encoder
        names = distinct_names(asked.question)
        concepts = found_concepts(read.knowledge.graph, names, read.found[a:b])
        weights = None
        if asked.attention and attends_to_walks(read.encoding):
            numbers = dict(zip(names, range(a, b), strict=True))
            weights = attention_data(read.encoding, read.batch, numbers, read.knowledge.graph, self._first_head)
        contrast = None
        if asked.contrast is not None:
            contrast = self._contrast(read, q, read.best[q], choice_number(asked.question, asked.contrast))
        view = partial(view_of, read, q, decoded.facts, encoder, self._first_head)
        return Answer(
            question=asked.question.stem,
            choice=names[read.best[q]],
            probabilities=dict(zip(names, read.probabilities[q], strict=True)),
            paths=decoded.paths,
            concepts=concepts,
            notes=self._notes(read, q, decoded, names),
            masses=decoded.masses,
            without_graph=decoded.without_graph,
            attention=weights,
            subgraph=view() if asked.subgraph else None,
            contrast=contrast,
            abstain_below=least_confidence(self.run.calibration, asked),
            coverage=asked.coverage,
            prediction_set=likely_choices(self.run.calibration, asked, names, read.probabilities[q], read.best[q]),
            evidence=decoded.evidence,
            sources=sources_of(read.knowledge.graph, shown_facts(decoded)),
            _view=view if len(read.asked) == 1 and encoder.uses_graph else None,  # answers of a batch would keep all of it
        )

    def _notes(self, read: Read, q: int, decoded: Decoded, names: Sequence[str]) -> list[str]:
        asked, (a, b), encoder = read.asked[q], read.first[q : q + 2], self.run.model.graph_encoder
        concepts = found_concepts(read.knowledge.graph, names, read.found[a:b])
        notes = certainty_notes(self.run.calibration, asked)
        notes += notes_of(concepts, decoded.paths, decoded.masses, encoder)
        if encoder.uses_graph and not asked.graph:
            notes = [*certainty_notes(self.run.calibration, asked), "the graph is switched off."]
        elif encoder.uses_graph:
            notes += read.knowledge.extract.limits.note(names, read.subgraphs[a:b])
            if asked.without and all(one is other for one, other in zip(read.found[a:b], read.subgraphs[a:b], strict=True)):
                notes.append("the facts that are left out are not in this question's part of the graph; nothing changes.")
        if read.encoding.cut is not None:
            notes += left_out(encoder, read.encoding.cut[a:b], names)
        if asked.attention and encoder.uses_graph and not attends_to_walks(read.encoding):
            notes.append("this model does not attend to walks, so it has no attention weights.")
        with torch.inference_mode():
            if self.run.model.negation is not None and float(self.run.model.sign(read.text.s[a : a + 1])) < 0:
                notes.append("read as a question for what does not fit: a choice that fits the question counts less.")
        if any(read.truncated[a:b]):
            most = self.run.config.text.max_length
            notes.append(f"the text was truncated to text.max_length={most} tokens.")
        return notes

    def _knowledge_with(self, facts: Sequence[Names]) -> Knowledge:
        if not facts:
            return self._knowledge
        with naming("facts"):
            return self._knowledge_of(self.run.graph.with_facts(facts))

    def _knowledge_of(self, graph: KnowledgeGraph) -> Knowledge:
        return Knowledge(graph, Grounder(graph), Extractor(graph, SubgraphLimits.of(self.run.about["data"])))


def _share(path: ReasoningPath) -> float:
    """A path's probability, rounded so that ties are equal."""
    return float(f"{path.probability:.9g}")
