"""Questions as batches: read and gathered one ahead of the step, scored by the model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.batching.walk_store import Walks
from mhgrn.features import NameFeatures
from mhgrn.io.fingerprint import fingerprint
from mhgrn.model import Scores
from mhgrn.nn.segments import segment_softmax
from mhgrn.progress import say
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData, edges_between
from mhgrn.text.cache import SentenceVectors, TokenStates
from mhgrn.text.tokens import Tokens
from mhgrn.training.sampling import Numbers

Item = TypeVar("Item")
Made = TypeVar("Made")
CPU = torch.device("cpu")


def one_ahead(items: Iterable[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
    """``make`` of every item, in order; a thread makes the next one while the caller works with the last."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming: Future[Made] | None = None
        for item in items:
            ready, coming = coming, thread.submit(make, item)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()


@dataclass(frozen=True)
class QuestionBatch:
    """Some questions as tensors."""

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
    """A prepared data set with everything its batches need."""

    def __init__(self, data: PreparedData, run: Run, device: torch.device = CPU) -> None:
        self.data, self.run, self.device = data, run, device
        self._said_cut = False
        if isinstance(run.features, NameFeatures):
            run.features.require_and_keep(data.used)
        run.features.require(data.used)
        encoder = run.model.graph_encoder
        self.walks: Walks | None = None  # for models that read, on the processor, what reaches some nodes alone
        if encoder.reach is not None and encoder.shares_features and device == CPU:
            self.walks = Walks.of(data, encoder.reach)

    @cached_property
    def vectors(self) -> SentenceVectors:
        """The frozen encoder's vectors: computed once, and kept beside the data for every run on it."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        cache = self.data.folder / "cache" / f"text-{key}.safetensors"
        return SentenceVectors.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), cache)

    @cached_property
    def tokens(self) -> TokenStates:
        """The frozen encoder's token states: computed once, and kept beside the data for every run on it."""
        key = fingerprint(self.run.encoder.identity(), self.data.fingerprint)
        folder = self.data.folder / "cache" / f"tokens-{key}"
        return TokenStates.compute(self.run.encoder, self.pairs(range(self.data.statement_ptr[-1])), folder)

    @cached_property
    def lengths(self) -> Numbers:
        """How long each question's longest statement is, in characters."""
        return np.array([len(q.stem) + max(map(len, q.choices)) for q in self.data.questions])

    @cached_property
    def chance(self) -> np.ndarray:
        """Each question's loss under a model that knows nothing: log (number of choices)."""
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
        ptr = self.data.statement_ptr
        statements = np.concatenate([np.arange(ptr[q], ptr[q + 1]) for q in questions])
        counts = torch.tensor([int(ptr[q + 1] - ptr[q]) for q in questions])
        first = counts.cumsum(0) - counts
        known = [self.data.questions[q].answer for q in questions]
        graph, concepts = self._graph(statements)
        batch = QuestionBatch(
            graph=graph,
            features=self.run.features.rows(concepts),
            statements=torch.from_numpy(statements),
            question=torch.repeat_interleave(torch.arange(len(questions)), counts),
            first=first,
            answer=torch.tensor([f + a if a is not None else -1 for f, a in zip(first.tolist(), known, strict=True)]),
        )
        if self.device != CPU:
            batch = batch.to(self.device)
        self.run.model.graph_encoder.prepare(batch.graph)  # here, where it does not keep the step waiting
        return batch

    def _graph(self, statements: Numbers) -> tuple[GraphBatch, Tensor]:
        """Their subgraphs, and the concepts whose features the model is to be given."""
        if self.walks is not None:
            return self.walks.batch(statements)
        encoder = self.run.model.graph_encoder
        subgraphs = [self.data.subgraph(s) for s in statements.tolist()]
        graph = GraphBatch.collate(subgraphs, len(self.run.graph.schema), encoder.reach)
        return graph.sharing_features() if encoder.shares_features else (graph, graph.concepts)

    def scores(self, batch: QuestionBatch, live_text: bool) -> Tensor:
        """[G]; the text encoder runs only if it is being, or has been, trained."""
        graph_encoder, tokens = self.run.model.graph_encoder, None
        if not graph_encoder.uses_text:
            s = torch.zeros(batch.graph.num_graphs, 0, device=self.device)
        elif live_text:
            texts = zip(*self.pairs(batch.statements.tolist()), strict=True)
            with self._precision():
                if graph_encoder.uses_tokens:
                    s, tokens = self.run.encoder.read(*texts)
                else:
                    s = self.run.encoder.sentences(*texts)
            s = s.float()
        else:
            statements = batch.statements.cpu()
            s = self.vectors(statements).to(self.device)
            tokens = self.tokens(statements) if graph_encoder.uses_tokens else None
        if tokens is not None:
            tokens = Tokens(tokens.states.float().to(self.device), tokens.content.to(self.device))
        score, encoding = cast(Scores, self.run.model(s, batch.features, batch.graph, tokens))
        if encoding.cut is not None:
            self._say_what_is_cut(encoding.cut)
        return score

    def _say_what_is_cut(self, cut: Tensor) -> None:
        """Once."""
        if not self._said_cut and cut.any():
            self._said_cut = True
            say(
                f"{int((cut > 0).sum())} of {len(cut)} statements have more to read than"
                f" {self.run.model.graph_encoder.limit_setting} allows: {int(cut.sum()):,} left out. There may be others like them."
            )

    def _precision(self) -> AbstractContextManager[object]:
        name = self.run.config.training.precision
        return nullcontext() if name == "float32" else torch.autocast(self.device.type, getattr(torch, name))


def question_losses(score: Tensor, batch: QuestionBatch) -> Tensor:
    """−log softmax of the right choice: [B]."""
    _, log_total = segment_softmax(score, batch.question, len(batch.first))
    return log_total - score[batch.answer]


def from_guessing(losses: Tensor, batch: QuestionBatch) -> Tensor:
    """Σ over questions of how far the loss is from that of guessing, log (number of choices)."""
    return (losses - torch.bincount(batch.question).log()).abs().sum()


def largest_spread(score: Tensor, batch: QuestionBatch) -> Tensor:
    """The largest difference between the scores of two choices of one question."""
    none = score.new_zeros(len(batch.first))
    top, bottom = (none.scatter_reduce(0, batch.question, score, how, include_self=False) for how in ("amax", "amin"))
    return (top - bottom).max()


def count_right(examples: Examples, questions: Sequence[int], live_text: bool, each: Callable[[], None] = lambda: None) -> int:
    """How many questions' right choice scores highest, a batch at a time; ``each`` is called before every batch."""
    examples.run.model.eval()
    examples.run.encoder.eval()
    size = examples.run.config.training.eval_batch
    right = 0
    with torch.inference_mode():
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        for batch in one_ahead(parts, examples.batch):
            each()
            score = examples.scores(batch, live_text)
            top = score.new_full((len(batch.first),), -torch.inf).scatter_reduce(0, batch.question, score, "amax")
            # a tie goes to the first choice
            best = (score == top[batch.question]).nonzero()[:, 0]
            chosen = torch.full_like(batch.first, len(score)).scatter_reduce(0, batch.question[best], best, "amin")
            right += int((chosen == batch.answer).sum())
    return right


def accuracy(examples: Examples, split: str, live_text: bool) -> float:
    """The share of a split's questions whose right choice scores highest."""
    questions = examples.data.answered_split(split)
    return count_right(examples, questions, live_text) / len(questions)


def most_edges_accuracy(data: PreparedData, split: str) -> float:
    """A baseline without training: the choice whose concepts have most edges to the question's; t tied choices count 1/t."""
    total = 0.0
    for q in data.answered_split(split):
        counts = [edges_between(subgraph) for subgraph in data.subgraphs(q)]
        best = [c for c, count in enumerate(counts) if count == max(counts)]
        total += (data.questions[q].answer in best) / len(best)
    return total / len(data.split(split))
