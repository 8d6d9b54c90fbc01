"""The models that are served: loading, warming, and what is said about them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.inference import Asked, QuestionAnswerer
from mhgrn.inference.open import OpenAnswerer
from mhgrn.inference.open_evidence import are_names
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema import STATEMENT_PLACEHOLDER
from mhgrn.kg.sentences import label
from mhgrn.kg.stated import stated
from mhgrn.open.run import OpenRun, is_open_run
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.serve.examples import EXAMPLES
from mhgrn.starter import find_run
from mhgrn.text.packed import TextPrecision

LONGEST_LISTED = 1_000  # facts of a concept, and concepts of a completion
MEASURES = ("accuracy", "hits_at_10", "mrr", "set_f1")  # ends of the names of what a run stores about its dev questions


@dataclass(frozen=True)
class ServedModel:
    """A model under the name by which requests choose it."""

    name: str
    qa: QuestionAnswerer

    @property
    def graph(self) -> KnowledgeGraph:
        return self.qa.graph

    @property
    def is_open(self) -> bool:
        """Whether the model answers questions without choices only."""
        return isinstance(self.qa, OpenAnswerer)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.qa.open_run.folder if isinstance(self.qa, OpenAnswerer) else self.qa.run.folder

    def without_folders(self, message: str) -> str:
        """A message that names no folder of this machine."""
        return message.replace(f" {self.graph.folder}", "").replace(str(self.folder), self.name)

    @cached_property
    def _fact_counts(self) -> NDArray[np.int64]:
        """[concepts] the number of facts of each concept."""
        graph = self.graph
        counts: NDArray[np.int64] = np.diff(graph.head_ptr) + np.bincount(graph.tail, minlength=len(graph))
        return counts

    def warm(self) -> None:
        """Answer a few questions in every way, so that nothing is loaded or compiled while somebody waits."""
        self.concepts("a", 1)
        if isinstance(self.qa, OpenAnswerer):
            self._warm_open(self.qa)
            return
        asked = [Question.asked(question, choices) for question, choices in EXAMPLES[:3]]
        self.qa.answer_all([Asked(question, subgraph=True, contrast=question.choices[-1]) for question in asked])
        one = self.qa.answer_all([Asked(asked[0])])[0]
        facts = [tuple(fact) for path in one.paths for fact in path.facts][:1]
        relation = self.graph.schema.relations[0].members[0].removeprefix("*")
        self.qa.answer_all([Asked(asked[0], facts=[("warm", relation, "up")], without=facts)])  # type: ignore[arg-type]
        self.qa.answer_all([Asked(asked[0], graph=False)])
        with suppress(UserError):  # the graph may have none of the example's concepts
            self.qa.rank(asked[0].stem)

    def _warm_open(self, qa: OpenAnswerer) -> None:
        head = self.graph.name(int(np.argmax(np.diff(self.graph.head_ptr) > 0)))
        fact = self.graph.facts_of(head)[0]
        for changes in ({}, {"without": [tuple(fact)]}, {"facts": [("warm", fact.relation, head)]}):
            with suppress(UserError):  # nothing may be left without the fact
                qa.ask(f"What about [{head}]?", n=2, paths=1, subgraph=True, **changes)  # type: ignore[arg-type]

    def examples(self) -> list[dict[str, Any]]:
        """Questions to begin with: those of the built-in model, or dev questions of a model without choices."""
        if not isinstance(self.qa, OpenAnswerer):
            return [{"question": question, "choices": list(choices)} for question, choices in EXAMPLES]
        try:
            data = self.qa.open_run.find_data()
        except UserError:  # the data is not on this machine
            return []
        numbers = data.splits.get("dev") or data.splits.get("train") or range(0)
        by_text = {data.texts[q]: data.questions[q].stem for q in numbers if len(data.topics[q])}
        return [{"question": stem, "choices": []} for stem in list(by_text.values())[: len(EXAMPLES)]]

    def concepts(self, prefix: str, limit: int) -> list[dict[str, Any]]:
        """The concepts whose names begin with a text, those with most facts first."""
        graph, counts = self.graph, self._fact_counts
        number = (graph.names if graph.labels is None else graph.labels.surfaces).beginning_with(concept_name(prefix))
        if graph.labels is not None:
            number = np.unique([c for surface in number.tolist() for c in graph.labels.concepts_of(surface)]).astype(np.int64)
        best = number[np.lexsort((number, -counts[number]))[:limit]]
        return [{"name": (name := graph.name(c)), "label": label(name), "facts": int(counts[c])} for c in best.tolist()]

    def concept(self, name: str, limit: int) -> dict[str, Any] | None:
        """The facts of a concept as sentences; None if the graph does not have it."""
        graph = self.graph
        if (found := graph.find_one(name)) is None:
            return None
        stored = graph.name(found)
        facts = graph.facts_of(stored)
        has_names = isinstance(self.qa, OpenAnswerer) and are_names(graph)  # as the sentences of its answers
        return {
            "name": stored,
            **({} if graph.labels is None else {"id": graph.identifier(found)}),
            "label": label(stored),
            "total": len(facts),
            "facts": [stated(graph, fact, has_names) for fact in facts[:limit]],
        }

    def relations(self) -> list[dict[str, str]]:
        """The relations of the graph, and how their facts are said."""
        said = {one.name: STATEMENT_PLACEHOLDER.sub(r"{\1}", one.statement) for one in self.graph.schema.relations}
        return [{"name": name, "sentence": statement.rstrip(".")} for name, statement in said.items()]

    def about(self) -> dict[str, Any]:
        """What is known about the model. Folders are not named."""
        qa = self.qa
        run: Run | OpenRun = qa.open_run if isinstance(qa, OpenAnswerer) else qa.run
        training = run.config.used()["training"]
        metrics = run.about.get("metrics", {})
        data = Path(run.about["data"].get("folder") or "").name
        return {
            "name": self.name,
            "task": "open" if self.is_open else "choices",
            "encoder": Path(run.config.text.encoder).name,
            "text_precision": run.encoder.precision,
            "graph": {
                "concepts": len(run.graph),
                "facts": run.graph.fact_count,
                "relations": len(run.graph.schema),
                "fingerprint": run.graph.fingerprint,
            },
            "graph_encoder": "walks on the whole graph" if self.is_open else run.config.graph_encoder,
            "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
            "training": json.loads(json.dumps({"data": data, "epoch": metrics.get("epoch"), **training})),
            "accuracy": {name: float(value) for name, value in metrics.items() if name.endswith(MEASURES)},
        }


def load_models(
    runs: Sequence[str | Path],
    device: str = "cpu",
    text_memory: int = 0,
    text_precision: TextPrecision = "float32",
    warm: bool = True,
) -> dict[str, ServedModel]:
    """Load runs, by folder or name, and warm them. Each is served under the last part of its path, made distinct by a number.

    Args:
        runs: The runs; none: the built-in model.
        device: Where the models compute.
        text_memory: Bytes of text vectors that each model keeps.
        text_precision: Of the text encoders.
        warm: False: they answer no questions in this process.
    """
    found: dict[str, ServedModel] = {}
    for run in runs or ["starter"]:
        name = first = Path(run).absolute().name or "run"
        number = 2
        while name in found:
            name, number = f"{first}-{number}", number + 1
        place = find_run(run)
        if is_open_run(place):
            found[name] = ServedModel(name, OpenAnswerer(OpenRun.load(place), text_precision))
        else:
            found[name] = ServedModel(name, QuestionAnswerer(Run.load(place), device, text_memory, text_precision))
        if warm:
            found[name].warm()
    return found
