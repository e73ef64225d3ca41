"""Pilots: a short run's improvement as a second measurement of what the full run will improve.

Model: pilot = rho · full + deviation, rho ~ N(rho0, deviation² / weight), deviation² scaled inverse χ², pilot
outcome = pilot + evaluation noise. The posterior of `full` is one integral, taken on a grid, exact for a t forecast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr, stdtrit

from predictor.planner.draws import Floats
from predictor.planner.situation import latest, measured_improvement
from predictor.records.base import Record
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate, PilotForecast
from predictor.records.runs import RunRecord, RunSpec

GRID_Z = np.linspace(-12.0, 12.0, 481)
"""Where the forecast is evaluated, in its scales from its centre: ±12 holds 98 % of a t with one degree of freedom."""
NUM_DEVIATIONS = 16
"""Equally likely values that stand for the unknown deviation."""


class PilotPrior(Record):
    """How a pilot relates to its full run: normal-inverse-χ² over (rho, deviation), conjugate to past pairs."""

    rho: float = 0.6
    """Improvement of a pilot for one unit of its full run's. A learning curve 1 - exp(-c · steps) whose full run
    reaches 0.95 to 0.99 gives a pilot of a fifth of the steps 0.47 to 0.61 of it; sharper losses give more (the
    miniature's reverse KL has nearly all in a quarter)."""
    rho_sd: float = 0.25
    """Scale of rho: 0.1 to 1.1 is possible, a negative one hardly."""
    deviation: float = 0.05
    """Scale of a pilot's distance from rho · full: the seed spread seen on the miniature is .02 to .10."""
    df: float = 4.0
    """Pairs that the deviation's prior counts for."""

    @property
    def weight(self) -> float:
        """Squared full improvement that the prior of rho counts for."""
        return (self.deviation / self.rho_sd) ** 2

    def updated(self, pairs: Sequence[PilotPair]) -> PilotPrior:
        """Posterior after pairs of pilot and full run, in closed form; their measurement noise is in the deviation."""
        full_N = np.array([pair.full.value for pair in pairs])
        pilot_N = np.array([pair.pilot.value for pair in pairs])
        weight = self.weight + float(full_N @ full_N)
        rho = (self.weight * self.rho + float(full_N @ pilot_N)) / weight
        misfit = float(pilot_N @ pilot_N) + self.weight * self.rho**2 - weight * rho**2
        df = self.df + len(pairs)
        deviation = math.sqrt(max(0.0, self.df * self.deviation**2 + misfit) / df)
        return PilotPrior(rho=rho, rho_sd=deviation / math.sqrt(weight), deviation=deviation, df=df)


class PilotPair(Record):
    """A pilot and the full run of the same hint config, both measured by the probe's instrument."""

    hint: str
    pilot: Estimate
    full: Estimate


def pilot_pairs(runs: Sequence[RunRecord], full: RunSpec, *, pilot_steps: int) -> tuple[PilotPair, ...]:
    """Pairs of finished pilots and full runs of this model, task, preset and numbers of steps, seed by seed.

    A pilot whose own seed has no full run takes that of the first seed there is.
    """
    wanted = (full.model, full.task, full.preset)
    pilots: list[tuple[RunSpec, Estimate]] = []
    fulls: dict[tuple[str, str], dict[int, Estimate]] = {}
    for run in latest(runs):
        spec, outcome = run.spec, measured_improvement(run)
        if outcome is None or (spec.model, spec.task, spec.preset) != wanted:
            continue
        if spec.fidelity == "pilot" and spec.num_steps == pilot_steps:
            pilots.append((spec, outcome))
        if spec.fidelity == "full" and spec.num_steps == full.num_steps:
            fulls.setdefault((spec.hint, spec.config_key), {})[spec.seed] = outcome
    pairs = []
    for spec, outcome in pilots:
        seeds = fulls.get((spec.hint, spec.config_key), {})
        if seeds:
            # The same seed shares data order with its pilot; any seed is better than no pair.
            match = seeds.get(spec.seed, next(iter(seeds.values())))
            pairs.append(PilotPair(hint=spec.hint, pilot=outcome, full=match))
    return tuple(pairs)


def forecast_pilot(candidate: Candidate, prior: PilotPrior, *, num_steps: int, eval_stderr: float) -> PilotForecast:
    """What the pilot will measure: rho · forecast with all errors, evaluation noise included.

    `eval_stderr` is the expected standard error of the pilot's measured improvement; that of the gap is a fair guess.
    """
    law = _PilotLaw(candidate, prior, eval_stderr)
    points = [law.quantile(q) for q in (0.025, 0.1, 0.9, 0.975)]
    return PilotForecast(
        hint=candidate.hint,
        num_steps=num_steps,
        mean=law.mean,
        stderr=law.stdev,
        interval80=(points[1], points[2]),
        interval95=(points[0], points[3]),
    )


def update_with_pilot(candidate: Candidate, outcome: Estimate, prior: PilotPrior) -> Candidate:
    """The forecast of the full run after its pilot: posterior mean, and the scale that gives its 80 % interval.

    A pilot whose standard error is unknown says nothing and changes nothing.
    """
    if math.isnan(outcome.stderr) or not candidate.stderr > 0.0:
        return candidate
    law = _PilotLaw(candidate, prior, outcome.stderr)
    deviation_GJ = (outcome.value - law.centre_G[:, None]) / law.sd_GJ
    # The largest term is taken out so that a pilot far from every forecast still has a posterior.
    log_GJ = -0.5 * deviation_GJ**2 - np.log(law.sd_GJ)
    like_G = np.exp(log_GJ - log_GJ.max()).mean(axis=1)
    return law.posterior(like_G)


def preposterior(
    candidate: Candidate, prior: PilotPrior, *, eval_stderr: float, num_bins: int
) -> list[tuple[float, Candidate]]:
    """The forecasts that a pilot may lead to, with their probabilities: one for each bin of its possible outcome.

    Knowing the bin is less than knowing the outcome, so an expected value computed from these is never too large.
    """
    law = _PilotLaw(candidate, prior, eval_stderr)
    # Equally likely bins spend no plan on outcomes that hardly happen.
    edges = [-math.inf, *(law.quantile(k / num_bins) for k in range(1, num_bins)), math.inf]
    cdf_KG = np.stack([law.cdf_given_full(edge) for edge in edges])
    bins_KG = np.diff(cdf_KG, axis=0)
    chances_K = bins_KG @ law.weight_G
    return [(float(p), law.posterior(like_G)) for p, like_G in zip(chances_K, bins_KG, strict=True) if p > 0.0]


@dataclass(frozen=True)
class _PilotLaw:
    """Joint law of full and pilot outcome on G forecast points and J deviations."""

    candidate: Candidate
    prior: PilotPrior
    eval_stderr: float

    @cached_property
    def weight_G(self) -> Floats:
        """Probabilities of the forecast's points: a t density on an even grid."""
        df = self.candidate.df
        log_G = -0.5 * GRID_Z**2 if math.isinf(df) else -0.5 * (df + 1.0) * np.log1p(GRID_Z**2 / df)
        weight_G = np.exp(log_G)
        return np.asarray(weight_G / weight_G.sum())

    @cached_property
    def full_G(self) -> Floats:
        """The full run's improvement at the forecast's points, uncut."""
        return self.candidate.mean + self.candidate.stderr * GRID_Z

    @cached_property
    def possible_G(self) -> Floats:
        """The same, cut to what is possible: a run above the ceiling ends at the ceiling, and so does its pilot."""
        return np.clip(self.full_G, -self.candidate.student, 1.0 - self.candidate.student)

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

    def posterior(self, like_G: Floats) -> Candidate:
        """The candidate under the forecast times a likelihood."""
        weight_G = self.weight_G * like_G
        total = float(weight_G.sum())
        # An outcome that no point of the forecast explains is no reason to believe one of them.
        if not total > 0.0:
            return self.candidate
        weight_G = weight_G / total
        mean = float(weight_G @ self.full_G)
        # The quantiles, not the variance: a t with two degrees of freedom or fewer has none.
        cumulative_G = np.cumsum(weight_G) - 0.5 * weight_G
        low, high = np.interp([0.1, 0.9], cumulative_G, self.full_G)
        return self.candidate.moved(mean, float(high - low) / (2.0 * float(stdtrit(self.candidate.df, 0.9))))
