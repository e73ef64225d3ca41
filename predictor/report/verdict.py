"""The study in one sentence: the surest thing that can be said at its present stage."""

from __future__ import annotations

import math
from collections.abc import Sequence

from predictor.records import Estimate, GapEstimate, RunRecord
from predictor.report.evidence import Evidence
from predictor.report.wording import count, listing, percent, signed, span


def verdict(evidence: Evidence) -> str:
    """One sentence: outcome beside forecast, else the plan, else the best forecast, else the gaps, else nothing."""
    if evidence.finished:
        return _trained(evidence)
    if evidence.plan is not None:
        return _planned(evidence)
    if evidence.shown_forecasts():
        return _forecast(evidence)
    return _probed(evidence) if evidence.gaps else "Nothing has been measured in this study yet."


def _trained(evidence: Evidence) -> str:
    groups: dict[str, list[RunRecord]] = {}
    for run in evidence.finished:
        groups.setdefault(run.spec.hint, []).append(run)
    # The best by its mean over seeds: a lucky seed is no result.
    best = max(groups, key=lambda hint: mean_improvement(groups[hint]))
    num_hints = len({gap.hint for gap in evidence.hints if gap.kind != "none"} | set(groups))
    # Of the cap on everything that is charged, probing included.
    share = evidence.charged / evidence.config.plan.budget.total_seconds
    were = "was" if len(groups) == 1 else "were"
    return (
        f"Training `{best}` changed held-out accuracy by {_outcome(groups[best])}, "
        f"{_said_before(evidence, groups[best])}; {len(groups)} of {count(num_hints, 'hint config')} {were} trained, "
        f"and {percent(share)} of the budget is spent."
    )


def mean_improvement(runs: Sequence[RunRecord]) -> float:
    """Mean measured improvement over runs that have one; NaN without any."""
    values = [run.improvement.value for run in runs if run.improvement is not None]
    return math.fsum(values) / len(values) if values else math.nan


def _outcome(runs: Sequence[RunRecord]) -> str:
    values = [run.improvement.value for run in runs if run.improvement is not None]
    if len(values) > 1:
        return (
            f"{signed(mean_improvement(runs))} on average over {len(values)} seeds ({span((min(values), max(values)))})"
        )
    interval = runs[0].improvement.interval() if runs[0].improvement is not None else (math.nan, math.nan)
    return f"{signed(values[0])} (95 % interval {span(interval)})"


def _said_before(evidence: Evidence, runs: Sequence[RunRecord]) -> str:
    scored = [row for row in map(evidence.scored, runs) if row is not None]
    if not scored:
        return "which no forecast frozen before training said"
    first, inside = scored[0], sum(row.inside80 for row in scored)
    where = f"{inside} of {len(scored)} times inside" if len(scored) > 1 else ("inside" if inside else "outside")
    said = f"{signed(first.forecast)} ({span(first.interval80)})"
    return f"{where} the 80 % interval of the forecast frozen before it, {said}"


def _planned(evidence: Evidence) -> str:
    plan = evidence.plan
    if plan is None or not plan.chosen:
        reason = plan.reason if plan is not None else "there is no plan"
        return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
    first = plan.chosen[0]
    row = next((row for row in plan.rows if row.hint == first.hint), None)
    said = "" if row is None else f", forecast {signed(row.mean)} (80 % interval {span(row.interval80)})"
    # Several seeds of one hint config are one decision.
    hints = list(dict.fromkeys(run.hint for run in plan.chosen))
    refused = len({item.hint for item in plan.rejected} - set(hints))
    return (
        f"No full run is finished yet; launch `{first.hint}` first{said}, "
        f"of {count(len(hints), 'hint config')} chosen ({listing(hints)}) and {refused} refused."
    )


def _forecast(evidence: Evidence) -> str:
    shown = [item for _, item in evidence.shown_forecasts()]
    best = max(shown, key=lambda item: item.improvement.value)
    return (
        f"Nothing is planned yet; the best forecast of {len(shown)} is `{best.hint}`, {signed(best.improvement.value)} "
        f"(80 % interval {span(best.improvement.interval80)})."
    )


def _probed(evidence: Evidence) -> str:
    # What can be kept is preferred to what can be shown.
    hints = [gap for gap in evidence.hints if gap.kind != "none"]
    known = [gap for gap in hints if gap.consensus_gap is not None]
    name = "consensus gap" if known else "gap"
    best = max(known or hints, key=lambda gap: _measured(gap).value, default=None)
    if best is None:
        return "Only controls are measured so far."
    value = _measured(best)
    return (
        f"{count(len(hints), 'hint config')} measured, nothing forecast yet; the largest {name} is "
        f"`{best.hint}`, {signed(value.value)} (95 % interval {span(value.interval())})."
    )


def _measured(gap: GapEstimate) -> Estimate:
    return gap.consensus_gap or gap.gap
