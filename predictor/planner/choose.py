"""From eligible candidates to the runs that an objective chooses under a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.planner.draws import Floats, conditioned, run_draws, standing_draws
from predictor.planner.situation import Situation, device_seconds, standing
from predictor.planner.solve import Problem, Solution, further_gains, solve
from predictor.records.plan import Candidate

ROUNDING = 1e-9
"""Share of the budget that is left alone, so that no rounding of a sum can exceed the cap."""


@dataclass(frozen=True, kw_only=True)
class Pick:
    """One chosen run and the rise of the objective it is expected to bring after the picks before it."""

    candidate: Candidate
    seed: int
    gain: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Picks in launch order, what the objective is then worth, and what one more run of each hint would add."""

    picks: tuple[Pick, ...]
    worth: float
    """The objective's expected value, runs that are there already included."""
    net: float
    """What was maximised: worth less `min_gain` for each pick; for `threshold` Σ (P - p) over hint configs."""
    left: float
    """Device-seconds not planned."""
    more: Mapping[str, float]
    """Rise of the objective by one more run of each hint config."""


def choose(now: Situation, eligible: Sequence[Candidate], *, remaining: float, try_starts: bool = True) -> Choice:
    """Runs for the request's objective whose planned costs sum to at most `remaining` device-seconds.

    - `best`: greedy by rise of E[max(0, all runs)] per cost; a further seed competes with a first seed of another
      hint config by the same rule, so it is launched only where the spread of seeds promises more.
    - `sum`: the same with Σ over hint configs of E[max(0, its runs)].
    - `threshold`: P(improvement ≥ threshold) per cost, first seeds of all before second seeds of any; worth is the
      expected number of hint configs that pay.
    """
    budget = remaining * (1.0 - ROUNDING)
    labels = [(candidate, seed) for candidate in eligible for seed in now.free_seeds(candidate)]
    costs_N = np.array([device_seconds(now.run_cost(candidate)) for candidate, _ in labels])
    if now.asked.config.objective == "threshold":
        return _by_probability(now, labels, costs_N, budget)
    problem = _problem(now, labels, costs_N, budget)
    solution = solve(problem, try_starts=try_starts)
    more: dict[str, float] = {}
    for (candidate, _), gain in zip(labels, further_gains(problem, solution), strict=True):
        more[candidate.hint] = max(float(gain), more.get(candidate.hint, 0.0))
    return Choice(
        picks=_picks(now, solution, labels), worth=solution.worth, net=solution.net, left=solution.left, more=more
    )


def current(now: Situation, candidate: Candidate) -> Candidate:
    """The candidate's forecast given the outcomes of its own finished runs."""
    return conditioned(candidate, now.outcomes_of(candidate))


def probability(now: Situation, candidate: Candidate) -> float:
    """P(one more run improves by the threshold or more), given the candidate's own finished runs."""
    return current(now, candidate).probability_above(now.asked.config.threshold)


def started(now: Situation, candidate: Candidate) -> int:
    """Full runs of a candidate that are finished or running."""
    return sum(standing(run) in ("finished", "running") for run in now.runs_of(candidate))


def _problem(now: Situation, labels: Sequence[tuple[Candidate, int]], costs_N: Floats, budget: float) -> Problem:
    existing = standing_draws(now)
    hints = list(dict.fromkeys([candidate.hint for candidate, _ in labels] + [hint for hint, _ in existing]))
    pooled = now.asked.config.objective == "best"
    base_GD = np.zeros((1 if pooled else len(hints), now.asked.num_draws))
    for hint, draws_D in existing:
        group = 0 if pooled else hints.index(hint)
        base_GD[group] = np.maximum(base_GD[group], draws_D)
    forecasts = {candidate.hint: current(now, candidate) for candidate, _ in labels}
    hints_N = np.array([hints.index(candidate.hint) for candidate, _ in labels], dtype=np.int64)
    values_ND = np.empty((len(labels), now.asked.num_draws))
    for run, (candidate, seed) in enumerate(labels):
        values_ND[run] = run_draws(forecasts[candidate.hint], seed, now)
    return Problem(
        values_ND=values_ND,
        hints_N=hints_N,
        # One group pools all runs for the best; a group for each hint config counts each of them once.
        groups_N=np.zeros_like(hints_N) if pooled else hints_N,
        base_GD=base_GD,
        costs_N=costs_N,
        budget=budget,
        max_runs=now.runs_left,
        min_gain=now.asked.min_gain,
    )


def _picks(now: Situation, solution: Solution, labels: Sequence[tuple[Candidate, int]]) -> tuple[Pick, ...]:
    """The solver's runs with their hint config's free seeds in the order given: seeds are exchangeable."""
    seeds = {candidate.hint: iter(now.free_seeds(candidate)) for candidate, _ in labels}
    chosen = [labels[run][0] for run in solution.order]
    return tuple(
        Pick(candidate=candidate, seed=next(seeds[candidate.hint]), gain=gain)
        for candidate, gain in zip(chosen, solution.gains, strict=True)
    )


def _by_probability(now: Situation, labels: Sequence[tuple[Candidate, int]], costs_N: Floats, budget: float) -> Choice:
    """One pass over all runs, by seed and then by probability per cost, taking each that still fits."""
    chance = {candidate.hint: probability(now, candidate) for candidate, _ in labels}
    # Second seeds wait until every hint config has its first: a config pays once, however many seeds it has.
    already = {candidate.hint: started(now, candidate) for candidate in now.asked.candidates}
    worth = sum(probability(now, c) for c in now.asked.candidates if already[c.hint])
    ranked: list[tuple[int, float, int]] = []
    for run, (candidate, seed) in enumerate(labels):
        turn = already[candidate.hint] + now.free_seeds(candidate).index(seed)
        ranked.append((turn, -chance[candidate.hint] / max(float(costs_N[run]), 1e-300), run))
    picks: list[Pick] = []
    for turn, _, run in sorted(ranked):
        candidate, seed = labels[run]
        if len(picks) < now.runs_left and costs_N[run] <= budget:
            gain = chance[candidate.hint] if turn == 0 else 0.0
            picks.append(Pick(candidate=candidate, seed=seed, gain=gain))
            budget -= float(costs_N[run])
            worth += gain
    net = sum(pick.gain - now.asked.config.probability for pick in picks if pick.gain > 0.0)
    return Choice(picks=tuple(picks), worth=worth, net=net, left=budget, more=chance)
