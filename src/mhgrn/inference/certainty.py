"""Whether an answer is sure enough, and which choices may be right."""

from collections.abc import Sequence
from math import floor

from mhgrn.calibration import Calibration
from mhgrn.inference.asked import Asked, WrongOption
from mhgrn.runs import Run

NOT_CALIBRATED = "this model is not calibrated, so its probabilities may be too high or too low; `mhgrn calibrate` fits them."


def calibration_for(run: Run, asked: Sequence[Asked]) -> Calibration | None:
    """The calibration of a run. Refuses coverage without one."""
    if run.calibration is None and any(one.coverage is not None for one in asked):
        raise WrongOption(
            "coverage",
            f"{run.folder} is not calibrated, so it has no coverage; run `mhgrn calibrate {run.folder}`.",
        )
    return run.calibration


def likely_choices(
    calibration: Calibration | None, asked: Asked, names: Sequence[str], probabilities: Sequence[float], best: int
) -> list[str] | None:
    """The choices that contain the right one with the coverage that was asked for, most probable first."""
    if calibration is None or asked.coverage is None:
        return None
    return [names[choice] for choice in calibration.prediction_set(probabilities, best, asked.coverage)]


def least_confidence(calibration: Calibration | None, asked: Asked) -> float | None:
    """The least confidence of an answer that is sure enough: what was asked for, or what is stored with the run."""
    if asked.abstain_below is not None or calibration is None:
        return asked.abstain_below
    return calibration.abstain_below


def certainty_notes(calibration: Calibration | None, asked: Asked) -> list[str]:
    if calibration is None:
        return [NOT_CALIBRATED] if asked.abstain_below is not None else []
    if asked.coverage is not None and not calibration.reaches(asked.coverage):
        needed = f"calibrated on {calibration.questions:,} questions, too few for {percent(asked.coverage)} coverage"
        return [f"all choices are listed because the model is {needed}."]
    return []


def percent(share: float) -> str:
    """A share that a user gave, with the digits that were given.

    >>> percent(0.9), percent(0.955)
    ('90%', '95.5%')
    """
    return f"{100 * share:.6g}%"


def rounded_down(share: float) -> str:
    """A share that is below another one, and must not look equal to it.

    >>> rounded_down(0.49999)
    '49.9%'
    """
    return f"{floor(share * 1000) / 10:.1f}%"
