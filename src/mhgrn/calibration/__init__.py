"""How far probabilities can be trusted: temperature scaling, calibration measures, and conformal sets of choices.

The functions work on the scores or probabilities of questions; they know nothing of models and graphs.
"""

from mhgrn.calibration.conformal import conformal_set, conformal_threshold, nonconformity
from mhgrn.calibration.measures import Reliability, RiskCoverage, measure
from mhgrn.calibration.stored import CALIBRATION, Calibration, fit, sure_from
from mhgrn.calibration.temperature import fit_temperature, softmax

__all__ = [
    "CALIBRATION",
    "Calibration",
    "Reliability",
    "RiskCoverage",
    "conformal_set",
    "conformal_threshold",
    "fit",
    "fit_temperature",
    "measure",
    "nonconformity",
    "softmax",
    "sure_from",
]
