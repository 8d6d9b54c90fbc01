"""A run and the questions of a split: read in batches, with the texts encoded once."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from mhgrn.errors import UserError
from mhgrn.explain import empty_subgraph
from mhgrn.faithfulness.explained import Explained
from mhgrn.faithfulness.metrics import Floats
from mhgrn.grounding.grounder import Grounder
from mhgrn.inference.altered import FactMasks
from mhgrn.inference.asked import Asked
from mhgrn.inference.batch import Knowledge, Read
from mhgrn.runs import Run
from mhgrn.scoring import Graphs, best_choice, probabilities
from mhgrn.subgraphs.extract import Extractor, Subgraph, SubgraphLimits
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.evaluation import require_same_graph
from mhgrn.training.examples import Examples

AT_ONCE = 150_000  # facts of the subgraphs of a batch; bounds the memory
MOST_QUESTIONS = 32  # of a batch

Alter = Callable[[int, list[Subgraph]], list[Subgraph]]  # question number, its subgraphs → other subgraphs


class Study:
    """The questions of a split with a run that answers them.

    Args:
        run: The run. Its parameters are frozen.
        data: Prepared questions.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        device: Where the model computes.
        seed: Of random choices.
    """

    def __init__(self, run: Run, data: PreparedData, split: str, device: str = "cpu", seed: int = 0) -> None:
        require_same_graph(run, data)
        self.run, self.data, self.split, self.seed = run, data, split, seed
        self.questions = list(data.split(split))
        if not self.questions:
            raise UserError(f"the split {split} of {data.folder} is empty.")
        if not run.model.graph_encoder.uses_graph:
            raise UserError(
                f"{run.folder} does not use the graph ({run.config.graph_encoder}), so it has no explanations to measure."
            )
        self.examples = Examples(data, run, device)
        self.scorer = self.examples.scorer
        self._live_text = run.config.text.frozen_epochs is not None
        run.model.eval().requires_grad_(False)
        run.encoder.eval()
        limits = SubgraphLimits.of(run.about["data"])
        self._knowledge = Knowledge(run.graph, Grounder(run.graph), Extractor(run.graph, limits))

    @property
    def answers(self) -> list[int | None]:
        """The right choice of each question, if it is known."""
        return [self.data.questions[q].answer for q in self.questions]

    def sample(self, count: int) -> list[int]:
        """At most ``count`` random questions of the split, in order."""
        if count >= len(self.questions):
            return self.questions
        drawn = np.random.default_rng([self.seed, len(self.questions)]).permutation(len(self.questions))[:count]
        return [self.questions[place] for place in sorted(drawn.tolist())]

    def batches(self, questions: Sequence[int]) -> list[list[int]]:
        """Questions in batches of at most ``AT_ONCE`` facts."""
        found: list[list[int]] = []
        size = AT_ONCE
        for q in questions:
            first, end = self.data.statement_ptr[q : q + 2]
            facts = int(self.data.edge_ptr[end] - self.data.edge_ptr[first])
            size += facts
            if size > AT_ONCE or len(found[-1]) == MOST_QUESTIONS:
                found.append([])
                size = facts
            found[-1].append(q)
        return found

    def read(self, questions: Sequence[int]) -> Read:
        """Answer questions, so that they can be explained."""
        batch = self.examples.batch(questions)
        with torch.no_grad():
            text, graphs = self.examples.text(batch.statements, self._live_text), Graphs(batch.graph, batch.features)
            score, encoding = self.scorer(text, graphs)
        sizes = [len(self.data.questions[q].choices) for q in questions]
        subgraphs = [subgraph for q in questions for subgraph in self.data.subgraphs(q)]
        return Read(
            asked=[Asked(self.data.questions[q]) for q in questions],
            knowledge=self._knowledge,
            found=subgraphs,
            subgraphs=subgraphs,
            graphs=graphs,
            text=text,
            truncated=[False] * len(subgraphs),
            first=np.cumsum([0, *sizes]).tolist(),
            batch=batch.graph if batch.graph.concepts.device.type == "cpu" else batch.graph.to("cpu"),
            score=score,
            encoding=encoding,
            probabilities=(shares := probabilities(score, sizes)),
            best=[best_choice(of_question, self.scorer.temperature) for of_question in shares],
        )

    def explained(self, questions: Sequence[int]) -> Explained:
        """Answer questions, with what explanation methods need."""
        read = self.read(questions)
        masks = [FactMasks(self.scorer, read, q) for q in range(len(questions))]
        first_head = self.run.config.preset == "as_published"
        return Explained(self.scorer, read, masks, [(self.seed, q) for q in questions], first_head)

    def scores(self, questions: Sequence[int], alter: Alter | None) -> list[Floats]:
        """[choices] the scores of a batch of questions, with altered subgraphs."""
        subgraphs: list[Subgraph] = []
        stems: list[str] = []
        sizes: list[int] = []
        statements: list[int] = []
        for q in questions:
            mine = self.data.subgraphs(q)
            subgraphs += mine if alter is None else alter(q, mine)
            stems += [self.data.questions[q].stem] * len(mine)
            statements += range(*self.data.statement_ptr[q : q + 2].tolist())
            sizes.append(len(mine))
        with torch.inference_mode():
            text = self.examples.text(torch.tensor(statements), self._live_text)
            score = self.scorer(text, self.scorer.graphs(subgraphs, stems=stems)).score
        return np.split(score.double().cpu().numpy(), np.cumsum(sizes)[:-1])

    def warm_up(self) -> None:
        """Compute the text vectors that are stored with the data, unless they are there."""
        with torch.inference_mode():
            self.examples.text(torch.tensor([0]), self._live_text)

    def fingerprints(self) -> dict[str, str]:
        """What determines the results besides the split and the seed, by name."""
        return self.run.fingerprints() | {"questions": self.data.fingerprint}

    @property
    def folder(self) -> Path:
        return self.run.folder


def without_graph(q: int, subgraphs: list[Subgraph]) -> list[Subgraph]:
    """The subgraphs of a question if the graph is switched off."""
    return [empty_subgraph()] * len(subgraphs)
