"""Turtle: statements of RDF with prefixes, as ontologies, thesauri (SKOS) and DBpedia have them."""

from mhgrn.kg.readers._rdf import RdfReader


class TurtleReader(RdfReader):
    """Turtle."""

    name = "turtle"
    endings = (".ttl", ".turtle")
    parser = "TURTLE"

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return line.lstrip().lower().startswith(("@prefix", "@base", "prefix ", "base "))
