"""What is asked: a question, changes of the graph for it, and what the answer should contain."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mhgrn.errors import UserError, did_you_mean
from mhgrn.explain import Triple
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.printing import shortened, shown
from mhgrn.questions.question import Question

MOST_FACTS = 10_000  # that may be added for one question
EXPLAINED_BY = ("evidence", "attention")
LONGEST_NAME = 1_000  # characters of their concepts and relations

Names = tuple[str, str, str]  # head, relation, tail


class WrongOption(UserError):
    """An option of :meth:`QuestionAnswerer.ask` that does not fit; ``option`` is its name."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


@dataclass(frozen=True)
class Asked:
    """A question with the options of :meth:`QuestionAnswerer.ask`, checked.

    Args:
        question: The question.
        facts: Facts to add to the graph for this answer.
        without: Facts of the graph to leave out for this answer.
        graph: False: answer without the graph.
        paths: Number of paths to show, best first.
        effects: Compute what the facts do. With ``by="evidence"`` the smallest set of facts that carries the answer, with
            ``by="attention"`` the answer's probability without each fact of the paths; and its probability without the graph.
        attention: Also return every attention weight.
        by: How the answer is explained: ``"evidence"`` or ``"attention"``.
        subgraph: Also return the question's part of the graph.
        contrast: Also compare the answer with this choice.
        abstain_below: Say "not sure enough" if the answer's probability is lower. None: the value that is stored with the run, if
            there is one. 0: never.
        coverage: Also return a set of choices that contains the right one with this probability.

    >>> Asked(Question.asked("Where?", ["sea", "tree"]), without=[["fish", "AtLocation", "sea"]]).without
    (('fish', 'AtLocation', 'sea'),)
    """

    question: Question
    facts: Sequence[Names] = ()
    without: Sequence[Names] = ()
    graph: bool = True
    paths: int = 3
    effects: bool = True
    attention: bool = False
    subgraph: bool = False
    contrast: str | None = field(default=None)
    abstain_below: float | None = None
    coverage: float | None = None
    by: str = "evidence"

    def __post_init__(self) -> None:
        check_count("paths", self.paths)
        check_probability("abstain_below", self.abstain_below or None)
        check_probability("coverage", self.coverage)
        if self.by not in EXPLAINED_BY:
            raise WrongOption("by", f"by is {shortened(self.by)}; it should be one of {', '.join(EXPLAINED_BY)}.")
        for name in ("facts", "without"):
            with naming(name):
                object.__setattr__(self, name, tuple(checked_facts(getattr(self, name))))
        if self.contrast is not None:
            with naming("contrast"):
                choice_number(self.question, self.contrast)

    @property
    def effects_of_paths(self) -> bool:
        """Whether the answer's probability without each fact of the paths is computed."""
        return self.effects and (self.by == "attention" or not self.graph)

    @property
    def searches_evidence(self) -> bool:
        """Whether the smallest set of facts that carries the answer is searched for."""
        return self.effects and self.by == "evidence" and self.graph


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Say which option an error is about."""
    try:
        yield
    except WrongOption:
        raise
    except UserError as error:
        raise WrongOption(option, str(error)) from None


def check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} is {shortened(value)}; it should be an integer of 1 or more.")


def check_probability(name: str, value: object) -> None:
    """Refuse what is neither None nor a number between 0 and 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1):
        raise WrongOption(name, f"{name} is {shortened(value)}; it should be a number between 0 and 1, for example 0.5.")


def to_question(question: object, choices: object) -> Question:
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


def checked_facts(facts: Any) -> list[Names]:
    """Facts as tuples. Their number and the length of their names are limited, because a question waits for them."""
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


def choice_number(question: Question, choice: str) -> int:
    """The number of a choice, by its text or by its name in an answer."""
    names = distinct_names(question)
    for known in (question.choices, names):
        if choice in known:
            return list(known).index(choice)
    raise UserError(f"{shortened(choice)} is not one of the choices.{did_you_mean(choice, names)}")


def distinct_names(question: Question) -> list[str]:
    """Distinct names of the choices: their texts, with a letter added to repeated texts, or to all if that is not enough."""
    texts = question.choices
    lettered = [f"{text} ({question.label(i)})" for i, text in enumerate(texts)]
    names = [long if texts.count(text) > 1 else text for text, long in zip(texts, lettered, strict=True)]
    return names if len(set(names)) == len(names) else lettered


def stored_fact(graph: KnowledgeGraph, fact: Names) -> Fact:
    """A fact as the graph stores it, from names in any spelling; a :class:`UserError` if the graph does not have it."""
    with naming("without"):
        return _stored_fact(graph, fact)


def _stored_fact(graph: KnowledgeGraph, fact: Names) -> Fact:
    relation, swapped = graph.schema.lookup.get(fact[1].strip().lower(), (-1, False))
    if relation < 0:
        members = [member.removeprefix("*") for of in graph.schema.relations for member in of.members]
        raise UserError(f"{shortened(fact[1])} is not a relation of the graph.{did_you_mean(fact[1], members)}")
    head, tail = (
        concept_name(name) if (found := graph.find_one(name)) is None else graph.name(found) for name in (fact[0], fact[2])
    )
    stored = Fact(tail if swapped else head, graph.schema.relations[relation].name, head if swapped else tail)
    if not graph.holds(*stored):
        raise UserError(f"the fact {', '.join(map(shown, fact))} is not in the graph; only facts of the graph can be left out.")
    return stored


def triples(graph: KnowledgeGraph, fact: Fact) -> set[Triple]:
    """A fact as numbers; a fact of a symmetric relation is stored in both directions."""
    relation = [r.name for r in graph.schema.relations].index(fact.relation)
    triple = Triple(graph.id(fact.head), relation, graph.id(fact.tail))
    return {triple, Triple(triple.tail, relation, triple.head)} if relation in graph.schema.symmetric_ids else {triple}
