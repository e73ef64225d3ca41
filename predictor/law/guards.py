"""Guards of a fit: named reasons to trust the line less, read off its points and lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from predictor.law.lines import MIN_GAPS, Lines
from predictor.records import FamilyLaw, LawGuard, LawPoint, LawSpec
from predictor.records.distributions import t_quantile
from predictor.records.law import GuardName, Severity

# Above this student accuracy there is nothing left to gain that an evaluation of a few hundred examples could see.
SATURATED = 0.95
# Below this share of true variance in the measured gaps, noise flattens the slope by more than a fifth.
_RELIABLE = 0.8
_FEW_FAMILIES = 6
_CONSTANT = 1e-9
_FEW_CONFIGS = 6
# The published laws explain 95 % and more; below this, hint configs with equal gaps end far apart.
_WEAK = 0.7


def fit_guards(points: Sequence[LawPoint], lines: Lines, spec: LawSpec) -> list[LawGuard]:
    """Every guard that the points and the fitted lines deserve."""
    guards: list[LawGuard] = []
    for family, reason in lines.skipped.items():
        guards.append(_guard("few_gaps", f"family {family} has no line: {reason}", "doubt", [family]))
    members: dict[str, list[LawPoint]] = {}
    for point in points:
        members.setdefault(point.family, []).append(point)
    for law in lines.families:
        guards += _family_guards(law, members[law.family], spec)
    if not lines.families:
        guards.append(_guard("prior_only", "no own runs: the published prior speaks alone", "note", []))
    if 1 < len(members) < _FEW_FAMILIES:
        text = f"{len(members)} families show little of how families differ"
        guards.append(_guard("few_families", text, "note", list(members)))
    return guards


def _family_guards(law: FamilyLaw, points: Sequence[LawPoint], spec: LawSpec) -> list[LawGuard]:
    guards = []
    has_prior = spec.method == "bayes" and spec.prior != "none"
    severity: Severity = "note" if has_prior else "doubt"
    if law.num_gaps < MIN_GAPS:
        text = f"family {law.family} has {law.num_gaps} distinct gaps; " + (
            "the prior carries the slope" if has_prior else "no interval can be given"
        )
        guards.append(_guard("few_gaps", text, severity, [law.family]))
    if len(points) == 2:
        guards.append(_guard("two_points", f"family {law.family} has two points", severity, [law.family]))
    guards += _size_guards(law)
    improvements = [point.y for point in points]
    if len(points) > 1 and max(improvements) - min(improvements) <= _CONSTANT:
        text = f"every run of family {law.family} improved by {improvements[0]:+.3f}; R2 is undefined"
        guards.append(_guard("constant_improvement", text, "doubt", [law.family]))
    saturated = sorted({point.label for point in points if point.student >= SATURATED})
    if saturated:
        text = f"student accuracy is at least {SATURATED:.0%}: nothing is left to gain"
        guards.append(_guard("saturated_student", text, "doubt", saturated))
    return guards + _noise_guards(law, points)


def _size_guards(law: FamilyLaw) -> list[LawGuard]:
    """What a high or low R2 hides: the width of a new run's interval, and that something beside the gap decides."""
    guards = []
    half = float(t_quantile(law.df, 0.975)) * math.sqrt(law.residual_var * (1.0 + 1.0 / law.num_configs) + law.seed_var)
    if MIN_GAPS <= law.num_configs < _FEW_CONFIGS and math.isfinite(half):
        text = f"{law.num_configs} hint configs leave a 95 % interval of ± {half:.3f} for a new run at the mean gap"
        guards.append(_guard("few_configs", text, "note", [law.family]))
    if law.num_configs > MIN_GAPS and law.r2 < _WEAK:
        text = f"the gap explains {max(law.r2, 0.0):.0%} of how hint configs of family {law.family} differ"
        guards.append(_guard("weak_fit", text, "note", [law.family]))
    return guards


def _noise_guards(law: FamilyLaw, points: Sequence[LawPoint]) -> list[LawGuard]:
    """Attenuation (noisy gaps) and manufactured slope (a baseline measured anew for each hint config)."""
    if law.num_gaps < MIN_GAPS:
        return []
    guards = []
    spread = float(np.var([point.x for point in points], ddof=1))
    noise = max(float(np.mean([point.x_stderr**2 for point in points])) - law.shared_var, 0.0)
    if noise > (1.0 - _RELIABLE) * spread:
        text = (
            f"probe noise is {noise / spread:.0%} of the variance of the gaps of family {law.family}: the slope is "
            "flattened by about that share; forecasts at equally noisy gaps are not biased by it"
        )
        guards.append(_guard("noisy_gaps", text, "note", [law.family]))
    baselines = {point.baseline_id for point in points if point.baseline_id}
    if len(baselines) > len({(point.model, point.task) for point in points}):
        text = (
            f"the student of family {law.family} was measured {len(baselines)} times: its noise enters gap and "
            "improvement together and adds slope; method `york` takes that covariance into account"
        )
        guards.append(_guard("remeasured_baseline", text, "doubt", [law.family]))
    return guards


def _guard(name: GuardName, message: str, severity: Severity, subjects: Sequence[str]) -> LawGuard:
    return LawGuard(name=name, message=message, severity=severity, subjects=tuple(subjects))
