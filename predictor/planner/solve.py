"""Choosing runs under a hard cap, for objectives that are sums over groups of an expected maximum."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from predictor.planner.draws import Floats

PAIRED_HINTS = 16
"""Hint configs up to which pairs are tried: 136 ways to begin, well under a second."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """N runs in G groups over D draws: choose runs whose costs fit the budget.

    The worth of a choice is Σ over groups of the mean over draws of max(base, values of the group's chosen runs).
    One group is the expected best; a group for each hint config is the expected sum.
    """

    values_ND: Floats
    hints_N: NDArray[np.int64]
    """Hint config of each run; runs of one differ in the seed only."""
    groups_N: NDArray[np.int64]
    base_GD: Floats
    costs_N: Floats
    budget: float
    max_runs: int
    min_gain: float = 0.0
    """What a run must raise the worth by: subtracted from its gain."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Chosen runs in launch order (best gain per cost first), the rise each brought, and the worth of all."""

    order: tuple[int, ...]
    gains: tuple[float, ...]
    worth: float
    net: float
    """Worth less `min_gain` for each run: what is maximised."""
    left: float
    """Budget that is not planned."""
    state_GD: Floats
    """Best value of each group so far."""


def solve(problem: Problem, *, try_starts: bool) -> Solution:
    """Greedy by net gain per cost; with `try_starts` the best such choice over all ways to begin.

    The ways to begin are every single run, and every pair where there are few hint configs: partial enumeration
    (Sviridenko 2004), which mends the case where a cheap run of little worth takes the place of a dear good one.
    The net worth never falls when the budget grows: where two budgets first differ, the larger one takes a run with
    the best gain per cost, which the smaller one could not pay for, so the whole rest of the smaller one is worth
    less than that run.
    """
    best = _greedy(problem)
    for start in _starts(problem) if try_starts else []:
        rival = _greedy(problem, start)
        best = rival if rival.net > best.net + 1e-12 else best
    return _in_launch_order(problem, best)


def further_gains(problem: Problem, solution: Solution) -> Floats:
    """Rise of the worth that each run outside the choice would bring on top of it; 0 for chosen runs."""
    which_N = np.ones(len(problem.costs_N), dtype=bool)
    which_N[list(solution.order)] = False
    return _gains(problem, solution.state_GD, which_N)


def _starts(problem: Problem) -> list[tuple[int, ...]]:
    """First runs that are worth one, one of each hint config; then pairs of them, if their number is small."""
    every_N = np.ones(len(problem.costs_N), dtype=bool)
    good = _gains(problem, problem.base_GD, every_N) > problem.min_gain
    hints, firsts = np.unique(problem.hints_N[good], return_index=True)
    runs = [int(run) for run in np.flatnonzero(good)[np.sort(firsts)]]
    pairs = itertools.combinations(runs, 2) if len(hints) <= PAIRED_HINTS else ()
    return [*((run,) for run in runs), *pairs]


def _greedy(problem: Problem, start: tuple[int, ...] = ()) -> Solution:
    """Greedy after `start`; a start that does not fit or is not worth it ends the choice where it is."""
    state_GD = problem.base_GD.copy()
    open_N = np.ones(len(problem.costs_N), dtype=bool)
    order: list[int] = []
    gains: list[float] = []
    left = problem.budget
    gains_N = _gains(problem, state_GD, open_N)
    while len(order) < min(problem.max_runs, len(open_N)):
        # Gains never grow as runs are added, so a run that is not worth it now never will be.
        open_N &= gains_N > problem.min_gain
        fits_N = open_N & (problem.costs_N <= left)
        density_N = (gains_N - problem.min_gain) / np.maximum(problem.costs_N, 1e-300)
        forced = len(order) < len(start)
        run = start[len(order)] if forced else int(np.argmax(np.where(fits_N, density_N, -np.inf)))
        if not fits_N[run]:
            break
        order.append(run)
        gains.append(float(gains_N[run]))
        left -= float(problem.costs_N[run])
        open_N[run] = False
        group = problem.groups_N[run]
        state_GD[group] = np.maximum(state_GD[group], problem.values_ND[run])
        changed_N = open_N & (problem.groups_N == group)
        gains_N[changed_N] = _gains(problem, state_GD, changed_N)[changed_N]
    worth = float(state_GD.mean(axis=1).sum())
    return Solution(
        order=tuple(order),
        gains=tuple(gains),
        worth=worth,
        net=worth - problem.min_gain * len(order),
        left=left,
        state_GD=state_GD,
    )


def _gains(problem: Problem, state_GD: Floats, which_N: NDArray[np.bool_]) -> Floats:
    """Rise of the worth by each of these runs alone, on top of a state; 0 for the others."""
    gains_N: Floats = np.zeros(len(which_N))
    # Run by run: several times faster than one large array, which does not fit into the processor's cache.
    for run in np.flatnonzero(which_N):
        rise_D = problem.values_ND[run] - state_GD[problem.groups_N[run]]
        gains_N[run] = np.maximum(rise_D, 0.0, out=rise_D).mean()
    return gains_N


def _in_launch_order(problem: Problem, solution: Solution) -> Solution:
    """The same runs, the best gain per cost first; a start that was tried first need not be launched first."""
    runs_N = np.array(sorted(solution.order), dtype=np.int64)
    chosen = replace(
        problem,
        values_ND=problem.values_ND[runs_N],
        hints_N=problem.hints_N[runs_N],
        groups_N=problem.groups_N[runs_N],
        costs_N=problem.costs_N[runs_N],
        min_gain=-1.0,
    )
    ordered = _greedy(chosen)
    if len(ordered.order) < len(solution.order):
        return solution
    return replace(solution, order=tuple(int(runs_N[run]) for run in ordered.order), gains=ordered.gains)
