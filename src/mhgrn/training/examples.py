"""Prepared questions as batches: loaded one step ahead and scored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.features import NameFeatures
from mhgrn.io.fingerprint import fingerprint
from mhgrn.nn.segments import segment_softmax
from mhgrn.progress import say
from mhgrn.runs import Run
from mhgrn.scoring import CPU, Graphs, Scorer, TextVectors
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.cache import SentenceVectors, TokenStates
from mhgrn.training.sampling import Numbers

LARGE = 1_000_000  # facts of a dataset


@dataclass(frozen=True)
class QuestionBatch:
    """Questions with all their statements, as tensors."""

    graph: GraphBatch
    features: Tensor  # [N, feature_dim], or a row for each of its concepts; 0 wide where the model reads none
    statements: Tensor  # [G] statement numbers
    question: Tensor  # [G] which question of the batch a statement belongs to
    first: Tensor  # [B] the first statement of each question within the batch
    answer: Tensor  # [B] the right statement within the batch, -1 where unknown

    def to(self, device: torch.device) -> "QuestionBatch":
        tensors = {k: v.to(device) for k, v in self.__dict__.items() if isinstance(v, Tensor)}
        return replace(self, graph=self.graph.to(device), **tensors)


class Examples:
    """A prepared dataset with everything that its batches need.

    Args:
        data: The questions and their subgraphs.
        run: The model, its text encoder and its node features.
        device: Where the model computes.
    """

    def __init__(self, data: PreparedData, run: Run, device: str | torch.device = CPU) -> None:
        self.data, self.run = data, run
        self.scorer = Scorer(run, device, run.config.training.precision)
        self.device = device = self.scorer.device
        self._reported_limit = False
        if isinstance(run.features, NameFeatures):
            run.features.require_and_keep(data.used)
        run.features.require(data.used)
        if run.relevance is not None:
            run.relevance.require(data.used, [question.stem for question in data.questions], data.folder / "cache")
        # Dropout draws in the order of nodes: the published runs on large data sets were trained in this order.
        encoder = run.model.graph_encoder
        self._nearest_first = (
            encoder.reach is not None and encoder.shares_features and device == CPU and int(data.edge_ptr[-1]) >= LARGE
        )

    @cached_property
    def vectors(self) -> SentenceVectors:
        """The vectors of the frozen text encoder: computed once and cached with the data, for all runs."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        cache = self.data.folder / "cache" / f"text-{key}.safetensors"
        return SentenceVectors.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), cache)

    @cached_property
    def tokens(self) -> TokenStates:
        """The token states of the frozen text encoder: computed once and cached with the data, for all runs."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        folder = self.data.folder / "cache" / f"tokens-{key}"
        return TokenStates.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), folder)

    @cached_property
    def likelihoods(self) -> Tensor | None:
        """[statements, 1] the likelihoods of the choices, if the run uses them: computed once and cached with the data."""
        likelihood, data = self.run.likelihood, self.data
        if likelihood is None:
            return None

        def evidence(start: int, stop: int) -> list[str] | None:
            return likelihood.evidence((data.subgraph(statement) for statement in range(start, stop)), self.run.graph)

        return likelihood.stored_column(data.questions, evidence, data.fingerprint, data.folder / "cache")

    @cached_property
    def lengths(self) -> Numbers:
        """[questions] the length of each question's longest statement, in characters."""
        return np.array([len(q.stem) + max(map(len, q.choices)) for q in self.data.questions])

    @cached_property
    def chance(self) -> np.ndarray:
        """[questions] the loss of guessing: log (number of choices)."""
        return np.log(np.diff(self.data.statement_ptr))

    def pairs(self, statements: Sequence[int]) -> list[tuple[str, str]]:
        """(stem, choice) of statements."""
        owner = np.searchsorted(self.data.statement_ptr, statements, side="right") - 1
        first = self.data.statement_ptr[owner]
        return [
            (self.data.questions[q].stem, self.data.questions[q].choices[s - f])
            for s, q, f in zip(statements, owner.tolist(), first.tolist(), strict=True)
        ]

    def batch(self, questions: Sequence[int]) -> QuestionBatch:
        """The questions of these numbers."""
        ptr = self.data.statement_ptr
        statements = np.concatenate([np.arange(ptr[q], ptr[q + 1]) for q in questions])
        counts = torch.tensor([int(ptr[q + 1] - ptr[q]) for q in questions])
        first = counts.cumsum(0) - counts
        known = [self.data.questions[q].answer for q in questions]
        graphs = self._graphs(statements)
        batch = QuestionBatch(
            graph=graphs.batch,
            features=graphs.features,
            statements=torch.from_numpy(statements),
            question=torch.repeat_interleave(torch.arange(len(questions)), counts),
            first=first,
            answer=torch.tensor([f + a if a is not None else -1 for f, a in zip(first.tolist(), known, strict=True)]),
        )
        return batch if self.device == CPU else batch.to(self.device)

    def _graphs(self, statements: Numbers) -> Graphs:
        numbers = statements.tolist()
        stems = [stem for stem, _ in self.pairs(numbers)]
        return self.scorer.graphs([self.data.subgraph(s) for s in numbers], nearest_first=self._nearest_first, stems=stems)

    def scores(self, batch: QuestionBatch, live_text: bool) -> Tensor:
        """[G] the scores of a batch. With ``live_text`` the text encoder runs, otherwise its stored vectors are used."""
        text = self.text(batch.statements, live_text)
        score, encoding = self.scorer(text, Graphs(batch.graph, batch.features))
        if encoding.cut is not None:
            self._report_limit(encoding.cut)
        return score

    def text(self, statements: Tensor, live_text: bool) -> TextVectors:
        """The texts of statements. With ``live_text`` the text encoder runs, otherwise its stored vectors are used."""
        graph_encoder, statements = self.run.model.graph_encoder, statements.cpu()
        if not graph_encoder.uses_text:
            text = self.scorer.no_text(len(statements))
        elif live_text:
            text = self.scorer.text(*zip(*self.pairs(statements.tolist()), strict=True))
        else:
            tokens = self.tokens(statements) if graph_encoder.uses_tokens else None
            text = TextVectors(self.vectors(statements), tokens).to(self.device)
        if self.likelihoods is not None:
            text = text._replace(extra=self.likelihoods[statements].to(self.device))
        return text

    def report_no_limit(self) -> None:
        """Do not report the limit of the graph encoder, which was reported before."""
        self._reported_limit = True

    def _report_limit(self, cut: Tensor) -> None:
        """Report, once, that a limit of the graph encoder applies."""
        if not self._reported_limit and cut.any():
            self._reported_limit = True
            say(
                f"{int((cut > 0).sum())} of {len(cut)} statements of a batch exceed"
                f" {self.run.model.graph_encoder.limit_setting}: {int(cut.sum()):,} paths or triples are not read."
                " Other batches may exceed it, too."
            )


def question_losses(score: Tensor, batch: QuestionBatch) -> Tensor:
    """−log softmax of the right choice: [B]."""
    _, log_total = segment_softmax(score, batch.question, len(batch.first))
    return log_total - score[batch.answer]


def from_guessing(losses: Tensor, batch: QuestionBatch) -> Tensor:
    """Σ over questions of the distance between the loss and that of guessing, log (number of choices)."""
    return (losses - torch.bincount(batch.question).log()).abs().sum()


def largest_spread(score: Tensor, batch: QuestionBatch) -> Tensor:
    """The largest difference between the scores of two choices of one question."""
    none = score.new_zeros(len(batch.first))
    top, bottom = (none.scatter_reduce(0, batch.question, score, how, include_self=False) for how in ("amax", "amin"))
    return (top - bottom).max()
