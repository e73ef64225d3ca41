"""A forecast distribution: Student's t, clipped to the improvements that are possible at all."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from predictor.records.base import Record
from predictor.records.distributions import t_cdf, t_quantile

Floats = NDArray[np.float64]

# Midpoint quantiles stand in for the distribution where a clipped t has no closed form (mean, spread, CRPS).
NUM_QUANTILES = 1001


@lru_cache(maxsize=256)
def standard_quantiles(df: float) -> Floats:
    """Quantiles of Student's t with `df` degrees of freedom at the midpoints of NUM_QUANTILES equal slices."""
    levels = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
    quantiles: Floats = np.asarray(t_quantile(df, levels), dtype=np.float64)
    quantiles.setflags(write=False)
    return quantiles


class Predictive(Record):
    """location + scale·t(df) held between bounds; a line beyond a bound leaves the run's own spread `noise` inside.

    With t the standardised outcome: min(location + scale·t, high + noise·t), likewise at `low`, then cut at both. Far
    from the bounds it is the t distribution itself. A NaN scale means that no interval can be given; every probability
    and bound is then NaN.
    """

    location: float
    scale: float
    df: float
    """Degrees of freedom; infinity is the normal distribution."""
    noise: float = 0.0
    """How far a run strays from a bound that its line passes; 0 puts it exactly on the bound."""
    low: float = -1.0
    """Smallest possible improvement: minus the student's accuracy."""
    high: float = 1.0
    """Largest possible improvement: one minus the student's accuracy."""

    def quantile(self, probability: float) -> float:
        """The value that a share `probability` of outcomes stays below."""
        return float(self._bent(t_quantile(self.df, probability)))

    def interval(self, level: float) -> tuple[float, float]:
        """Central interval at `level`, inside [low, high]."""
        return (self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2))

    def probability_of_at_least(self, threshold: float) -> float:
        """P(outcome ≥ threshold): 1 at the lower bound and below, 0 above the upper bound."""
        if math.isnan(self.scale):
            return math.nan
        if threshold <= self.low:
            return 1.0
        if threshold > self.high:
            return 0.0
        return 1.0 - self._cdf(threshold)

    @property
    def clipped_below(self) -> float:
        """Mass of the unbounded distribution below `low`."""
        return self._tail(self._standardised(self.low, self.location, self.scale))

    @property
    def clipped_above(self) -> float:
        """Mass of the unbounded distribution above `high`."""
        return 1.0 - self._tail(self._standardised(self.high, self.location, self.scale))

    @property
    def mean(self) -> float:
        """Mean of the bounded distribution; the bounded location when there is no scale."""
        value = float(np.mean(self._values())) if self.scale > 0.0 else self.location
        return value if math.isnan(value) else min(max(value, self.low), self.high)

    @property
    def stdev(self) -> float:
        """Standard deviation of the bounded distribution; NaN when there is no scale."""
        return float(np.std(self._values())) if self.scale > 0.0 else self.scale

    def crps(self, outcome: float) -> float:
        """Continuous ranked probability score of one outcome: 0 is perfect, in units of improvement."""
        if math.isnan(self.scale):
            return math.nan
        values = self._values()
        ranks = 2 * np.arange(NUM_QUANTILES) - NUM_QUANTILES + 1
        return float(np.mean(np.abs(values - outcome)) - np.dot(ranks, values) / NUM_QUANTILES**2)

    def _values(self) -> Floats:
        # Three digits of df are far finer than the slices, and let nearby forecasts share one table.
        return self._bent(standard_quantiles(float(f"{self.df:.3g}")))

    def _bent(self, standard: Floats | float) -> Floats:
        """Outcomes at standardised quantiles: the line's, unless it passes a bound and the bound's own spread holds."""
        upper = np.minimum(self.location + self.scale * standard, self.high + self.noise * standard)
        inside = np.maximum(upper, self.low + self.noise * standard)
        return np.asarray(np.clip(inside, self.low, self.high), dtype=np.float64)

    def _cdf(self, value: float) -> float:
        """P(outcome < value) strictly inside the bounds: outcomes rise with t, so quantiles turn around."""
        line = self._standardised(value, self.location, self.scale)
        top = self._standardised(value, self.high, self.noise)
        bottom = self._standardised(value, self.low, self.noise)
        return self._tail(min(max(line, top), bottom))

    @staticmethod
    def _standardised(value: float, centre: float, spread: float) -> float:
        if spread > 0.0:
            return (value - centre) / spread
        if math.isnan(spread):
            return math.nan
        return math.inf if value > centre else -math.inf

    def _tail(self, standard: float) -> float:
        return float(t_cdf(self.df, standard))
