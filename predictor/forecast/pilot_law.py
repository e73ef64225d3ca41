"""The joint law of a pilot and its full run on a grid: exact where the forecast is a t distribution, or flat.

Model: pilot = rho · full + deviation, rho ~ N(rho0, deviation² / weight), deviation² scaled inverse χ², pilot
outcome = pilot + evaluation noise. The posterior of `full` is one integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr, stdtrit

from predictor.law import PilotPrior

Floats = NDArray[np.float64]

GRID_Z = np.linspace(-12.0, 12.0, 481)
"""Where the forecast is evaluated, in its scales from its centre: ±12 holds 98 % of a t with one degree of freedom."""
NUM_DEVIATIONS = 16
"""Equally likely values that stand for the unknown deviation."""


@dataclass(frozen=True, slots=True)
class FullForecast:
    """What is known of a full run's true improvement before its pilot; without evaluation noise."""

    centre: float
    scale: float
    """Of a t distribution; NaN leaves everything between the bounds equally likely."""
    df: float
    low: float
    """Smallest possible improvement: minus the student's accuracy."""
    high: float


@dataclass(frozen=True)
class PilotLaw:
    """Joint law of full and pilot outcome on G forecast points and J deviations."""

    full: FullForecast
    prior: PilotPrior
    eval_stderr: float
    """Standard error of the pilot's measured improvement; NaN counts as 0."""

    @cached_property
    def weight_G(self) -> Floats:
        """Probabilities of the forecast's points: a t density (or a flat one) on an even grid."""
        df = self.full.df
        if math.isnan(self.full.scale):
            return np.full(GRID_Z.size, 1.0 / GRID_Z.size)
        log_G = -0.5 * GRID_Z**2 if math.isinf(df) else -0.5 * (df + 1.0) * np.log1p(GRID_Z**2 / df)
        weight_G = np.exp(log_G)
        return np.asarray(weight_G / weight_G.sum())

    @cached_property
    def full_G(self) -> Floats:
        """The full run's improvement at the forecast's points, uncut."""
        if math.isnan(self.full.scale):
            return np.linspace(self.full.low, self.full.high, GRID_Z.size)
        return self.full.centre + self.full.scale * GRID_Z

    @cached_property
    def possible_G(self) -> Floats:
        """The same, cut to what is possible: a run above the ceiling ends at the ceiling, and so does its pilot."""
        return np.clip(self.full_G, self.full.low, self.full.high)

    @cached_property
    def centre_G(self) -> Floats:
        """Mean pilot outcome for each forecast point."""
        return self.prior.rho * self.possible_G

    @cached_property
    def sd_GJ(self) -> Floats:
        """Spread of the pilot outcome for each forecast point and deviation."""
        levels_J = (np.arange(NUM_DEVIATIONS) + 0.5) / NUM_DEVIATIONS
        variance_J = self.prior.df * self.prior.deviation**2 / np.asarray(chdtri(self.prior.df, levels_J))
        scale_G = 1.0 + self.possible_G**2 / self.prior.weight
        noise = 0.0 if math.isnan(self.eval_stderr) else self.eval_stderr
        return np.sqrt(variance_J[None, :] * scale_G[:, None] + noise**2)

    def cdf_given_full(self, outcome: float) -> Floats:
        """P(pilot outcome ≤ `outcome`) for each forecast point."""
        cdf_GJ: Floats = np.asarray(ndtr((outcome - self.centre_G[:, None]) / self.sd_GJ))
        return np.asarray(cdf_GJ.mean(axis=1))

    @cached_property
    def mean(self) -> float:
        """Expected pilot outcome."""
        return float(self.weight_G @ self.centre_G)

    @cached_property
    def stdev(self) -> float:
        """Standard deviation of the pilot outcome."""
        within = float(self.weight_G @ (self.sd_GJ**2).mean(axis=1))
        return math.sqrt(within + float(self.weight_G @ (self.centre_G - self.mean) ** 2))

    def quantile(self, probability: float) -> float:
        """Pilot outcome that a share `probability` of pilots stays below."""
        reach = 50.0 * self.stdev

        def surplus(outcome: float) -> float:
            return float(self.weight_G @ self.cdf_given_full(outcome)) - probability

        return float(brentq(surplus, self.mean - reach, self.mean + reach, xtol=1e-9))

    def likelihood(self, outcome: float) -> Floats:
        """Likelihood of a measured pilot outcome at the forecast's points, up to a factor."""
        deviation_GJ = (outcome - self.centre_G[:, None]) / self.sd_GJ
        # The largest term is taken out so that a pilot far from every forecast still has a posterior.
        log_GJ = -0.5 * deviation_GJ**2 - np.log(self.sd_GJ)
        return np.asarray(np.exp(log_GJ - log_GJ.max()).mean(axis=1))

    def posterior(self, like_G: Floats) -> tuple[float, float]:
        """Mean of the full run under the forecast times a likelihood, and the t scale that gives its 80 % interval."""
        weight_G = self.weight_G * like_G
        total = float(weight_G.sum())
        # An outcome that no point of the forecast explains is no reason to believe one of them.
        weight_G = weight_G / total if total > 0.0 else self.weight_G
        mean = float(weight_G @ self.full_G)
        # The quantiles, not the variance: a t with two degrees of freedom or fewer has none.
        cumulative_G = np.cumsum(weight_G) - 0.5 * weight_G
        low, high = np.interp([0.1, 0.9], cumulative_G, self.full_G)
        return mean, float(high - low) / (2.0 * float(stdtrit(self.full.df, 0.9)))

    def explained(self, like_G: Floats) -> float:
        """Share of the variance of what is possible that a likelihood takes away; 0 when it takes none."""
        before, after = (self._variance(weight_G) for weight_G in (self.weight_G, self.weight_G * like_G))
        return max(0.0, 1.0 - after / before) if before > 0.0 and not math.isnan(after) else 0.0

    def _variance(self, weight_G: Floats) -> float:
        total = float(weight_G.sum())
        if not total > 0.0:
            return math.nan
        mean = float(weight_G @ self.possible_G) / total
        return float(weight_G @ (self.possible_G - mean) ** 2) / total
