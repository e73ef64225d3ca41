from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.planner.solve import Problem, Solution, solve


def random_problem(seed: int, *, pooled: bool, equal_costs: bool = False, num: int = 8) -> Problem:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-0.1, 0.6, size=(num, 1))
    values = centres + rng.uniform(0.02, 0.3, size=(num, 1)) * rng.standard_normal((num, 400))
    costs = np.full(num, 1.0) if equal_costs else rng.uniform(0.3, 2.0, size=num)
    names = np.arange(num)
    return Problem(
        values_ND=values,
        hints_N=names,
        groups_N=np.zeros_like(names) if pooled else names,
        base_GD=np.zeros((1 if pooled else num, 400)),
        costs_N=costs,
        budget=3.5,
        max_runs=num,
    )


def worth_of(problem: Problem, runs: tuple[int, ...]) -> float:
    state = problem.base_GD.copy()
    for run in runs:
        state[problem.groups_N[run]] = np.maximum(state[problem.groups_N[run]], problem.values_ND[run])
    return float(state.mean(axis=1).sum()) - problem.min_gain * len(runs)


def best_by_enumeration(problem: Problem) -> float:
    runs = range(len(problem.costs_N))
    subsets = (s for size in range(problem.max_runs + 1) for s in itertools.combinations(runs, size))
    return max(worth_of(problem, s) for s in subsets if problem.costs_N[list(s)].sum() <= problem.budget)


def share_of_optimum(problem: Problem) -> float:
    return solve(problem, try_starts=True).net / best_by_enumeration(problem)


def test_the_expected_best_is_within_one_percent_of_enumeration_and_nearly_always_equal() -> None:
    shares = [share_of_optimum(random_problem(seed, pooled=True)) for seed in range(40)]
    assert min(shares) >= 0.99
    assert np.mean(np.array(shares) > 1 - 1e-9) >= 0.95
    assert max(shares) <= 1 + 1e-9


def test_equal_costs_make_greedy_almost_exact() -> None:
    shares = [share_of_optimum(random_problem(seed, pooled=True, equal_costs=True)) for seed in range(25)]
    assert min(shares) >= 0.999


def test_the_expected_sum_is_within_ten_percent_of_the_best_knapsack() -> None:
    shares = [share_of_optimum(random_problem(seed, pooled=False)) for seed in range(40)]
    assert min(shares) >= 0.90
    assert np.mean(shares) >= 0.995


def test_a_minimal_gain_is_maximised_too() -> None:
    shares = [share_of_optimum(replace(random_problem(s, pooled=True), min_gain=0.02)) for s in range(25)]
    assert min(shares) >= 0.99


def constants(values: list[float], costs: list[float], budget: float, **changes: int) -> Solution:
    names = np.arange(len(values))
    problem = Problem(
        values_ND=np.array(values)[:, None],
        hints_N=names,
        groups_N=names,
        base_GD=np.zeros((len(values), 1)),
        costs_N=np.array(costs),
        budget=budget,
        max_runs=changes.get("max_runs", len(values)),
    )
    return solve(problem, try_starts=True)


def test_a_cheap_crumb_does_not_push_out_the_dear_good_run() -> None:
    assert constants([0.01, 0.5], [0.01, 1.0], budget=1.0).order == (1,)


def test_one_allowed_run_is_the_best_one_however_dear() -> None:
    assert constants([0.2, 0.5, 0.3], [0.1, 1.0, 0.1], budget=1.0, max_runs=1).order == (1,)


def test_no_allowed_run_is_an_empty_choice() -> None:
    assert constants([0.2], [0.1], budget=1.0, max_runs=0).order == ()


def test_launch_order_is_gain_per_cost_and_gains_add_up_to_the_worth() -> None:
    solution = constants([0.2, 0.5, 0.3], [1.0, 1.0, 0.1], budget=3.0)
    assert solution.order == (2, 1, 0)
    assert math.isclose(sum(solution.gains), solution.worth)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.lists(st.floats(0.0, 9.0), min_size=2, max_size=6))
def test_a_larger_budget_never_lowers_the_worth(seed: int, pooled: bool, budgets: list[float]) -> None:
    problem = random_problem(seed, pooled=pooled)
    worths = [solve(replace(problem, budget=b), try_starts=True).worth for b in sorted(budgets)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(worths))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.floats(0.0, 0.1), st.integers(0, 8), st.floats(0.0, 9.0))
def test_no_choice_is_dearer_or_larger_than_allowed(
    seed: int, pooled: bool, least: float, most: int, budget: float
) -> None:
    problem = replace(random_problem(seed, pooled=pooled), budget=budget, min_gain=least, max_runs=most)
    solution = solve(problem, try_starts=True)
    assert problem.costs_N[list(solution.order)].sum() <= budget + 1e-9
    assert len(set(solution.order)) == len(solution.order) <= most
    assert math.isclose(solution.net, worth_of(problem, solution.order), abs_tol=1e-9)
