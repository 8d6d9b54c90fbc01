"""The one scoring function: training, evaluation, prediction and asking all score statements here.

A statement is a question with one of its choices. Its text becomes a vector s, its subgraph a part of a
:class:`~mhgrn.batching.graph_batch.GraphBatch`, and the model gives it a score, the logit of the choice.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from sys import getsizeof
from threading import Lock
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import Scores
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.text.encoder import match
from mhgrn.text.tokens import Tokens

Precision = Literal["float32", "bfloat16", "float16"]
CPU = torch.device("cpu")
TIED = 1e-5  # probabilities whose ratio is nearer to 1 are equal: the last digits of a score depend on the batch
GROUP_COST = 32  # of running the text encoder once, in tokens
GROUP_TOKENS = 2048  # of texts encoded at once; bounds the memory
PACKED_TOKENS = 512  # of texts encoded at once without padding; more are not faster
MEMORIZED = 256 << 20  # bytes of texts and their vectors
ENTRY = 500  # bytes of a memorized text beside its letters and its vector


class TextVectors(NamedTuple):
    """The texts of G statements as the model reads them."""

    s: Tensor  # [G, sentence_dim]
    tokens: Tokens | None = None  # for graph encoders that read token states
    extra: Tensor | None = None  # [G, columns] for models that add likelihoods to the score

    def rows(self, statements: Sequence[int]) -> "TextVectors":
        """Those of some of the statements, which may repeat."""
        index = torch.tensor(statements, dtype=torch.long, device=self.s.device)
        tokens = self.tokens
        chosen = None if tokens is None else Tokens(tokens.states[index], tokens.content[index])
        return TextVectors(self.s[index], chosen, None if self.extra is None else self.extra[index])

    def to(self, device: torch.device) -> "TextVectors":
        tokens = self.tokens
        moved = None if tokens is None else Tokens(tokens.states.float().to(device), tokens.content.to(device))
        return TextVectors(self.s.float().to(device), moved, None if self.extra is None else self.extra.to(device))


class Graphs(NamedTuple):
    """The subgraphs of G statements as the model reads them."""

    batch: GraphBatch
    features: Tensor  # [N, feature_dim], or a row for each of ``batch.feature_row``; 0 wide where the model reads none

    def to(self, device: torch.device) -> "Graphs":
        return self if device == CPU else Graphs(self.batch.to(device), self.features.to(device))


class Scorer:
    """Scores statements with the model of a run.

    Args:
        run: The run. Its model and text encoder are moved to ``device``.
        device: Where the model computes, for example ``"cpu"`` or ``"cuda"``.
        precision: Of the text encoder. The model itself computes in float32.
    """

    def __init__(self, run: Run, device: str | torch.device = CPU, precision: Precision = "float32") -> None:
        self.run, self.device, self.precision = run, find_device(device), precision
        self.temperature = 1.0 if run.calibration is None else run.calibration.temperature
        run.model.to(self.device)
        run.encoder.to(self.device)
        if run.likelihood is not None:
            run.likelihood.device = self.device

    def text(self, stems: Sequence[str], choices: Sequence[str]) -> TextVectors:
        """Encode the statements of stems and choices, one of each per statement."""
        graph_encoder, encoder = self.run.model.graph_encoder, self.run.encoder
        if not graph_encoder.uses_text:
            return self.no_text(len(stems))
        with self._autocast():
            if graph_encoder.uses_tokens:
                return TextVectors(*encoder.read(stems, choices)).to(self.device)
            return TextVectors(encoder.sentences(stems, choices)).to(self.device)

    def with_likelihoods(
        self, text: TextVectors, questions: Sequence[Question], subgraphs: Sequence[Subgraph], graph: KnowledgeGraph
    ) -> TextVectors:
        """The texts of all statements of questions with the likelihoods of their choices, if the run uses them."""
        likelihood = self.run.likelihood
        if likelihood is None:
            return text
        return text._replace(extra=likelihood.column(questions, likelihood.evidence(subgraphs, graph)).to(self.device))

    def no_text(self, count: int) -> TextVectors:
        """The text of ``count`` statements for a model that reads no text."""
        return TextVectors(torch.zeros(count, 0, device=self.device))

    def graphs(
        self,
        subgraphs: Sequence[Subgraph],
        graph: KnowledgeGraph | None = None,
        features: Callable[[Tensor], Tensor] | None = None,
        nearest_first: bool = False,
        stems: Sequence[str] = (),
        relevance: Callable[[GraphBatch], Tensor] | None = None,
    ) -> Graphs:
        """Join subgraphs into a batch and look up the features and the relevance of their nodes.

        Args:
            subgraphs: One for each statement.
            graph: The graph they come from, if it is not the run's.
            features: Gives the features of concepts, [n] → [n, feature_dim]. By default those of the run.
            nearest_first: Order of nodes, see :meth:`~mhgrn.batching.graph_batch.GraphBatch.collate`.
            stems: The question of each statement, for graph encoders that use the relevance of nodes.
            relevance: Gives the relevance of the batch's nodes, if it is not computed from ``stems``.
        """
        graph = graph or self.run.graph
        encoder = self.run.model.graph_encoder
        batch = GraphBatch.collate(subgraphs, len(graph.schema), encoder.reach, nearest_first)
        if self.run.relevance is not None:
            batch = batch.with_relevance(self.run.relevance(batch, stems, graph) if relevance is None else relevance(batch))
        concepts = batch.concepts
        if encoder.shares_features:
            batch, concepts = batch.sharing_features()
        return self.prepared(Graphs(batch, self.run.features.rows(concepts, graph) if features is None else features(concepts)))

    def prepared(self, graphs: Graphs) -> Graphs:
        """The batch on the scorer's device, with everything precomputed that depends on no parameter."""
        graphs = graphs.to(self.device)
        self.run.model.graph_encoder.prepare(graphs.batch)
        return graphs

    def __call__(self, text: TextVectors, graphs: Graphs) -> Scores:
        """Score G statements. Scores of a calibrated run are divided by its temperature.

        Outside training, scores that are not finite are refused.
        """
        model = self.run.model
        scores = cast(Scores, model(text.s, graphs.features, graphs.batch, text.tokens, text.extra))
        if not model.training and not bool(scores.score.isfinite().all()):
            raise UserError(self._why_not_finite(text, graphs))
        return scores if self.temperature == 1 else scores._replace(score=scores.score / self.temperature)

    def _why_not_finite(self, text: TextVectors, graphs: Graphs) -> str:
        run, bad = self.run, "has values that are not finite (NaN or infinite)"
        for module, whose in ((run.model, "the model"), (run.encoder, f"the text encoder {run.config.text.encoder}")):
            for name, weight in module.state_dict().items():
                if not bool(weight.isfinite().all()):
                    return f"{run.folder}: the weight {name} of {whose} {bad}; train the run again or restore the file."
        if not bool(graphs.features.isfinite().all()):
            return f"{run.folder}: the table of node features ({run.config.features}) {bad}; build the features again."
        if not bool(text.s.isfinite().all()):
            return f"{run.folder}: the text encoder {run.config.text.encoder} gives a vector that {bad}; use another one."
        return f"{run.folder}: a score of the model is not finite: its weights or features are too large; train the run again."

    def _autocast(self) -> AbstractContextManager[object]:
        return nullcontext() if self.precision == "float32" else torch.autocast(self.device.type, getattr(torch, self.precision))


class TextMemory:
    """Encodes the texts of many questions; a text that occurs again is not encoded again.

    For encoders that encode the stem and the choice separately. Others encode every pair. Any number of threads may use it.

    Args:
        scorer: Encodes the texts.
        most: Bytes of texts and vectors to keep; those that were not used for longest are dropped. By default 256 MB.
    """

    def __init__(self, scorer: Scorer, most: int | None = None) -> None:
        self.scorer, self.encoder = scorer, scorer.run.encoder
        graph_encoder = scorer.run.model.graph_encoder
        self._is_used = graph_encoder.uses_text and not graph_encoder.uses_tokens and self.encoder.encoding == "separate"
        self._uses_text = graph_encoder.uses_text
        self._most = MEMORIZED if most is None else most
        self._known: OrderedDict[str, tuple[Tensor, bool]] = OrderedDict()  # a text's vector, and whether it was truncated
        self._lock = Lock()
        self.bytes = 0  # of the memorized texts and vectors

    def text(self, stems: Sequence[str], choices: Sequence[str]) -> tuple[TextVectors, list[bool]]:
        """The text vectors of statements, and whether each was truncated."""
        if not self._is_used:
            pairs = zip(stems, choices, strict=True)
            truncated = self.encoder.are_truncated(list(pairs)) if self._uses_text else [False] * len(stems)
            return self.scorer.text(stems, choices), truncated
        texts = {*stems, *choices}
        known = self._recall(texts)
        new = self._encoded(texts - known.keys())
        self._memorize(new)
        known |= new
        q, a = ([known[text] for text in side] for side in (stems, choices))
        vectors = match(*(torch.stack([vector for vector, _ in side]) for side in (q, a)))
        return TextVectors(vectors), [one or other for (_, one), (_, other) in zip(q, a, strict=True)]

    def _recall(self, texts: set[str]) -> dict[str, tuple[Tensor, bool]]:
        with self._lock:
            known = {text: self._known[text] for text in texts if text in self._known}
            for text in known:
                self._known.move_to_end(text)
            return known

    def _encoded(self, texts: set[str]) -> dict[str, tuple[Tensor, bool]]:
        ordered, most = sorted(texts), self.encoder.settings.max_length
        lengths = [len(tokens) for tokens in self.encoder.tokenizer(ordered)["input_ids"]] if ordered else []
        found: dict[str, tuple[Tensor, bool]] = {}
        group_texts = pack_by_length if self.encoder.is_packed else group_by_length
        for group in group_texts([min(length, most) for length in lengths]):
            vectors = self.encoder.embed([ordered[i] for i in group]).float()
            # a copy, because a part of a tensor keeps all of it in memory
            found |= {ordered[i]: (vector.clone(), lengths[i] > most) for i, vector in zip(group, vectors, strict=True)}
        return found

    def _memorize(self, new: dict[str, tuple[Tensor, bool]]) -> None:
        with self._lock:
            for text, (vector, is_truncated) in new.items():
                if text not in self._known:
                    self._known[text] = vector, is_truncated
                    self.bytes += _entry_bytes(text, vector)
            while self.bytes > self._most:
                text, (vector, _) = self._known.popitem(last=False)
                self.bytes -= _entry_bytes(text, vector)


def _entry_bytes(text: str, vector: Tensor) -> int:
    return vector.nbytes + getsizeof(text) + ENTRY


def group_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Group texts by their number of tokens so that padding each group to its longest text costs least.

    Every group costs the tokens of its padded texts and a constant (dynamic programming over the distinct lengths).

    >>> group_by_length([3, 20, 3, 4, 21])
    [[0, 2, 3], [1, 4]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    distinct = sorted(set(lengths))
    before = [0]  # texts with fewer tokens than each distinct length, then all
    for length in distinct:
        before.append(before[-1] + lengths.count(length))
    best = [(0, 0)]  # for the first n distinct lengths: cost, and where the last group starts
    for end, length in enumerate(distinct, start=1):
        best.append(min((best[start][0] + (before[end] - before[start]) * length + GROUP_COST, start) for start in range(end)))
    groups: list[list[int]] = []
    end = len(distinct)
    while end:
        start = best[end][1]
        part = order[before[start] : before[end]]
        size = max(1, GROUP_TOKENS // distinct[end - 1])
        groups[:0] = [part[i : i + size] for i in range(0, len(part), size)]
        end = start
    return groups


def pack_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Group texts, shortest first, for an encoder that needs no padding.

    >>> pack_by_length([3, 510, 3, 4])
    [[0, 2, 3], [1]]
    """
    groups: list[list[int]] = []
    tokens = PACKED_TOKENS
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens += lengths[i]
        if tokens > PACKED_TOKENS:
            groups.append([])
            tokens = lengths[i]
        groups[-1].append(i)
    return groups


def find_device(name: str | torch.device) -> torch.device:
    """The device of this name.

    Raises:
        UserError: There is no such device, or this machine or this torch does not have it.

    >>> find_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".")
        what = f"{str(name)!r} is not a device" if "device type" in reason else f"{name} is not available here"
        raise UserError(f"{what} ({reason}); use cpu.") from None
    if device.type == "meta":
        raise UserError("the device meta stores no numbers; use cpu.")
    return device


def probabilities(score: Tensor, sizes: Sequence[int]) -> list[list[float]]:
    """The probability of every choice of several questions, whose numbers of choices are ``sizes``.

    >>> probabilities(torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]), [2, 4])
    [[0.5, 0.5], [0.25, 0.25, 0.25, 0.25]]
    """
    return [torch.softmax(part, 0).tolist() for part in torch.split(score.detach().double().cpu(), list(sizes))]


def best_choice(probabilities: Sequence[float], temperature: float = 1.0) -> int:
    """The choice with the highest probability; the first one if several are equal up to rounding.

    Args:
        probabilities: Of the choices.
        temperature: The temperature that they were computed with. It decides what is rounding, so that it changes no choice.

    >>> best_choice([0.2, 0.4, 0.4 + 1e-7])
    1
    """
    least = max(probabilities) * (1 - TIED) ** (1 / temperature)
    return next(choice for choice, probability in enumerate(probabilities) if probability >= least)
