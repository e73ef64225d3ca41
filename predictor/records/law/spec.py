"""What is fitted and how, the points it is fitted on, and the reasons to doubt it."""

from __future__ import annotations

import math
from typing import Literal

from predictor.records.base import Record

LawMethod = Literal["ols", "wls", "bayes", "york", "theil_sen", "hierarchical"]
LawForm = Literal["auto", "linear", "saturating"]
GapName = Literal["gap", "net_gap", "transferable_gap", "consensus_gap"]
ExtraName = Literal["coverage", "correctness_alignment", "log_params", "num_steps"]
Response = Literal["improvement", "train_improvement"]
Severity = Literal["note", "doubt"]
GuardName = Literal[
    "few_gaps",
    "two_points",
    "constant_improvement",
    "saturated_student",
    "ceiling",
    "extrapolation",
    "mixed_task",
    "mixed_decoding",
    "mixed_steps",
    "mixed_preset",
    "mixed_training",
    "mixed_checkpoint_rule",
    "mixed_baseline",
    "duplicate_records",
    "missing_values",
    "peak_checkpoint",
    "few_families",
    "prior_only",
    "disagreement",
    "fallback_predictor",
    "noisy_gaps",
    "remeasured_baseline",
    "pilot_disagrees",
    "no_interval",
    "few_configs",
    "weak_fit",
]


class LawGuard(Record):
    """A named reason to trust a fit or a forecast less."""

    name: GuardName
    message: str
    severity: Severity = "note"
    """`doubt` makes the command end with exit code 3."""
    subjects: tuple[str, ...] = ()
    """Hint configs or runs it is about."""


class LawSpec(Record):
    """What is fitted and how; a result stores it, so that it can be fitted again."""

    method: LawMethod = "bayes"
    predictor: GapName = "gap"
    """The gap that the slope belongs to."""
    fallback: GapName | None = None
    """Taken, and flagged, where the predictor was not measured; None makes that an error."""
    extra: tuple[ExtraName, ...] = ()
    """Further terms, at most as many as the number of hint configs supports."""
    covariates: dict[ExtraName, dict[str, float]] = {}
    """Values of terms that no record holds, by model or hint config (`log_params`: {model: value})."""
    form: LawForm = "auto"
    """`saturating` is min(1 - student, line); `auto` lets held-out error choose."""
    response: Response = "improvement"
    """Improvement on held-out examples, or on training examples; never a mixture."""
    unit: Literal["config", "run"] = "config"
    """One point for each hint config (mean over its seeds, as published) or for each run."""
    covariance: Literal["classical", "clustered"] = "classical"
    """`clustered` (CR1, t with clusters - 1 degrees of freedom) lets the runs of one hint config stray together."""
    prior: Literal["published", "none"] = "published"
    """Prior of `bayes`; `none` is flat and gives the intervals of `ols`."""
    allow_mixed: bool = False
    """Fit records that differ in task, decoding, steps, preset, checkpoint rule or baseline, with guards."""
    drop_missing: bool = False
    """Leave records with missing numbers out instead of refusing them."""
    drop_duplicates: bool = False
    """Keep the first of several records of one run instead of refusing them."""

    @property
    def formula(self) -> str:
        """The regression in words: `improvement ~ 1 + gap`."""
        return f"{self.response} ~ " + " + ".join(["1", self.predictor, *self.extra])


class LawPoint(Record):
    """One point of the law: a hint config with all its seeds (or a single run)."""

    label: str
    family: str
    model: str
    task: str
    hint: str
    config: str
    """Identity without the seed: held out together."""
    xs: tuple[float, ...]
    """The gap predictor, then the extra terms."""
    x_stderr: float
    """Standard error of the gap predictor."""
    ys: tuple[float, ...]
    """Improvement of each run."""
    y_stderr: float
    """Measurement error of one run's improvement (root mean square over the runs)."""
    y_units: int
    """Independent units that one run's improvement was measured on."""
    student: float
    """Student accuracy before training."""
    baseline_var: float = math.nan
    """Variance of the gap that is the student's: enters gap AND improvement where the baseline is measured anew."""
    baseline_id: str = ""
    run_keys: tuple[str, ...]
    predictor: GapName
    """The gap really used; differs from the specification's where the fallback was taken."""

    @property
    def x(self) -> float:
        """The gap predictor."""
        return self.xs[0]

    @property
    def y(self) -> float:
        """Mean improvement over the runs."""
        return math.fsum(self.ys) / len(self.ys)


class LeftOut(Record):
    """A record that the fit did not use."""

    key: str
    hint: str
    reason: str
