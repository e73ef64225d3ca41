"""The law: improvement as a function of the gap, with intervals for a new run.

Tools beside the fit are imported by name, to keep this import light: `predictor.law.select` (formulas by held-out
error), `.compare` (fits side by side, influence), `.size` (how large a study must be), `.bootstrap`, `.coverage`.
"""

from predictor.law.heldout import covers, errors_of
from predictor.law.model import LinearLaw, fit_lines, leave_one_config_out, leave_one_family_out
from predictor.law.pilot import PilotPair, PilotPrior, pilot_pairs
from predictor.law.points import collect_points, measured_gap
from predictor.law.prior import PublishedPrior, published_prior

__all__ = [
    "LinearLaw",
    "PilotPair",
    "PilotPrior",
    "PublishedPrior",
    "collect_points",
    "covers",
    "errors_of",
    "fit_lines",
    "leave_one_config_out",
    "leave_one_family_out",
    "measured_gap",
    "pilot_pairs",
    "published_prior",
]
