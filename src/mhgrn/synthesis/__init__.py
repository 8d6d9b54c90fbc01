"""Questions made from the facts of a graph."""

from mhgrn.synthesis.options import SynthesisOptions
from mhgrn.synthesis.synthesizing import Synthesis, synthesize

__all__ = ["Synthesis", "SynthesisOptions", "synthesize"]
