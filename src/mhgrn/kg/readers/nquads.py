"""N-Quads: one statement per line with the graph it is from. All graphs become one."""

from mhgrn.kg.readers._rdf import RdfReader


class NQuadsReader(RdfReader):
    """N-Quads."""

    name = "nquads"
    endings = (".nq", ".nquads")
    parser = "N_QUADS"
