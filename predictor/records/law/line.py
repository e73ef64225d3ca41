"""One family's fitted line, the errors of held-out forecasts, and a prediction's variance."""

from __future__ import annotations

import math
from typing import Any

from predictor.records.base import Record
from predictor.records.distributions import t_quantile
from predictor.records.estimate import finite_or_none
from predictor.records.predictive import Predictive


class Coefficient(Record):
    """A regression coefficient with its standard error and degrees of freedom."""

    value: float
    stderr: float
    df: float
    num_units: int
    """Hint configs behind it."""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """t interval at `level`; NaN where the standard error is unknown or no degree of freedom is left."""
        if self.df <= 0.0 or math.isnan(self.stderr):
            return (math.nan, math.nan)
        half = float(t_quantile(self.df, 0.5 + level / 2)) * self.stderr
        return (self.value - half, self.value + half)

    def as_json(self, level: float = 0.95) -> dict[str, Any]:
        """The keys of an estimate (design, section 12)."""
        low, high = self.interval(level)
        return {
            "value": finite_or_none(self.value),
            "stderr": finite_or_none(self.stderr),
            "num_units": self.num_units,
            "interval": [finite_or_none(low), finite_or_none(high)],
            "level": level,
        }


class VarianceShares(Record):
    """Where the variance of a forecast comes from; the four shares sum to 1 (NaN without an interval)."""

    law: float
    """The coefficients are estimated."""
    between_runs: float
    """Seeds, and hint configs that depart from the line."""
    probe: float
    """This gap was measured with noise."""
    evaluation: float
    """The outcome will be measured with noise."""


class Prediction(Record):
    """Distribution of one NEW run's measured improvement, and the shares of its variance."""

    predictive: Predictive
    shares: VarianceShares
    extrapolation: float
    """Distance outside the fitted gaps, in widths of their range; 0 inside, NaN when no gap was fitted."""


class FamilyLaw(Record):
    """One family's line and everything a forecast of a new run needs.

    scale² of a new run = x'Cx + residual_var + seed_var, then the noise of this gap and of this evaluation beyond
    the averages `probe_var` and `eval_var` that the residuals already contain.
    """

    family: str
    num_runs: int
    num_configs: int
    num_gaps: int
    """Distinct values of the gap predictor."""
    coefficients: tuple[float, ...]
    """Intercept, slope, then one for each extra term."""
    covariance: tuple[tuple[float, ...], ...]
    """C: squared scale of the coefficients' joint t distribution."""
    df: float
    """Degrees of freedom of that t, infinity for a normal."""
    residual_var: float
    """Variance of a point around the line."""
    seed_var: float = 0.0
    """Variance of one seed beyond what a point's mean over seeds shows."""
    seed_df: float = 0.0
    shared_var: float = 0.0
    """Variance of the student's accuracy where all runs share its measurement: it moves all of them together."""
    probe_var: float = 0.0
    """Mean measured variance of the fitted gaps, without the shared student's."""
    eval_var: float = 0.0
    """Mean measured variance of one fitted run's improvement, without the shared student's."""
    eval_scale: float = math.nan
    """`wls` only: a new run's variance around the line is this multiple of its evaluation variance."""
    unit_var: float = math.nan
    """Variance of one example's paired improvement, likewise; prices an evaluation of any size."""
    ceiling_var: float = math.nan
    """Mean square by which runs at the ceiling fall short of it; NaN takes the spread around the line."""
    gap_range: tuple[float, float] = (math.nan, math.nan)
    r2: float = math.nan
    """Share of the points' variance that the line explains, in sample."""

    @property
    def intercept(self) -> Coefficient:
        """Improvement at a gap of 0."""
        return self.coefficient(0)

    @property
    def slope(self) -> Coefficient:
        """Improvement for one unit of the gap predictor."""
        return self.coefficient(1)

    @property
    def residual_sd(self) -> float:
        """Standard deviation of a point around the line."""
        return math.sqrt(self.residual_var)

    def coefficient(self, term: int) -> Coefficient:
        """The coefficient of a term: 0 intercept, 1 gap, then the extra terms in order."""
        variance = self.covariance[term][term]
        return Coefficient(
            value=self.coefficients[term],
            stderr=math.sqrt(variance) if variance >= 0.0 else math.nan,
            df=self.df,
            num_units=self.num_configs,
        )


class HeldOutErrors(Record):
    """Errors of forecasts for runs that the law had not seen."""

    num_runs: int
    num_folds: int
    """Refits; each forecast one hint config (or family), or several where there are hundreds."""
    mae: float
    rmse: float
    coverage50: float
    coverage80: float
    coverage95: float
    """Share of outcomes inside the interval of that level."""
    crps: float
    """Mean continuous ranked probability score; the mean absolute error of a forecast without spread."""

    def as_json(self) -> dict[str, Any]:
        """The numbers by name; unknown ones become null."""
        return {name: finite_or_none(value) for name, value in self.model_dump().items()}
