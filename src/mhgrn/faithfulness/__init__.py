"""Faithfulness of explanations: whether the facts that a method names are those that decide the answer."""

from mhgrn.faithfulness.bootstrap import Interval
from mhgrn.faithfulness.faithfulness import Faithfulness, faithfulness
from mhgrn.faithfulness.methods import METHODS

__all__ = ["METHODS", "Faithfulness", "Interval", "faithfulness"]
