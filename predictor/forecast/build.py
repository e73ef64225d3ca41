"""The law applied to measured gaps: one forecast for each hint config."""

from __future__ import annotations

import math
from collections.abc import Sequence

from predictor.law import measured_gap
from predictor.law.guards import SATURATED
from predictor.law.points import extra_values, is_stand_in, refusal
from predictor.records import (
    Estimate,
    FamilyLaw,
    Forecast,
    GapEstimate,
    GapName,
    ImprovementForecast,
    LawFit,
    LawGuard,
    Prediction,
)
from predictor.records.law import GuardName, Severity

# Smallest difference between raw and consensus gap worth a warning, in shares.
_WORTH_SAYING = 0.05
# Distance outside the fitted gaps, in widths of their range, that a line is trusted without a word.
_OUTSIDE = 0.05
# Clipped mass above which the straight line is saying something impossible.
_CLIPPED = 0.1


def forecast(
    fit: LawFit,
    gaps: Sequence[GapEstimate],
    *,
    threshold: float,
    num_eval_units: int | None = None,
    num_steps: int = 0,
) -> tuple[Forecast, ...]:
    """Forecast one new full run for each hint config; controls among `gaps` are passed over.

    `threshold` is the improvement that pays. `num_eval_units` is the number of held-out examples the run will be
    measured on; None takes the probe's. `num_steps` matters only to a law with that term.
    """
    wanted = [gap for gap in gaps if not gap.is_control]
    return tuple(_forecast_one(fit, gap, threshold, num_eval_units, num_steps) for gap in wanted)


def _forecast_one(
    fit: LawFit, gap: GapEstimate, threshold: float, num_eval_units: int | None, num_steps: int
) -> Forecast:
    value, predictor = measured_gap(gap, fit.spec)
    prediction = fit.predict(
        value,
        family=gap.family,
        student=gap.student.value,
        num_eval_units=gap.gap.num_units if num_eval_units is None else num_eval_units,
        extra=extra_values(fit.spec, gap, num_steps),
    )
    law = fit.line(gap.family)
    predictive = prediction.predictive
    return Forecast(
        hint=gap.hint,
        family=gap.family,
        model=gap.model,
        task=gap.task,
        gap=gap.gap,
        student=gap.student,
        predictor=predictor,
        predictor_value=value,
        predictive=predictive,
        improvement=ImprovementForecast.of(predictive),
        shares=prediction.shares,
        threshold=threshold,
        p_pays=predictive.probability_of_at_least(threshold),
        extrapolation=prediction.extrapolation,
        num_own_runs=law.num_runs if law.family == gap.family else 0,
        guards=tuple(_guards(fit, law, gap, prediction)),
    )


def _guards(fit: LawFit, law: FamilyLaw, gap: GapEstimate, prediction: Prediction) -> list[LawGuard]:
    value, predictor = measured_gap(gap, fit.spec)
    found: list[tuple[GuardName, Severity, str]] = []
    if law.num_runs == 0:
        found.append(("prior_only", "note", f"no own run of family {gap.family}: the prior speaks alone"))
    if is_stand_in(gap, predictor, fit.spec):
        why = refusal(gap) if fit.spec.predictor == "consensus_gap" else ""
        text = f"{fit.spec.predictor} was not measured{why and f' ({why})'}; {predictor} stands in, a guess"
        found.append(("fallback_predictor", "doubt", text))
    if prediction.extrapolation > _OUTSIDE:
        low, high = law.gap_range
        text = f"{predictor} {value.value:+.3f} lies outside the fitted range {low:.3f} to {high:.3f}"
        found.append(("extrapolation", "note" if fit.new_family else "doubt", text))
    found += _range_guards(gap, prediction)
    disagreement = _disagreement(gap, predictor)
    return [_guard(*item, gap.hint) for item in found] + ([disagreement] if disagreement else [])


def _range_guards(gap: GapEstimate, prediction: Prediction) -> list[tuple[GuardName, Severity, str]]:
    found: list[tuple[GuardName, Severity, str]] = []
    predictive = prediction.predictive
    if math.isnan(predictive.scale):
        found.append(("no_interval", "doubt", "too few distinct gaps: the line gives no interval"))
    if gap.student.value >= SATURATED:
        found.append(("saturated_student", "doubt", f"the student is right {gap.student.value:.1%} of the time"))
    if predictive.location > predictive.high or predictive.clipped_above > _CLIPPED:
        text = f"the line passes the ceiling: at most {predictive.high:.3f} can be gained"
        found.append(("ceiling", "note", text))
    return found


def _disagreement(gap: GapEstimate, predictor: GapName) -> LawGuard | None:
    """Raw and consensus gap apart by more than noise: part of the raw gap cannot be kept without the hint."""
    consensus = gap.consensus_gap
    if consensus is None:
        return None
    apart = gap.gap.value - consensus.value
    if not abs(apart) > max(_WORTH_SAYING, 2.0 * _joint_stderr(gap.gap, consensus)):
        return None
    why = (
        "part of what the hint adds depends on the example and cannot be kept without it"
        if apart > 0.0
        else "the mean over hints does better than one hint alone"
    )
    text = f"raw gap {gap.gap.value:+.3f}, consensus gap {consensus.value:+.3f}: {why}"
    return _guard("disagreement", "doubt" if predictor == "gap" else "note", text, gap.hint)


def _joint_stderr(first: Estimate, second: Estimate) -> float:
    """Standard error of a difference of two estimates whose covariance is unknown, taken as independent."""
    return math.hypot(first.stderr, second.stderr)


def _guard(name: GuardName, severity: Severity, message: str, hint: str) -> LawGuard:
    return LawGuard(name=name, severity=severity, message=message, subjects=(hint,))
