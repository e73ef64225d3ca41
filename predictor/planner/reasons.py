"""Plain sentences, with their numbers, for what a plan does and does not."""

from __future__ import annotations

import math

from predictor.planner.choose import Choice, Pick, current, probability
from predictor.planner.situation import Situation, device_seconds, standing
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate, Rejection, RejectionCode
from predictor.records.runs import Cost


def screen(now: Situation, candidate: Candidate, *, least: float) -> Rejection | None:
    """Why a candidate is out before any budget is looked at; None when it may be launched.

    `least` is the probability of paying that it must reach.
    """
    found = (
        _control_or_numberless(candidate)
        or _has_failed(now, candidate)
        or _has_no_seed_left(now, candidate)
        or _consensus_forbids(now, candidate)
    )
    if found is not None:
        return Rejection(hint=candidate.hint, code=found[0], reason=found[1])
    chance = probability(now, candidate)
    if chance >= least:
        return None
    return Rejection(
        hint=candidate.hint,
        code="below_threshold",
        reason=f"forecast below the threshold: {forecast_text(now, candidate)} is under the {least:.2f} asked for",
    )


def not_chosen(now: Situation, candidate: Candidate, choice: Choice) -> Rejection:
    """Why an eligible candidate has no run in the choice: too dear, adds too little, or no run is left."""
    more = choice.more.get(candidate.hint, 0.0)
    cost = now.run_cost(candidate)
    ran = f"{history_text(now, candidate)}; " if now.runs_of(candidate) else ""
    if now.asked.config.objective != "threshold" and more <= now.asked.min_gain:
        code: RejectionCode = "already_ran" if now.outcomes_of(candidate) else "dominated"
        text = (
            f"{ran}dominated: {forecast_text(now, candidate)}, but beside the other runs one more adds only "
            f"{signed(more)} to {worth_text(now)}, less than the {now.asked.min_gain:.3f} that is worth a run"
        )
    elif len(choice.picks) >= now.runs_left:
        code, text = "max_runs", f"{ran}{len(choice.picks)} runs are chosen and `max_runs` allows no more"
    else:
        code = "over_budget"
        text = (
            f"{ran}over budget: a run costs {amount(cost)} and {seconds_text(choice.left)} device time is left after "
            f"the chosen runs; {forecast_text(now, candidate)}"
        )
    return Rejection(hint=candidate.hint, code=code, reason=text)


def pick_reason(now: Situation, pick: Pick) -> str:
    """What a chosen run is expected to bring, for what cost, and what to doubt about it."""
    cost = now.run_cost(pick.candidate)
    parts = [f"{forecast_text(now, pick.candidate)} for {amount(cost)}"]
    if now.asked.config.objective == "threshold":
        parts.append(f"at least {now.asked.config.probability:.2f} was asked for")
    else:
        parts.append(f"raises {worth_text(now)} by {signed(pick.gain)}")
    if pick.candidate.consensus_gap is None:
        parts.append("its consensus gap was not measured, which the request allows")
    return "; ".join([*parts, *(f"doubt: {note}" for note in pick.candidate.notes)])


def worth_text(now: Situation) -> str:
    """Name of what the objective counts."""
    names = {
        "best": "the expected best",
        "sum": "the expected sum",
        "threshold": "the expected number that pay",
    }
    return names[now.asked.config.objective]


def forecast_text(now: Situation, candidate: Candidate) -> str:
    """Forecast with its 80 % interval and the probability that it pays."""
    told = current(now, candidate)
    low, high = told.interval(0.80)
    threshold = now.asked.config.threshold
    chance = told.probability_above(threshold)
    return (
        f"forecast {signed(told.mean)} (80 % interval {signed(low)} to {signed(high)}, "
        f"P(improvement ≥ {threshold:.3f}) = {chance:.2f})"
    )


def history_text(now: Situation, candidate: Candidate) -> str:
    """The candidate's full runs, each with its seed, state and outcome."""
    told = []
    for run in now.runs_of(candidate):
        outcome = f" with {signed(run.improvement.value)}" if run.improvement is not None else ""
        told.append(f"seed {run.spec.seed} {run.state}{outcome}" + (f" ({run.reason})" if run.reason else ""))
    return ", ".join(told)


def signed(value: float) -> str:
    """An accuracy difference with its sign and three decimals."""
    return f"{value:+.3f}"


def with_interval(estimate: Estimate, level: float = 0.95) -> str:
    """A difference with its interval, or the remark that it has none."""
    low, high = estimate.interval(level)
    if math.isnan(low):
        return f"{signed(estimate.value)} (no interval)"
    return f"{signed(estimate.value)} ({100 * level:.0f} % interval {signed(low)} to {signed(high)})"


def amount(cost: Cost) -> str:
    """Device time of a cost, in the unit that reads best."""
    return seconds_text(device_seconds(cost))


def seconds_text(seconds: float) -> str:
    """Device-seconds up to two minutes, device-minutes up to two hours, then GPU-hours."""
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.2f} GPU-hours"


def _control_or_numberless(candidate: Candidate) -> tuple[RejectionCode, str] | None:
    if candidate.is_control:
        return "control", f"a control is measured, never trained; its gap is {with_interval(candidate.gap)}"
    if math.isfinite(candidate.mean) and math.isfinite(candidate.stderr):
        return None
    return "no_stderr", f"the forecast {signed(candidate.mean)} has no standard error, so its odds are unknown"


def _has_failed(now: Situation, candidate: Candidate) -> tuple[RejectionCode, str] | None:
    # One crash mostly means that every seed crashes; a finished seed shows that it need not.
    failed = [run for run in now.runs_of(candidate) if standing(run) == "failed"]
    if not failed or now.outcomes_of(candidate):
        return None
    return (
        "failed_before",
        f"failed before: {history_text(now, candidate)}; it is not launched again by itself",
    )


def _has_no_seed_left(now: Situation, candidate: Candidate) -> tuple[RejectionCode, str] | None:
    if now.free_seeds(candidate):
        return None
    running = any(standing(run) == "running" for run in now.runs_of(candidate))
    return ("running" if running else "already_ran"), f"every seed has its run: {history_text(now, candidate)}"


def _consensus_forbids(now: Situation, candidate: Candidate) -> tuple[RejectionCode, str] | None:
    """The rule of design, section 8: what a hint-free student cannot keep is not trained, whatever the raw gap."""
    threshold, consensus = now.asked.config.threshold, candidate.consensus_gap
    if consensus is None or math.isnan(consensus.value):
        if now.asked.allow_unmeasured:
            return None
        refused = candidate.consensus_refused and f" ({candidate.consensus_refused})"
        return "consensus_unmeasured", (
            f"the consensus gap was not measured{refused}, so nobody knows what a hint-free student could keep of the "
            f"raw gap {with_interval(candidate.gap)}; probe it, or allow unmeasured consensus gaps"
        )
    if consensus.value > threshold:
        return None
    return "consensus_gap", (
        f"the consensus gap {with_interval(consensus)} is not above the threshold {threshold:.3f}: a student without "
        f"hints cannot keep the raw gap {with_interval(candidate.gap)}"
    )
