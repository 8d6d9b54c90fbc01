"""The knowledge graph: its relations, its import, its store."""

from mhgrn.kg.graph import Fact, KnowledgeGraph, concept_name
from mhgrn.kg.importers import ImportOptions, ImportReport, build
from mhgrn.kg.schema import Relation, Schema

__all__ = ["Fact", "ImportOptions", "ImportReport", "KnowledgeGraph", "Relation", "Schema", "build", "concept_name"]
