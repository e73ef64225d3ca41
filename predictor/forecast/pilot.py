"""What a pilot adds: a second, surer predictor of its full run.

Full improvement = ratio · pilot improvement + noise. The ratio has a prior (`published_prior.yaml`) and is learned
from own pairs of pilot and full run; the pilot's forecast and the law's are then averaged by their precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from predictor.errors import LawError
from predictor.law import covers, published_prior
from predictor.law.regression import Prior, solve
from predictor.records import (
    Estimate,
    Forecast,
    ImprovementForecast,
    LawGuard,
    PilotEvidence,
    Predictive,
    RunRecord,
    VarianceShares,
)


@dataclass(frozen=True, slots=True)
class PilotRatio:
    """Full improvement for one unit of pilot improvement, as a t distribution, and the noise around it."""

    value: float
    stderr: float
    df: float
    residual_var: float
    num_pairs: int


def pilot_ratio(records: Sequence[RunRecord]) -> PilotRatio:
    """The ratio after all pairs of a pilot and finished full runs of the same hint config among the records."""
    prior = published_prior().pilot
    variance = prior.residual_sd**2
    pairs = _pairs(records)
    solution = solve(
        np.array([[pilot] for pilot, _ in pairs]).reshape(-1, 1),
        np.array([full for _, full in pairs]),
        Prior((prior.ratio,), (variance / prior.ratio_sd**2,), prior.residual_df, variance),
    )
    return PilotRatio(
        value=float(solution.coefficients_K[0]),
        stderr=math.sqrt(float(solution.covariance_KK[0, 0])),
        df=solution.df,
        residual_var=solution.residual_var,
        num_pairs=len(pairs),
    )


def _pairs(records: Sequence[RunRecord]) -> list[tuple[float, float]]:
    """(mean pilot improvement, mean full improvement) of each hint config that has both."""
    values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for record in records:
        if record.state == "finished" and record.improvement is not None:
            key = (record.spec.model, record.spec.task, record.spec.hint)
            values.setdefault(key, {}).setdefault(record.spec.fidelity, []).append(record.improvement.value)
    both = [found for found in values.values() if "pilot" in found and "full" in found]
    return [(float(np.mean(found["pilot"])), float(np.mean(found["full"]))) for found in both]


def forecast_of_pilot(forecast: Forecast, ratio: PilotRatio) -> Forecast:
    """The forecast of the pilot itself: the full run's, divided by the ratio; freeze it before the pilot starts."""
    full = forecast.predictive
    location = full.location / ratio.value
    scale = math.hypot(full.scale / ratio.value, location * ratio.stderr / ratio.value)
    predictive = full.model_copy(update={"location": location, "scale": scale})
    return forecast.model_copy(update={"fidelity": "pilot"} | _outcome(predictive, forecast.threshold))


def with_pilot(forecast: Forecast, pilot: RunRecord, ratio: PilotRatio) -> Forecast:
    """The full run's forecast after its pilot; raises LawError for a pilot without outcome or of another hint config.

    Final evaluation noise is in neither predictor, so it is set aside while the two are averaged.
    """
    outcome = _pilot_outcome(forecast, pilot)
    predictive, weight, evaluation = _averaged(forecast, outcome, ratio)
    evidence = PilotEvidence(
        key=pilot.spec.key,
        num_steps=pilot.spec.num_steps,
        improvement=outcome,
        ratio=ratio.value,
        ratio_stderr=ratio.stderr,
        num_pairs=ratio.num_pairs,
        weight=weight,
    )
    update = {"pilot": evidence, "shares": _shares(evaluation, weight, predictive, forecast.shares)}
    guards = forecast.guards + _surprise(forecast, ratio, outcome)
    return forecast.model_copy(update=update | {"guards": guards} | _outcome(predictive, forecast.threshold))


def _averaged(forecast: Forecast, outcome: Estimate, ratio: PilotRatio) -> tuple[Predictive, float, float]:
    """Precision-weighted average of law and pilot, the pilot's weight, and the final evaluation's variance.

    A law without an interval leaves the pilot alone, measured as noisily as the pilot was.
    """
    before = forecast.predictive
    has_law = not math.isnan(before.scale)
    evaluation = forecast.shares.evaluation * before.scale**2 if has_law else outcome.stderr**2
    pilot_var = (outcome.value * ratio.stderr) ** 2 + (ratio.value * outcome.stderr) ** 2 + ratio.residual_var
    law_var = before.scale**2 - evaluation if has_law else math.inf
    weight = law_var / (law_var + pilot_var) if has_law else 1.0
    location = weight * ratio.value * outcome.value
    df = ratio.df
    if has_law:
        location += (1.0 - weight) * before.location
        df = 1.0 / (weight**2 / ratio.df + (1.0 - weight) ** 2 / before.df)
    noise = before.noise if has_law else math.sqrt(ratio.residual_var)
    update = {
        "location": location,
        "scale": math.sqrt(weight * pilot_var + evaluation),
        "df": df,
        "noise": noise,
    }
    return before.model_copy(update=update), weight, evaluation


def _pilot_outcome(forecast: Forecast, pilot: RunRecord) -> Estimate:
    same = (pilot.spec.hint, pilot.spec.model, pilot.spec.task) == (
        forecast.hint,
        forecast.model,
        forecast.task,
    )
    if not same or pilot.state != "finished" or pilot.improvement is None:
        raise LawError(
            "this pilot says nothing about this forecast",
            where=f"forecast of {forecast.hint}",
            found=f"pilot of {pilot.spec.hint}, {pilot.state}",
            expected="a finished, recorded pilot of the same hint config, model and task",
        )
    return pilot.improvement


def _outcome(predictive: Predictive, threshold: float) -> dict[str, object]:
    return {
        "predictive": predictive,
        "improvement": ImprovementForecast.of(predictive),
        "p_pays": predictive.probability_of_at_least(threshold),
    }


def _shares(evaluation: float, weight: float, after: Predictive, before: VarianceShares) -> VarianceShares:
    """The law's and the probe's parts shrink with the square of their weight; the pilot's noise is between runs."""
    share = evaluation / after.scale**2
    known = 1.0 - before.evaluation
    kept = (1.0 - share) * (1.0 - weight) / known if known > 0.0 and weight < 1.0 else 0.0
    if kept == 0.0:
        return VarianceShares(law=0.0, probe=0.0, evaluation=share, between_runs=1.0 - share)
    law, probe = kept * before.law, kept * before.probe
    return VarianceShares(law=law, probe=probe, evaluation=share, between_runs=1.0 - share - law - probe)


def _surprise(forecast: Forecast, ratio: PilotRatio, outcome: Estimate) -> tuple[LawGuard, ...]:
    expected = forecast_of_pilot(forecast, ratio)
    if math.isnan(forecast.predictive.scale) or covers(expected.predictive, outcome.value, 0.95):
        return ()
    text = (
        f"the pilot gained {outcome.value:+.3f} where the law expected {expected.improvement.value:+.3f}; "
        "the law may not hold on this model and task"
    )
    return (LawGuard(name="pilot_disagrees", severity="doubt", message=text, subjects=(forecast.hint,)),)
