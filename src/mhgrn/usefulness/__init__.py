"""How useful evidence is: recall of known facts and concepts, and the accuracy of a language model that reads it."""

from mhgrn.usefulness.report import UsefulnessReport, measure_usefulness

__all__ = ["UsefulnessReport", "measure_usefulness"]
