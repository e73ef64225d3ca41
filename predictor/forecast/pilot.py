"""What a pilot adds: a second, surer predictor of its full run, by `pilot_law` and the prior of `predictor.law`."""

from __future__ import annotations

import math

from predictor.errors import LawError
from predictor.forecast.pilot_law import FullForecast, PilotLaw
from predictor.law import PilotPrior, covers
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
from predictor.records.distributions import t_quantile


def forecast_of_pilot(forecast: Forecast, prior: PilotPrior) -> Forecast:
    """The forecast of the pilot itself, measured as exactly as the full run; freeze it before the pilot starts.

    Its median, and the t scale of its 80 % interval; no interval where the law gives none.
    """
    full = forecast.predictive
    if math.isnan(full.scale):
        update = {"location": prior.rho * full.location}
    else:
        law = _law(forecast, prior, math.sqrt(_evaluation_var(forecast)))
        low, high = law.quantile(0.1), law.quantile(0.9)
        update = {"location": law.quantile(0.5), "scale": (high - low) / (2.0 * float(t_quantile(full.df, 0.9)))}
    predictive = full.model_copy(update=update)
    return forecast.model_copy(update={"fidelity": "pilot"} | _outcome(predictive, forecast.threshold))


def with_pilot(forecast: Forecast, pilot: RunRecord, prior: PilotPrior) -> Forecast:
    """The full run's forecast after its pilot; raises LawError for a pilot without outcome or of another hint config.

    Final evaluation noise is not what the pilot is about: it is set aside and added again. A law without an interval
    leaves the word to the pilot, all possible improvements being equally likely before it.
    """
    outcome = _pilot_outcome(forecast, pilot)
    before, has_law = forecast.predictive, not math.isnan(forecast.predictive.scale)
    law = _law(forecast, prior, outcome.stderr)
    like_G = law.likelihood(outcome.value)
    mean, scale = law.posterior(like_G)
    evaluation = _evaluation_var(forecast) if has_law else outcome.stderr**2
    weight = law.explained(like_G) if has_law else 1.0
    update = {
        "location": mean,
        "scale": math.hypot(scale, math.sqrt(evaluation)),
        "df": law.full.df,
        "noise": before.noise if has_law else prior.deviation,
    }
    predictive = before.model_copy(update=update)
    guards = forecast.guards + _surprise(forecast, prior, outcome)
    return forecast.model_copy(
        update={
            "pilot": _evidence(pilot, outcome, prior, weight),
            "shares": _shares(evaluation / predictive.scale**2, weight, forecast.shares),
            "guards": guards,
            **_outcome(predictive, forecast.threshold),
        }
    )


def _law(forecast: Forecast, prior: PilotPrior, eval_stderr: float) -> PilotLaw:
    full = forecast.predictive
    has_law = not math.isnan(full.scale)
    scale = math.sqrt(full.scale**2 - _evaluation_var(forecast)) if has_law else math.nan
    df = full.df if has_law else prior.df
    return PilotLaw(FullForecast(full.location, scale, df, full.low, full.high), prior, eval_stderr)


def _evaluation_var(forecast: Forecast) -> float:
    return forecast.shares.evaluation * forecast.predictive.scale**2


def _pilot_outcome(forecast: Forecast, pilot: RunRecord) -> Estimate:
    same = (pilot.spec.hint, pilot.spec.model, pilot.spec.task) == (
        forecast.hint,
        forecast.model,
        forecast.task,
    )
    outcome = pilot.measured_improvement
    if not same or outcome is None or math.isnan(outcome.stderr):
        raise LawError(
            "this pilot says nothing about this forecast",
            where=f"forecast of {forecast.hint}",
            found=f"pilot of {pilot.spec.hint}, {pilot.state}",
            expected="a finished, recorded pilot of the same hint config, model and task",
        )
    return outcome


def _evidence(pilot: RunRecord, outcome: Estimate, prior: PilotPrior, weight: float) -> PilotEvidence:
    return PilotEvidence(
        key=pilot.spec.key,
        num_steps=pilot.spec.num_steps,
        improvement=outcome,
        ratio=1.0 / prior.rho,
        ratio_stderr=prior.rho_sd / prior.rho**2,
        num_pairs=prior.num_pairs,
        weight=weight,
    )


def _outcome(predictive: Predictive, threshold: float) -> dict[str, object]:
    return {
        "predictive": predictive,
        "improvement": ImprovementForecast.of(predictive),
        "p_pays": predictive.probability_of_at_least(threshold),
    }


def _shares(evaluation: float, weight: float, before: VarianceShares) -> VarianceShares:
    """The law's and the probe's parts shrink by what the pilot explained; the pilot's own noise is between runs."""
    known = 1.0 - before.evaluation
    kept = (1.0 - evaluation) * (1.0 - weight) / known if known > 0.0 and weight < 1.0 else 0.0
    if kept == 0.0:
        return VarianceShares(law=0.0, probe=0.0, evaluation=evaluation, between_runs=1.0 - evaluation)
    law, probe = kept * before.law, kept * before.probe
    return VarianceShares(law=law, probe=probe, evaluation=evaluation, between_runs=1.0 - evaluation - law - probe)


def _surprise(forecast: Forecast, prior: PilotPrior, outcome: Estimate) -> tuple[LawGuard, ...]:
    expected = forecast_of_pilot(forecast, prior)
    if math.isnan(forecast.predictive.scale) or covers(expected.predictive, outcome.value, 0.95):
        return ()
    text = (
        f"the pilot gained {outcome.value:+.3f} where the law expected {expected.improvement.value:+.3f}; "
        "the law may not hold on this model and task"
    )
    return (LawGuard(name="pilot_disagrees", severity="doubt", message=text, subjects=(forecast.hint,)),)
