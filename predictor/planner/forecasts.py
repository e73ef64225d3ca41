"""From the law's forecasts to the planner's candidates."""

from __future__ import annotations

import math

import numpy as np

from predictor.law.points import refusal
from predictor.records.forecast import Forecast
from predictor.records.law import FamilyLaw
from predictor.records.measure import GapEstimate
from predictor.records.plan import Candidate
from predictor.records.runs import RunSpec


def candidate_from_forecast(
    forecast: Forecast, gap: GapEstimate, spec: RunSpec, law: FamilyLaw | None = None
) -> Candidate:
    """The candidate of one hint config: its forecast without the final evaluation's noise, its gaps, its full run.

    With the family's `law` the part of the error that its coefficients cause is shared with the other candidates
    (L'x for C = L L'), and the spread between seeds is known where the law has seen seeds.
    """
    predictive = forecast.predictive
    # The plan is about what a run truly gains; how noisily that will be measured is no reason to launch it.
    kept = 1.0 - (0.0 if math.isnan(forecast.shares.evaluation) else forecast.shares.evaluation)
    variance = predictive.scale**2 * kept
    shared = _law_error(forecast, law) if law is not None else ()
    seed = math.sqrt(law.seed_var) if law is not None and law.seed_df > 0.0 else math.nan
    whole = math.fsum(part**2 for part in shared) + (0.0 if math.isnan(seed) else seed**2)
    # A gap measured better than the fitted ones may leave less than its parts; they shrink alike.
    fit = math.sqrt(variance / whole) if whole > variance else 1.0
    return Candidate(
        spec=spec,
        gap=forecast.gap,
        consensus_gap=gap.consensus_gap,
        consensus_refused=refusal(gap),
        student=min(1.0, max(0.0, -predictive.low)),
        mean=predictive.location,
        stderr=math.sqrt(variance),
        df=predictive.df,
        seed_sd=seed * fit,
        shared=tuple(part * fit for part in shared),
        is_control=gap.is_control or gap.kind == "none",
        notes=tuple(guard.message for guard in forecast.guards if guard.severity == "doubt"),
    )


def _law_error(forecast: Forecast, law: FamilyLaw) -> tuple[float, ...]:
    """Loadings on the law's independent errors; empty where the coefficients have no covariance, or other terms."""
    covariance_TT = np.asarray(law.covariance, dtype=np.float64)
    if covariance_TT.shape != (2, 2) or not np.isfinite(covariance_TT).all():
        return ()
    # Not Cholesky: a prior that is sure of the intercept makes the matrix singular.
    values_T, vectors_TT = np.linalg.eigh(covariance_TT)
    root_TT = vectors_TT * np.sqrt(np.maximum(values_T, 0.0))
    return tuple(float(part) for part in root_TT.T @ np.array([1.0, forecast.predictor_value.value]))
