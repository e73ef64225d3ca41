"""The law: improvement as a function of the gap, with intervals for a new run."""

from predictor.law.bootstrap import BootstrapLine, bootstrap_line
from predictor.law.compare import Comparison, Influence, compare, influence
from predictor.law.heldout import covers, errors_of
from predictor.law.model import LinearLaw, fit_lines, leave_one_config_out, leave_one_family_out
from predictor.law.points import collect_points, measured_gap
from predictor.law.prior import PublishedPrior, published_prior
from predictor.law.select import Selection, select_law
from predictor.law.size import Noise, SizePlan, half_width, next_gaps, noise_of, plan_sizes

__all__ = [
    "BootstrapLine",
    "Comparison",
    "Influence",
    "LinearLaw",
    "Noise",
    "PublishedPrior",
    "Selection",
    "SizePlan",
    "bootstrap_line",
    "collect_points",
    "compare",
    "covers",
    "errors_of",
    "fit_lines",
    "half_width",
    "influence",
    "leave_one_config_out",
    "leave_one_family_out",
    "measured_gap",
    "next_gaps",
    "noise_of",
    "plan_sizes",
    "published_prior",
    "select_law",
]
