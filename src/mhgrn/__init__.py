"""Knowledge-aware question answering that shows the facts it relied on.

>>> import mhgrn
>>> graph = mhgrn.KnowledgeGraph.from_facts([("child", "AtLocation", "classroom")])
>>> graph.fact_count
1
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhgrn.config import Config
    from mhgrn.errors import UserError
    from mhgrn.explain.paths import ReasoningPath
    from mhgrn.grounding.grounder import Grounder
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.inference import Answer, QuestionAnswerer
    from mhgrn.kg import Fact, GraphReader, ImportOptions, KnowledgeGraph, build
    from mhgrn.questions.question import Question
    from mhgrn.runs import Run
    from mhgrn.starter import load
    from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
    from mhgrn.training.ensemble import ensemble
    from mhgrn.training.evaluation import evaluate
    from mhgrn.training.loop import train

# Loaded when first used: importing mhgrn is quick, and torch loads when a model does.
_WHERE = {
    "Answer": "mhgrn.inference",
    "ConceptIndex": "mhgrn.grounding.index",
    "Config": "mhgrn.config",
    "Fact": "mhgrn.kg",
    "GraphReader": "mhgrn.kg",
    "Grounder": "mhgrn.grounding.grounder",
    "ImportOptions": "mhgrn.kg",
    "KnowledgeGraph": "mhgrn.kg",
    "PrepareOptions": "mhgrn.subgraphs.prepared",
    "PreparedData": "mhgrn.subgraphs.prepared",
    "Question": "mhgrn.questions.question",
    "QuestionAnswerer": "mhgrn.inference",
    "ReasoningPath": "mhgrn.explain.paths",
    "Run": "mhgrn.runs",
    "UserError": "mhgrn.errors",
    "build": "mhgrn.kg",
    "ensemble": "mhgrn.training.ensemble",
    "evaluate": "mhgrn.training.evaluation",
    "load": "mhgrn.starter",
    "prepare": "mhgrn.subgraphs.prepared",
    "train": "mhgrn.training.loop",
}

__all__ = [
    "Answer",
    "ConceptIndex",
    "Config",
    "Fact",
    "GraphReader",
    "Grounder",
    "ImportOptions",
    "KnowledgeGraph",
    "PrepareOptions",
    "PreparedData",
    "Question",
    "QuestionAnswerer",
    "ReasoningPath",
    "Run",
    "UserError",
    "build",
    "ensemble",
    "evaluate",
    "load",
    "prepare",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'mhgrn' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
