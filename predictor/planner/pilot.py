"""Pilots of candidates: what each is expected to measure, and the forecasts that it may lead to.

The law that relates a pilot to its full run is `predictor.forecast.pilot_law`, the same that forecasts are made with.
"""

from __future__ import annotations

import math

import numpy as np

from predictor.forecast import FullForecast, PilotLaw
from predictor.law import PilotPrior
from predictor.planner.draws import Floats
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate, PilotForecast


def forecast_pilot(candidate: Candidate, prior: PilotPrior, *, num_steps: int, eval_stderr: float) -> PilotForecast:
    """What the pilot will measure: rho · forecast with all errors, evaluation noise included.

    `eval_stderr` is the expected standard error of the pilot's measured improvement; that of the gap is a fair guess.
    """
    law = _law(candidate, prior, eval_stderr)
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
    law = _law(candidate, prior, outcome.stderr)
    return _moved(candidate, law, law.likelihood(outcome.value))


def preposterior(
    candidate: Candidate, prior: PilotPrior, *, eval_stderr: float, num_bins: int
) -> list[tuple[float, Candidate]]:
    """The forecasts that a pilot may lead to, with their probabilities: one for each bin of its possible outcome.

    Knowing the bin is less than knowing the outcome, so an expected value computed from these is never too large.
    """
    law = _law(candidate, prior, eval_stderr)
    # Equally likely bins spend no plan on outcomes that hardly happen.
    edges = [-math.inf, *(law.quantile(k / num_bins) for k in range(1, num_bins)), math.inf]
    cdf_KG = np.stack([law.cdf_given_full(edge) for edge in edges])
    bins_KG = np.diff(cdf_KG, axis=0)
    chances_K = bins_KG @ law.weight_G
    return [(float(p), _moved(candidate, law, like_G)) for p, like_G in zip(chances_K, bins_KG, strict=True) if p > 0.0]


def _law(candidate: Candidate, prior: PilotPrior, eval_stderr: float) -> PilotLaw:
    low, high = -candidate.student, 1.0 - candidate.student
    return PilotLaw(FullForecast(candidate.mean, candidate.stderr, candidate.df, low, high), prior, eval_stderr)


def _moved(candidate: Candidate, law: PilotLaw, like_G: Floats) -> Candidate:
    # Here too, an outcome that no point explains changes nothing.
    return candidate.moved(*law.posterior(like_G)) if float(law.weight_G @ like_G) > 0.0 else candidate
