"""TriG: Turtle with named graphs, which become one graph."""

from mhgrn.kg.readers._rdf import RdfReader


class TriGReader(RdfReader):
    """TriG."""

    name = "trig"
    endings = (".trig",)
    parser = "TRIG"
