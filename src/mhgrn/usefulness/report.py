"""Measure evidence: how much of the known evidence it contains, and what it changes for a language model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.inference.gathering import canonical
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.results import Store
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.progress import bar
from mhgrn.text.likelihood import CausalModel, choice_likelihoods
from mhgrn.text.settings import LikelihoodSettings
from mhgrn.usefulness.gold import GoldQuestion
from mhgrn.usefulness.retrieval import METHODS, Retrieval

RESAMPLES = 2000  # of a bootstrap interval
READ = ("evidence", "bm25", "random facts")  # what a language model reads
MEASURES = {
    "facts": "supporting facts",
    "concepts": "gold concepts",
    "new_concepts": "gold concepts that the question does not name",
}
LONGEST_PROMPT = 1024  # tokens

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A mean over questions with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    questions: int

    @classmethod
    def of(cls, values: Sequence[float], seed: int = 0) -> "Interval":
        """
        >>> Interval.of([1.0, 1.0, 1.0])
        Interval(mean=1.0, low=1.0, high=1.0, questions=3)
        """
        numbers = np.asarray(values, dtype=np.float64)
        drawn = np.random.default_rng(seed).integers(0, len(numbers), (RESAMPLES, len(numbers)))
        low, high = np.quantile(numbers[drawn].mean(1), [0.025, 0.975])
        return cls(float(numbers.mean()), float(low), float(high), len(numbers))

    def __str__(self) -> str:
        return f"{100 * self.mean:5.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True)
class UsefulnessReport:
    """The usefulness of evidence.

    Args:
        budget: Tokens of the evidence.
        recall: Measure → method → share of the known evidence that is found.
        tokens: Method → mean number of facts.
        model: The language model that was measured; None if none was.
        accuracy: What the model reads before the question (``nothing`` or a method) → accuracy.
        change: The other texts → change of the accuracy with evidence instead, over the same questions.
    """

    budget: int
    recall: dict[str, dict[str, Interval]]
    facts: dict[str, float]
    model: str | None = None
    accuracy: dict[str, Interval] = field(default_factory=dict)
    change: dict[str, Interval] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        def plain(of: dict[str, Interval]) -> dict[str, Any]:
            return {name: interval._asdict() for name, interval in of.items()}

        recall = {measure: plain(of) for measure, of in self.recall.items()}
        return {**asdict(self), "recall": recall, "accuracy": plain(self.accuracy), "change": plain(self.change)}

    def __str__(self) -> str:
        lines = []
        for measure, of in self.recall.items():
            count = next(iter(of.values())).questions
            lines.append(f"recall of {MEASURES[measure]} in % at {self.budget} tokens, {count:,} questions [95 % interval]")
            lines += [f"  {method:<15} {interval}   {self.facts[method]:.1f} facts" for method, interval in of.items()]
        if self.accuracy:
            count = next(iter(self.accuracy.values())).questions
            lines.append(f"accuracy of {self.model} in % with {self.budget} tokens before the question, {count:,} questions")
            lines += [f"  {name:<15} {interval}" for name, interval in self.accuracy.items()]
            lines.append("change in points with evidence instead of")
            lines += [f"  {name:<15} {interval}" for name, interval in self.change.items()]
        return "\n".join(lines)


def measure_usefulness(
    qa: QuestionAnswerer,
    gold: Sequence[GoldQuestion],
    budget: int = 300,
    model: str | None = None,
    methods: Sequence[str] = METHODS,
    seed: int = 0,
    allow_download: bool = False,
    progress_file: Path | None = None,
) -> UsefulnessReport:
    """Measure the evidence of a run for questions with known evidence, and a language model that reads it.

    Args:
        qa: The run.
        gold: The questions.
        budget: Tokens of the evidence.
        model: A causal language model, as of :class:`CausalModel`. By default none is measured. Questions need answers then.
        methods: Ways to choose facts, of :data:`METHODS`.
        seed: Of random facts and intervals.
        allow_download: Download the language model if it is not on this machine.
        progress_file: Keep the results of single questions here, and use those of an interrupted measurement.
    """
    if model is not None and any(one.question.answer is None for one in gold):
        raise UserError("a question has no answer; the accuracy of a language model needs questions with answers.")
    language_model = None if model is None else _language_model(model, allow_download)
    retrieval, graph = Retrieval(qa, budget, seed), qa.run.graph
    used = [*methods, *(method for method in READ if model is not None and method not in methods)]
    store = Store(progress_file, _identity(qa, gold, budget, seed, model))
    found = _chosen_facts(store, retrieval, gold, used)
    recall: dict[str, dict[str, Interval]] = {}
    for measure in MEASURES:
        known = [i for i, one in enumerate(gold) if getattr(one, measure)]
        if known:
            recall[measure] = {
                m: Interval.of([_recall(graph, gold[i], measure, found[m][i]) for i in known], seed) for m in methods
            }
    facts = {method: float(np.mean([len(of) for of in found[method]])) for method in used}
    accuracy: dict[str, Interval] = {}
    change: dict[str, Interval] = {}
    if language_model is not None:
        right = _answered(store, language_model, retrieval, gold, found)
        accuracy = {name: Interval.of(of.tolist(), seed) for name, of in right.items()}
        change = {name: Interval.of((right["evidence"] - of).tolist(), seed) for name, of in right.items() if name != "evidence"}
    elif not recall:
        raise UserError("no question has known evidence (support or fact1), and no language model is given; nothing to measure.")
    store.remove()
    return UsefulnessReport(budget, recall, facts, model, accuracy, change)


def _identity(qa: QuestionAnswerer, gold: Sequence[GoldQuestion], budget: int, seed: int, model: str | None) -> str:
    """Of everything that the results of single questions depend on. Methods may be added to a measurement."""
    weights = qa.run.folder / "model.safetensors"
    questions = [(one.question.stem, list(one.question.choices), one.question.answer) for one in gold]
    run = file_fingerprint(weights) if weights.is_file() else str(qa.run.folder)
    return fingerprint(run, qa.run.graph.fingerprint, questions, budget, seed, model)


def _chosen_facts(
    store: Store, retrieval: Retrieval, gold: Sequence[GoldQuestion], methods: Sequence[str]
) -> dict[str, list[list[Fact]]]:
    """Method → the facts that it chooses for each question."""
    keys = {(method, number): f"{method}: facts of {number}" for method in methods for number in range(len(gold))}
    with bar("choosing facts", len(gold)) as advance:
        for number, one in enumerate(gold):
            new = [method for method in methods if keys[method, number] not in store]
            chosen = {keys[method, number]: retrieval.facts(method, one.question, number) for method in new}
            if chosen:
                store.add_all(chosen)
            advance(number + 1)
    return {method: [[Fact(*fact) for fact in store[keys[method, n]]] for n in range(len(gold))] for method in methods}


def _answered(
    store: Store,
    model: CausalModel,
    retrieval: Retrieval,
    gold: Sequence[GoldQuestion],
    found: dict[str, list[list[Fact]]],
) -> dict[str, Floats]:
    """What the language model reads → whether it answers each question correctly."""
    names, settings = ("nothing", *READ), LikelihoodSettings(model=model.name)
    alone: dict[str, float] = {}
    with bar("asking the language model", len(gold)) as advance:
        for number, one in enumerate(gold):
            question, new = one.question, {}
            for name in names:
                if (key := f"{name}: likelihoods of {number}") not in store:
                    text = None if name == "nothing" else [retrieval.text(found[name][number])] * len(question.choices)
                    new[key] = choice_likelihoods(model, [question], settings, text, alone)[0]
            if new:
                store.add_all(new)
            advance(number + 1)
    right = {}
    for name in names:
        scores = [store[f"{name}: likelihoods of {number}"] for number in range(len(gold))]
        same = [of.index(max(of)) == one.question.answer for of, one in zip(scores, gold, strict=True)]
        right[name] = np.array(same, dtype=np.float64)
    return right


def _language_model(name: str, allow_download: bool) -> CausalModel:
    """A model that reads prompts as long as it can, at most :data:`LONGEST_PROMPT` tokens."""
    model = CausalModel(name, allow_download)
    model.max_length = min(LONGEST_PROMPT, getattr(model.model.config, "max_position_embeddings", None) or LONGEST_PROMPT)
    return model


def _recall(graph: KnowledgeGraph, gold: GoldQuestion, measure: str, facts: Sequence[Fact]) -> float:
    """The share of the known facts or concepts that are in chosen facts."""
    wanted = getattr(gold, measure)
    if measure == "facts":
        return len(wanted & {canonical(graph, fact) for fact in facts}) / len(wanted)
    return len(wanted & {name for fact in facts for name in (fact.head, fact.tail)}) / len(wanted)
