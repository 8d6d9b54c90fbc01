"""An answer with the facts behind it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from mhgrn.explain import ReasoningPath
from mhgrn.inference.certainty import percent, rounded_down
from mhgrn.inference.contrast import Contrast
from mhgrn.inference.evidence_set import EvidenceSet
from mhgrn.inference.html import answer_html
from mhgrn.inference.ranking import Ranking
from mhgrn.inference.sources import source_lines
from mhgrn.kg.sentences import label
from mhgrn.printing import printable, shortened

PRINTED = 0.001  # the last printed digit of a probability
OPTIONAL = (
    "attention",
    "sources",
    "subgraph",
    "contrast",
    "abstain_below",
    "coverage",
    "prediction_set",
    "ranking",
    "certainty",
)  # not in the JSON unless they were asked for
WIDEST = 60  # characters of the column of choices
LISTED = 10  # concepts of a set that are printed


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
        subgraph: The question's part of the graph, if it was asked for; see :func:`mhgrn.inference.view.view_of`.
        contrast: The comparison with another choice, if it was asked for.
        abstain_below: The least confidence that was asked for.
        coverage: The coverage that was asked for.
        prediction_set: The choices that contain the right one with this coverage, most probable first.
        evidence: The smallest set of facts that carries the answer, unless the answer is explained by attention or effects are off.
        sources: The ids and the provenance of the facts of the evidence and the paths, if the graph keeps provenance.
        ranking: The best answers of a question without choices, with probabilities and paths. ``choice`` is the first.
        certainty: The probability that the first answer of a ranking is right, if it is not the answer's own probability: that one
            is shared if there are several right answers.

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
    subgraph: dict[str, Any] | None = None
    contrast: Contrast | None = None
    abstain_below: float | None = None
    coverage: float | None = None
    prediction_set: list[str] | None = None
    evidence: EvidenceSet | None = None
    sources: list[dict[str, Any]] | None = None
    ranking: Ranking | None = None
    certainty: float | None = None
    _view: Callable[[], dict[str, Any]] | None = field(default=None, repr=False, compare=False)  # makes ``subgraph`` for Jupyter

    def __getstate__(self) -> dict[str, Any]:
        """Copies do not keep the graph of the question in memory."""
        return {**vars(self), "_view": None}

    @property
    def confidence(self) -> float:
        """The probability that the choice is right. It is calibrated if the run is."""
        return self.probabilities.get(self.choice, 0.0) if self.certainty is None else self.certainty

    @property
    def abstained(self) -> bool:
        """Whether the model is not sure enough to answer."""
        return self.abstain_below is not None and self.confidence < self.abstain_below

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values. A path has its facts, its concepts, its text, and each fact as a sentence."""
        paths = [{**vars(path), "facts": [list(fact) for fact in path.facts], "text": str(path)} for path in self.paths]
        answer = {"question": self.question, "choice": self.choice, "confidence": self.confidence, **vars(self), "paths": paths}
        answer["evidence"] = None if self.evidence is None else self.evidence.to_dict()
        if self.ranking is not None:
            answer["ranking"], answer["certainty"] = self.ranking.to_dict(), None  # it is the confidence
        if self.abstain_below is not None:
            answer["abstained"] = self.abstained
        if self.contrast is not None:
            facts = [{**vars(one), "fact": list(one.fact)} for one in self.contrast.facts]
            answer["contrast"] = {**vars(self.contrast), "facts": facts}
        del answer["_view"]
        return {name: value for name, value in answer.items() if value is not None or name not in OPTIONAL}

    def __repr__(self) -> str:
        share = self.confidence
        return f"Answer(question={shortened(self.question)}, choice={shortened(self.choice)}, probability={share:.3f})"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """The answer in Jupyter."""
        return answer_html(self, self._view() if self.subgraph is None and self._view is not None else self.subgraph)

    def text(self, triples: bool = False, paths: int = 1) -> str:
        """The answer as text. The facts of the evidence are sentences, or triples of head, relation and tail.

        Args:
            triples: Show triples.
            paths: Number of paths to each answer of a ranking.
        """
        if self.ranking is not None:
            lines = [printable(self.question, keep="\n\t"), *self.ranking.lines(self.abstained, paths)]
            lines += [f"    {line}" for line in self._certainty()]
            if self.evidence is not None:
                lines += [f"    {line}" for line in self.evidence.lines(self.choice, self.probabilities[self.choice], triples)]
                lines += [f"    {line}" for line in source_lines(self.sources, [one.fact for one in self.evidence.facts])]
            return "\n".join(lines + [f"    note: {printable(note)}" for note in self.notes])
        choices = {choice: printable(choice) for choice in self.probabilities}
        width = min(max(map(len, choices.values())), WIDEST)
        lines = [printable(self.question, keep="\n\t")]
        for choice, probability in sorted(self.probabilities.items(), key=lambda item: -item[1]):
            mark = " " if choice != self.choice else "?" if self.abstained else "→"
            lines.append(f"  {mark} {choices[choice]:<{width}}  {probability:6.1%}")
        lines += [f"    {line}" for line in self._certainty()]
        if self.evidence is not None:
            lines += [f"    {line}" for line in self.evidence.lines(self.choice, self.probabilities[self.choice], triples)]
            shown = [one.fact for one in self.evidence.facts]
        else:
            lines += self._path_lines()
            shown = [fact for path in self.paths for fact in path.facts]
        lines += [f"    {line}" for line in source_lines(self.sources, shown)]
        if self.contrast is not None:
            lines += [f"    {line}" for line in self.contrast.lines(triples)]
        return "\n".join(lines + [f"    note: {printable(note)}" for note in self.notes])

    def _path_lines(self) -> list[str]:
        """The paths by attention, and their effects if they were asked for."""
        lines: list[str] = []
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
        return lines

    def _certainty(self) -> list[str]:
        lines = []
        if self.abstain_below is not None and self.abstained:
            lines.append(f"not sure enough ({rounded_down(self.confidence)} < {percent(self.abstain_below)})")
        if self.coverage is not None and self.prediction_set is not None:
            inside = [printable(choice if self.ranking is None else label(choice)) for choice in self.prediction_set]
            found = f"only {inside[0]}" if len(inside) == 1 else f"one of {', '.join(inside)}"
            if self.ranking is not None:
                more = f" and {len(inside) - LISTED:,} more" if len(inside) > LISTED else ""
                found = f"all right answers are among {', '.join(inside[:LISTED])}{more}" if len(inside) > 1 else found
            elif len(inside) == len(self.probabilities):
                found = "any of the choices"
            lines.append(f"with {percent(self.coverage)} coverage: {found}")
        return lines

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
