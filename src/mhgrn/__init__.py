"""Knowledge-aware question answering that shows the facts behind each answer.

>>> import mhgrn
>>> graph = mhgrn.KnowledgeGraph.from_facts([("child", "AtLocation", "classroom")])
>>> graph.fact_count
1
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhgrn.batching.graph_batch import GraphBatch
    from mhgrn.comparison import Comparison, compare
    from mhgrn.config import Config
    from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
    from mhgrn.errors import UserError
    from mhgrn.explain.paths import ReasoningPath
    from mhgrn.explain.walks import WalkDistribution
    from mhgrn.features.source import FeatureSource
    from mhgrn.grounding.grounder import Grounder
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.grounding.large_build import build_folder
    from mhgrn.inference import Answer, Evidence, QuestionAnswerer
    from mhgrn.kg import Fact, GraphReader, ImportOptions, KnowledgeGraph, build
    from mhgrn.model import KnowledgeAwareQA
    from mhgrn.nn.conv import MHGRNConv
    from mhgrn.questions.question import Question
    from mhgrn.questions.reader import QuestionReader
    from mhgrn.questions.reading import questions_from, read_questions
    from mhgrn.runs import Run
    from mhgrn.settings import Settings
    from mhgrn.starter import load
    from mhgrn.subgraphs.extract import Extractor, Subgraph
    from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
    from mhgrn.synthesis.options import SynthesisOptions
    from mhgrn.synthesis.synthesizing import synthesize
    from mhgrn.text.encoder import TextEncoder
    from mhgrn.training.calibrating import calibrate
    from mhgrn.training.ensemble import Ensemble, ensemble
    from mhgrn.training.evaluation import evaluate
    from mhgrn.training.loop import train

# Imported when first used: importing mhgrn is fast, and torch is imported only for a model.
_MODULES = {
    "Answer": "mhgrn.inference",
    "Comparison": "mhgrn.comparison",
    "ConceptIndex": "mhgrn.grounding.index",
    "Config": "mhgrn.config",
    "Dims": "mhgrn.encoders.base",
    "Ensemble": "mhgrn.training.ensemble",
    "Evidence": "mhgrn.inference",
    "Extractor": "mhgrn.subgraphs.extract",
    "Fact": "mhgrn.kg",
    "FeatureSource": "mhgrn.features.source",
    "GraphBatch": "mhgrn.batching.graph_batch",
    "GraphEncoder": "mhgrn.encoders.base",
    "GraphEncoding": "mhgrn.encoders.base",
    "GraphReader": "mhgrn.kg",
    "Grounder": "mhgrn.grounding.grounder",
    "ImportOptions": "mhgrn.kg",
    "KnowledgeAwareQA": "mhgrn.model",
    "KnowledgeGraph": "mhgrn.kg",
    "MHGRNConv": "mhgrn.nn.conv",
    "PrepareOptions": "mhgrn.subgraphs.prepared",
    "PreparedData": "mhgrn.subgraphs.prepared",
    "Question": "mhgrn.questions.question",
    "QuestionAnswerer": "mhgrn.inference",
    "QuestionReader": "mhgrn.questions.reader",
    "ReasoningPath": "mhgrn.explain.paths",
    "Run": "mhgrn.runs",
    "Settings": "mhgrn.settings",
    "Subgraph": "mhgrn.subgraphs.extract",
    "SynthesisOptions": "mhgrn.synthesis.options",
    "TextEncoder": "mhgrn.text.encoder",
    "UserError": "mhgrn.errors",
    "WalkDistribution": "mhgrn.explain.walks",
    "build": "mhgrn.kg",
    "build_folder": "mhgrn.grounding.large_build",
    "calibrate": "mhgrn.training.calibrating",
    "compare": "mhgrn.comparison",
    "ensemble": "mhgrn.training.ensemble",
    "evaluate": "mhgrn.training.evaluation",
    "load": "mhgrn.starter",
    "prepare": "mhgrn.subgraphs.prepared",
    "questions_from": "mhgrn.questions.reading",
    "read_questions": "mhgrn.questions.reading",
    "synthesize": "mhgrn.synthesis.synthesizing",
    "train": "mhgrn.training.loop",
}

__all__ = [
    "Answer",
    "Comparison",
    "ConceptIndex",
    "Config",
    "Dims",
    "Ensemble",
    "Evidence",
    "Extractor",
    "Fact",
    "FeatureSource",
    "GraphBatch",
    "GraphEncoder",
    "GraphEncoding",
    "GraphReader",
    "Grounder",
    "ImportOptions",
    "KnowledgeAwareQA",
    "KnowledgeGraph",
    "MHGRNConv",
    "PrepareOptions",
    "PreparedData",
    "Question",
    "QuestionAnswerer",
    "QuestionReader",
    "ReasoningPath",
    "Run",
    "Settings",
    "Subgraph",
    "SynthesisOptions",
    "TextEncoder",
    "UserError",
    "WalkDistribution",
    "build",
    "build_folder",
    "calibrate",
    "compare",
    "ensemble",
    "evaluate",
    "load",
    "prepare",
    "questions_from",
    "read_questions",
    "synthesize",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mhgrn' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
