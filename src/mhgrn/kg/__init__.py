"""The knowledge graph: facts over named concepts, the relations they have, and the files they come from."""

from mhgrn.kg.building import build
from mhgrn.kg.fact_table import ImportReport
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.labels import Label
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import GraphReader, ImportOptions
from mhgrn.kg.schema import Relation, Schema

__all__ = [
    "Fact",
    "GraphReader",
    "ImportOptions",
    "ImportReport",
    "KnowledgeGraph",
    "Label",
    "Relation",
    "Schema",
    "build",
    "concept_name",
]
