"""The relevance of nodes to a question."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.features.sources.names import NameFeatures
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import Ints, KnowledgeGraph


class Relevance:
    """ρ of a node: the cosine similarity of its concept's name and the question.

    Both vectors are of the text encoder before its training, so ρ is the same in training and afterwards.

    Args:
        names: The vectors of concept names. Their encoder also encodes questions.
    """

    def __init__(self, names: NameFeatures) -> None:
        self.names = names
        self._row: dict[str, int] = {}  # of the questions that are kept
        self._kept = torch.zeros(0, names.dim)

    def require(self, concepts: Ints, stems: Sequence[str], folder: Path) -> None:
        """Compute and keep the vectors of a dataset's concepts and questions. ``folder`` caches those of the questions."""
        self.names.require_and_keep(concepts)
        encoder, texts = self.names.encoder, sorted(set(stems))
        cache = folder / f"questions-{fingerprint(encoder.identity(), texts)}.safetensors"
        if cache.exists():
            vectors = load_tensors(cache, is_own=True).get("vectors")
            if vectors is None or vectors.shape != (len(texts), self.names.dim) or vectors.dtype != torch.float32:
                raise UserError(f"{cache} is damaged (its vectors do not fit the questions); delete it, it is made again.")
        else:
            vectors = encoder.embed_all(texts, "encoding questions")
            save_tensors(cache, {"vectors": vectors})
        self._row, self._kept = {text: row for row, text in enumerate(texts)}, vectors

    def __call__(self, batch: GraphBatch, stems: Sequence[str], graph: KnowledgeGraph | None = None) -> Tensor:
        """The relevance of the nodes of a batch: [N].

        Args:
            batch: The graphs.
            stems: The question of each graph.
            graph: Has the names of concepts that the stored graph lacks.
        """
        if len(stems) != batch.num_graphs:
            raise UserError(f"relevance needs the question of each of {batch.num_graphs} graphs; {len(stems)} were given.")
        texts = list(dict.fromkeys(stems))
        number = {text: i for i, text in enumerate(texts)}
        of_graph = torch.tensor([number[stem] for stem in stems], dtype=torch.long)
        concepts, row = torch.unique(batch.concepts.cpu(), return_inverse=True)
        names = functional.normalize(self.names.rows(concepts, graph), dim=1)
        similarity = names @ functional.normalize(self._questions(texts), dim=1).T  # [concepts, questions]
        return similarity[row, of_graph[batch.batch.cpu()]].to(batch.concepts.device)

    def _questions(self, texts: Sequence[str]) -> Tensor:
        """The vectors of distinct questions: [n, width]."""
        if all(text in self._row for text in texts):
            return self._kept[[self._row[text] for text in texts]]
        return self.names.encoder.embed_all(texts, "encoding questions")
