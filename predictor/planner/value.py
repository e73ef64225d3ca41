"""Value of information: which candidates the plan is unsure about, and whether a pilot pays for itself."""

from __future__ import annotations

from typing import Literal

import numpy as np

from predictor.law import PilotPrior
from predictor.planner.choose import choose, current, probability
from predictor.planner.draws import run_draws
from predictor.planner.pilot import forecast_pilot, preposterior
from predictor.planner.plan import least_probability
from predictor.planner.reasons import amount, forecast_text, screen, signed, worth_text
from predictor.planner.request import PlanRequest
from predictor.planner.situation import Situation, device_seconds
from predictor.records.plan import Candidate, PilotForecast, PlannedRun

NUM_BINS = 7
"""Possible pilot outcomes that are planned for; more change the value by less than a run's least gain."""
NUM_DRAWS = 1024
"""Joint draws of each of those plans: they are many, and compared on the same draws."""


def undecided(request: PlanRequest) -> list[Candidate]:
    """Candidates that may be launched and that the plan is unsure about.

    Unsure: P(improvement ≥ threshold) between `min_probability` and its complement, or, for objective `best`, P(it
    improves more than the favourite) there.
    """
    return _undecided(Situation.of(request))


def pilots(
    request: PlanRequest, prior: PilotPrior, *, rule: Literal["pays", "undecided"] = "pays"
) -> tuple[PlannedRun, ...]:
    """Pilots to launch, the most valuable for their cost first, each forecast before it runs.

    The value of a pilot is E[net worth of the best plan after its outcome, with its cost gone] less that of the best
    plan now: launching the favourite, and whatever else the money buys, is what it is compared with. Rule `pays`
    takes pilots worth at least `min_gain`; `undecided` takes every undecided candidate. Both leave enough for the
    full run of each. A hint config has one pilot, in whatever state, and none after its full run.
    """
    now = Situation.of(request)
    open_ones = [c for c in _undecided(now) if not now.runs_of(c, fidelity="pilot") and not now.outcomes_of(c)]
    small = now.with_draws(min(NUM_DRAWS, request.num_draws))
    values = {c.hint: _pilot_value(small, c, prior) for c in open_ones}
    costs = {c.hint: device_seconds(now.pilot_cost(c)) for c in open_ones}
    chosen: list[PlannedRun] = []
    spent = dearest = 0.0
    for candidate in sorted(open_ones, key=lambda c: (-values[c.hint] / max(costs[c.hint], 1e-300), c.hint)):
        # A pilot without money for the run that it is about teaches nothing that can be used.
        reserved = max(dearest, device_seconds(now.run_cost(candidate)))
        if spent + costs[candidate.hint] + reserved > now.remaining:
            continue
        value = values[candidate.hint]
        if rule == "pays":
            # Earlier pilots took money, and what this one can still change is worth less.
            value = _pilot_value(small, candidate, prior, spent=spent) if spent else value
            if value < request.min_gain:
                continue
        chosen.append(_planned(now, candidate, prior, value))
        spent, dearest = spent + costs[candidate.hint], reserved
    return tuple(chosen)


def pilot_value(request: PlanRequest, candidate: Candidate, prior: PilotPrior) -> float:
    """Expected rise of the best plan's net worth by a pilot of `candidate`, its cost paid; may be negative."""
    return _pilot_value(Situation.of(request), candidate, prior)


def _undecided(now: Situation) -> list[Candidate]:
    least = now.asked.min_probability
    open_ones = [c for c in now.asked.candidates if screen(now, c, least=least) is None]
    unsure = {c.hint for c in open_ones if least < probability(now, c) < 1.0 - least}
    if now.asked.config.objective == "best" and open_ones:
        draws = {c.hint: run_draws(current(now, c), now.asked.seeds[0], now) for c in open_ones}
        favourite = max(draws, key=lambda hint: float(draws[hint].mean()))
        for hint, draws_D in draws.items():
            beats = float(np.mean(draws_D > draws[favourite]))
            unsure |= {hint, favourite} if least < beats < 1.0 - least else set()
    return [candidate for candidate in open_ones if candidate.hint in unsure]


def _pilot_value(now: Situation, candidate: Candidate, prior: PilotPrior, *, spent: float = 0.0) -> float:
    """`pilot_value` after `spent` device-seconds went to other pilots."""
    cost = device_seconds(now.pilot_cost(candidate))
    remaining = now.remaining - spent
    without = _worth(now, remaining)
    if cost > remaining:
        return -without
    possible = preposterior(candidate, prior, eval_stderr=candidate.gap.stderr, num_bins=NUM_BINS)
    after = sum(chance * _worth(now.with_forecast(updated), remaining - cost) for chance, updated in possible)
    return after - without


def _worth(now: Situation, remaining: float) -> float:
    """What the best plan with this money maximises."""
    least = least_probability(now)
    eligible = [c for c in now.asked.candidates if screen(now, c, least=least) is None]
    return choose(now, eligible, remaining=remaining, try_starts=False).net


def _planned(now: Situation, candidate: Candidate, prior: PilotPrior, value: float) -> PlannedRun:
    steps, cost = now.pilot_steps, now.pilot_cost(candidate)
    spec = candidate.spec.model_copy(
        update={
            "fidelity": "pilot",
            "num_steps": steps,
            "seed": (now.free_seeds(candidate) or now.asked.seeds)[0],
        }
    )
    forecast = forecast_pilot(candidate, prior, num_steps=steps, eval_stderr=candidate.gap.stderr)
    return PlannedRun(
        spec=spec,
        cost=cost,
        gain=value,
        reason=_reason(now, candidate, forecast, value),
        forecast=forecast,
    )


def _reason(now: Situation, candidate: Candidate, forecast: PilotForecast, value: float) -> str:
    low, high = forecast.interval80
    return (
        f"undecided: {forecast_text(now, candidate)}; a pilot of {forecast.num_steps} steps costs "
        f"{amount(now.pilot_cost(candidate))}, is forecast at {signed(forecast.mean)} (80 % interval {signed(low)} "
        f"to {signed(high)}) and changes {worth_text(now)} by {signed(value)}, its cost paid"
    )
