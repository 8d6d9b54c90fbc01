"""Ways to choose facts for a question. All choose within the same budget, and none repeats a fact."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhgrn.inference import Asked, QuestionAnswerer
from mhgrn.inference.evidence import fill
from mhgrn.inference.gathering import similarities
from mhgrn.kg.graph import Fact
from mhgrn.kg.sentences import fact_sentence, state
from mhgrn.progress import track
from mhgrn.questions.question import Question
from mhgrn.text.evidence import facts_between
from mhgrn.usefulness.bm25 import BM25

RETRIEVED = 500  # facts that are offered to the budget
ENCODED = 256  # best facts of BM25 whose sentences are encoded, as many as evidence encodes
ON_PATHS = 12  # facts on shortest paths of each choice

METHODS = ("evidence", "evidence, open", "bm25", "cosine", "shortest paths", "random facts")


class Retrieval:
    """Chooses the facts for questions in the ways of :data:`METHODS`.

    ``cosine`` ranks the best facts of BM25 by the text encoder: encoding all facts of a large graph takes hours.

    Args:
        qa: The run.
        budget: The largest number of tokens.
        seed: Of random facts.
    """

    def __init__(self, qa: QuestionAnswerer, budget: int, seed: int = 0) -> None:
        self.qa, self.budget, self.seed = qa, budget, seed
        self.graph = qa.run.graph

    @cached_property
    def _rows(self) -> tuple[NDArray[np.int64], ...]:
        """Head, relation and tail of every fact; one of both directions of a symmetric relation."""
        head, relation, tail = (np.asarray(c, dtype=np.int64) for c in (self.graph.heads(), self.graph.relation, self.graph.tail))
        kept = ~np.isin(relation, list(self.graph.schema.symmetric_ids)) | (head <= tail)
        return head[kept], relation[kept], tail[kept]

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self._sentences())

    def _sentences(self) -> Iterator[str]:
        names, statements = list(self.graph.names), [relation.statement for relation in self.graph.schema.relations]
        rows = zip(*(column.tolist() for column in self._rows), strict=True)
        for head, relation, tail in track(rows, "verbalizing facts", len(self._rows[0])):
            yield state(statements[relation], names[head], names[tail])

    def _facts(self, numbers: NDArray[np.int64]) -> list[Fact]:
        relations, columns = self.graph.schema.relations, (column[numbers].tolist() for column in self._rows)
        return [Fact(self.graph.name(h), relations[r].name, self.graph.name(t)) for h, r, t in zip(*columns, strict=True)]

    def facts(self, method: str, question: Question, number: int) -> list[Fact]:
        """The facts that a method chooses for a question; ``number`` is the question's, for random facts."""
        if method == "evidence":
            return self.qa.evidence(question, budget=self.budget).facts
        if method == "evidence, open":
            return self.qa.evidence(question.stem, budget=self.budget).facts
        ranked: dict[str, Callable[[], list[Fact]]] = {
            "bm25": lambda: self._by_bm25(question)[:RETRIEVED],
            "cosine": lambda: self._by_cosine(question),
            "shortest paths": lambda: self._on_paths(question),
            "random facts": lambda: self._at_random(number),
        }
        return self._filled(ranked[method]())

    def text(self, facts: list[Fact]) -> str:
        """Facts as sentences."""
        return " ".join(fact_sentence(self.graph.schema, fact) for fact in facts)

    def _filled(self, facts: list[Fact]) -> list[Fact]:
        tokenizer = self.qa.run.encoder.tokenizer

        def tokens(text: str) -> int:
            return len(tokenizer(text, add_special_tokens=False)["input_ids"])

        items = [(0.0, (fact,)) for fact in facts]
        chosen = fill(items, self.budget, lambda fact: fact_sentence(self.graph.schema, fact), tokens)
        return [fact for _, new in chosen for fact in new]

    def _by_bm25(self, question: Question) -> list[Fact]:
        return self._facts(self._bm25.best(" ".join([question.stem, *question.choices]), RETRIEVED))

    def _by_cosine(self, question: Question) -> list[Fact]:
        facts = self._by_bm25(question)[:ENCODED]
        sentences = [fact_sentence(self.graph.schema, fact) for fact in facts]
        if not facts:
            return []
        cosine = similarities(self.qa.run.encoder, question.stem, question.choices, sentences)
        order = sorted(range(len(facts)), key=lambda i: (-round(cosine[i], 6), facts[i]))
        return [facts[i] for i in order]

    def _on_paths(self, question: Question) -> list[Fact]:
        """Facts on shortest paths to the choices, one of each choice in turn."""
        graph, found = self.graph, []
        for subgraph in self.qa.read([Asked(question)]).subgraphs:
            names = [graph.name(int(concept)) for concept in subgraph.concepts]
            rows = zip(*(np.asarray(c).tolist() for c in (subgraph.head, subgraph.relation, subgraph.tail)), strict=True)
            facts = [Fact(names[h], graph.schema.relations[r].name, names[t]) for h, r, t in rows]
            found.append([facts[i] for i in facts_between(subgraph, ON_PATHS)])
        longest = max(map(len, found), default=0)
        return list(dict.fromkeys(of[i] for i in range(longest) for of in found if i < len(of)))

    def _at_random(self, number: int) -> list[Fact]:
        numbers = np.random.default_rng([self.seed, number]).integers(0, len(self._rows[0]), RETRIEVED)
        return self._facts(numbers)
