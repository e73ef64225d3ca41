"""The plan itself: screen, choose under the cap, and give every candidate its reason."""

from __future__ import annotations

import math
from collections import Counter

from predictor.planner.choose import Choice, Pick, choose, current
from predictor.planner.reasons import not_chosen, pick_reason, screen, seconds_text, worth_text
from predictor.planner.request import PlanRequest
from predictor.planner.situation import Situation, standing
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate, Plan, PlannedRun, PlanRow, PlanVerdict, Rejection


def make_plan(request: PlanRequest) -> Plan:
    """What to launch now, best gain per cost first, and why nothing else.

    Running, finished and failed runs are not proposed again; no plan costs more than what is left of the budget
    after all charges and after what running runs may still take.
    """
    now = Situation.of(request)
    least = least_probability(now)
    screened = {candidate.hint: screen(now, candidate, least=least) for candidate in now.asked.candidates}
    eligible = [candidate for candidate in now.asked.candidates if screened[candidate.hint] is None]
    choice = choose(now, eligible, remaining=now.remaining)
    picked = {pick.candidate.hint for pick in choice.picks}
    rejected = tuple(
        screened[candidate.hint] or not_chosen(now, candidate, choice)
        for candidate in now.asked.candidates
        if candidate.hint not in picked
    )
    # A finished study has nothing to launch either, but that is no failure to plan.
    nothing = not choice.picks and not _something_ran(now)
    return Plan(
        status="infeasible" if nothing else "ok",
        reason=_summary(now, choice, rejected, infeasible=nothing),
        objective=now.asked.config.objective,
        expected=choice.worth,
        budget=now.asked.budget,
        num_devices=now.asked.costs.num_devices,
        chosen=tuple(_planned(now, pick) for pick in choice.picks),
        rejected=rejected,
        rows=_rows(now, rejected),
    )


def least_probability(now: Situation) -> float:
    """P(improvement ≥ threshold) that a candidate needs: what objective `threshold` asks for, else a low floor."""
    threshold = now.asked.config.objective == "threshold"
    return now.asked.config.probability if threshold else now.asked.min_probability


def _something_ran(now: Situation) -> bool:
    return any(
        standing(run) in ("finished", "running") for candidate in now.asked.candidates for run in now.runs_of(candidate)
    )


def _planned(now: Situation, pick: Pick) -> PlannedRun:
    return PlannedRun(
        spec=pick.candidate.spec.model_copy(update={"seed": pick.seed}),
        cost=now.run_cost(pick.candidate),
        gain=pick.gain,
        reason=pick_reason(now, pick),
    )


def _summary(now: Situation, choice: Choice, rejected: tuple[Rejection, ...], *, infeasible: bool) -> str:
    why = ", ".join(f"{count} {code}" for code, count in Counter(item.code for item in rejected).items())
    left = f"{seconds_text(now.remaining)} of {seconds_text(now.asked.budget.device_seconds)} device time is free"
    if infeasible:
        return f"nothing can be launched ({why or 'there are no candidates'}); {left}"
    if not choice.picks:
        return f"nothing is left to launch ({why}); {left}"
    runs = "1 run is" if len(choice.picks) == 1 else f"{len(choice.picks)} runs are"
    return f"{runs} chosen, {worth_text(now)} is then {choice.worth:.3f}; {left}"


def _rows(now: Situation, rejected: tuple[Rejection, ...]) -> tuple[PlanRow, ...]:
    codes = {item.hint: item.code for item in rejected}
    return tuple(_row(now, candidate, codes.get(candidate.hint, "chosen")) for candidate in now.asked.candidates)


def _row(now: Situation, candidate: Candidate, verdict: PlanVerdict) -> PlanRow:
    return PlanRow(
        hint=candidate.hint,
        verdict=verdict,
        gap=candidate.gap.value,
        consensus_gap=candidate.consensus_gap.value if candidate.consensus_gap else math.nan,
        mean=candidate.mean,
        interval80=candidate.interval(0.80),
        p_pays=current(now, candidate).probability_above(now.asked.config.threshold),
        cost_gpu_hours=now.run_cost(candidate).gpu_hours,
        outcome=_mean(now.outcomes_of(candidate)),
    )


def _mean(outcomes: list[Estimate]) -> Estimate | None:
    """Mean over seeds; its error is that of measuring each on the same kind of examples."""
    if not outcomes:
        return None
    return Estimate(
        value=math.fsum(o.value for o in outcomes) / len(outcomes),
        stderr=math.sqrt(math.fsum(o.stderr**2 for o in outcomes)) / len(outcomes),
        num_units=min(o.num_units for o in outcomes),
        kind="difference",
    )
