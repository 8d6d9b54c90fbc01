"""The knowledge graph: its relations, its import, its store."""

from mhgrn.kg.building import ImportReport, build
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.kg.rows import ImportOptions
from mhgrn.kg.schema import Relation, Schema

__all__ = ["Fact", "ImportOptions", "ImportReport", "KnowledgeGraph", "Relation", "Schema", "build", "concept_name"]
