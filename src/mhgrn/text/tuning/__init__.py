"""Tune a text encoder on the facts of a graph."""

from mhgrn.text.tuning.tuning import Tuned, TuneOptions, tune

__all__ = ["TuneOptions", "Tuned", "tune"]
