"""Knowledge-aware question answering that shows the facts it relied on.

>>> import mhgrn
>>> graph = mhgrn.KnowledgeGraph.from_facts([("child", "AtLocation", "classroom")])
>>> graph.fact_count
1
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhgrn.answering import Answer, QuestionAnswerer, load
    from mhgrn.config import Config
    from mhgrn.data.prepared import PreparedData, PrepareOptions, prepare
    from mhgrn.data.questions import Question
    from mhgrn.errors import UserError
    from mhgrn.explain.paths import Path
    from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, build
    from mhgrn.training.ensemble import ensemble
    from mhgrn.training.loop import evaluate, train
    from mhgrn.training.run import Run

# Loaded when first used: importing mhgrn is quick, and torch loads when a model does.
_WHERE = {
    "Answer": "mhgrn.answering",
    "Config": "mhgrn.config",
    "Fact": "mhgrn.kg",
    "ImportOptions": "mhgrn.kg",
    "KnowledgeGraph": "mhgrn.kg",
    "Path": "mhgrn.explain.paths",
    "PrepareOptions": "mhgrn.data.prepared",
    "PreparedData": "mhgrn.data.prepared",
    "Question": "mhgrn.data.questions",
    "QuestionAnswerer": "mhgrn.answering",
    "Run": "mhgrn.training.run",
    "UserError": "mhgrn.errors",
    "build": "mhgrn.kg",
    "ensemble": "mhgrn.training.ensemble",
    "evaluate": "mhgrn.training.loop",
    "load": "mhgrn.answering",
    "prepare": "mhgrn.data.prepared",
    "train": "mhgrn.training.loop",
}

__all__ = [
    "Answer",
    "Config",
    "Fact",
    "ImportOptions",
    "KnowledgeGraph",
    "Path",
    "PrepareOptions",
    "PreparedData",
    "Question",
    "QuestionAnswerer",
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
