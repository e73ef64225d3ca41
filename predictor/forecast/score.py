"""Frozen forecasts beside what happened; a forecast younger than its run, or altered, is never scored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from predictor.law import covers, errors_of
from predictor.records import (
    Forecast,
    ForecastScore,
    FrozenForecast,
    Predictive,
    RefusedScore,
    RunRecord,
    ScoredForecast,
)

_Found = tuple[FrozenForecast, Forecast]


def score(frozen: Sequence[FrozenForecast], runs: Sequence[RunRecord]) -> ForecastScore:
    """Score each finished run against the latest intact forecast frozen before it started; list the others.

    Runs that did not finish are listed as refused too, so that failures cannot vanish from a validation.
    """
    return score_studies([(frozen, runs)])


def score_studies(studies: Sequence[tuple[Sequence[FrozenForecast], Sequence[RunRecord]]]) -> ForecastScore:
    """The same for several studies together; a run is only ever scored against forecasts of its own study."""
    scored: list[ScoredForecast] = []
    refused: list[RefusedScore] = []
    pairs: list[tuple[Predictive, float]] = []
    for frozen, run in ((frozen, run) for frozen, runs in studies for run in runs):
        found, reason = _forecast_for(frozen, run)
        if found is None or run.improvement is None:
            refused.append(RefusedScore(key=run.spec.key, hint=run.spec.hint, reason=reason))
            continue
        pairs.append((found[1].predictive, run.improvement.value))
        scored.append(_scored(found, run.spec.key, run.improvement.value))
    folds = len({(row.frozen_hash, row.hint) for row in scored})
    return ForecastScore(
        scored=tuple(scored), refused=tuple(refused), errors=errors_of(pairs, folds) if pairs else None
    )


def _forecast_for(frozen: Sequence[FrozenForecast], run: RunRecord) -> tuple[_Found | None, str]:
    """The forecast a run may be scored against, or why there is none."""
    if run.state != "finished" or run.improvement is None:
        return None, f"the run is {run.state}" if run.state != "finished" else "its improvement is missing"
    if not run.started_at:
        return None, "the record does not say when training began"
    candidates = [(entry, item) for entry in frozen for item in entry.forecasts if _is_about(item, run)]
    if not candidates:
        return None, "it was never forecast"
    intact = [found for found in candidates if found[0].is_intact]
    if not intact:
        return None, "its forecast was changed after the freeze: the hash does not match"
    started = datetime.fromisoformat(run.started_at)
    older = [found for found in intact if datetime.fromisoformat(found[0].frozen_at) < started]
    if not older:
        return None, f"its forecast is younger than the run, which started {run.started_at}"
    return max(older, key=lambda found: datetime.fromisoformat(found[0].frozen_at)), ""


def _is_about(forecast: Forecast, run: RunRecord) -> bool:
    spec = run.spec
    return (forecast.hint, forecast.model, forecast.task, forecast.fidelity) == (
        spec.hint,
        spec.model,
        spec.task,
        spec.fidelity,
    )


def _scored(found: _Found, key: str, outcome: float) -> ScoredForecast:
    frozen, forecast = found
    predictive = forecast.predictive
    return ScoredForecast(
        key=key,
        hint=forecast.hint,
        forecast=predictive.mean,
        outcome=outcome,
        error=outcome - predictive.mean,
        interval80=predictive.interval(0.80),
        inside80=covers(predictive, outcome, 0.80),
        crps=predictive.crps(outcome),
        frozen_at=frozen.frozen_at,
        frozen_hash=frozen.frozen_hash,
        num_own_runs=forecast.num_own_runs,
    )
