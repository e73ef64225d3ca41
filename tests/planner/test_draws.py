from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from predictor.planner import PlanRequest
from predictor.planner.draws import conditioned, run_draws, standing_draws
from predictor.planner.situation import Situation
from predictor.records import Candidate, Estimate, RunRecord

Make = Callable[..., Candidate]
Ask = Callable[..., PlanRequest]


@pytest.mark.parametrize("df", [2.5, 5.0, 30.0, math.inf])
def test_one_run_has_the_forecasts_t_distribution(make_candidate: Make, make_request: Ask, df: float) -> None:
    candidate = make_candidate("a", 0.3, 0.05, df=df, seed_sd=0.02, shared=(0.02, 0.03))
    draws = run_draws(candidate, 0, Situation.of(make_request([candidate], 10.0, num_draws=20_000)))
    wanted = stats.t(df, loc=0.3, scale=0.05) if math.isfinite(df) else stats.norm(0.3, 0.05)
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert np.mean(draws <= wanted.ppf(share)) == pytest.approx(share, abs=0.01)


def test_the_expected_maximum_of_two_is_clarks_formula(make_candidate: Make, make_request: Ask) -> None:
    first, second = make_candidate("a", 0.30, 0.08), make_candidate("b", 0.25, 0.12)
    request = Situation.of(make_request([first, second], 10.0, num_draws=20_000))
    found = np.maximum(run_draws(first, 0, request), run_draws(second, 0, request)).mean()
    theta = math.hypot(0.08, 0.12)
    z = 0.05 / theta
    exact = 0.30 * stats.norm.cdf(z) + 0.25 * stats.norm.cdf(-z) + theta * stats.norm.pdf(z)
    assert found == pytest.approx(exact, abs=0.001)


def test_an_error_of_the_law_moves_all_candidates_together(make_candidate: Make, make_request: Ask) -> None:
    both = [make_candidate(hint, 0.3, 0.1, shared=(0.0999,)) for hint in "ab"]
    request = Situation.of(make_request(both, 10.0))
    first, second = (run_draws(candidate, 0, request) for candidate in both)
    assert np.corrcoef(first, second)[0, 1] > 0.99
    assert np.maximum(first, second).mean() == pytest.approx(0.3, abs=0.004)


def test_seeds_of_one_hint_config_share_all_but_the_seed_spread(make_candidate: Make, make_request: Ask) -> None:
    candidate = make_candidate("a", 0.3, 0.1, seed_sd=0.06)
    request = Situation.of(make_request([candidate], 10.0))
    first, second = run_draws(candidate, 0, request), run_draws(candidate, 1, request)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.64, abs=0.04)


def test_draws_stay_between_losing_and_gaining_everything(make_candidate: Make, make_request: Ask) -> None:
    candidate = make_candidate("a", 0.7, 2.0, df=1.0, student=0.25)
    draws = run_draws(candidate, 0, Situation.of(make_request([candidate], 10.0)))
    assert draws.min() == -0.25
    assert draws.max() == 0.75


def test_another_candidate_or_budget_changes_no_draw(make_candidate: Make, make_request: Ask) -> None:
    candidate = make_candidate("a", 0.3, 0.1, df=4.0)
    alone = run_draws(candidate, 0, Situation.of(make_request([candidate], 10.0)))
    beside = run_draws(candidate, 0, Situation.of(make_request([make_candidate("b", 0.1), candidate], 99.0)))
    assert np.array_equal(alone, beside)


def test_an_outcome_moves_the_next_seed_as_bayes_does(make_candidate: Make) -> None:
    candidate = make_candidate("a", 0.3, 0.10, seed_sd=0.06)
    outcome = Estimate(value=0.5, stderr=0.03, num_units=128)
    grid = np.linspace(-0.5, 1.1, 20_001)
    weights = stats.norm.pdf(grid, 0.3, 0.08) * stats.norm.pdf(0.5, grid, math.hypot(0.06, 0.03))
    weights /= weights.sum()
    mean = float(weights @ grid)
    spread = math.sqrt(float(weights @ (grid - mean) ** 2) + 0.06**2)
    updated = conditioned(candidate, [outcome])
    assert updated.mean == pytest.approx(mean, abs=1e-6)
    assert updated.stderr == pytest.approx(spread, abs=1e-6)
    assert updated.seed_sd == candidate.seed_sd


def test_without_a_seed_spread_the_outcome_is_what_another_seed_gives(make_candidate: Make) -> None:
    outcomes = [Estimate(value=0.5, stderr=math.nan, num_units=1), Estimate(value=0.4, stderr=0.0, num_units=9)]
    updated = conditioned(make_candidate("a", 0.3), outcomes)
    assert updated.mean == pytest.approx(0.45)
    assert updated.stderr == 0.0


def test_no_outcome_changes_nothing(make_candidate: Make) -> None:
    candidate = make_candidate("a", 0.3)
    assert conditioned(candidate, []) == candidate


def test_finished_and_running_runs_of_this_model_stand_and_pilots_do_not(
    make_candidate: Make, make_request: Ask, make_run: Callable[..., RunRecord]
) -> None:
    first, second = make_candidate("a", 0.3), make_candidate("b", 0.2)
    runs = (
        make_run(first, value=0.4),
        make_run(second, "running"),
        make_run(first, value=0.9, fidelity="pilot"),
        make_run(first, value=0.9, model="another"),
        make_run(first, "failed", seed=3),
        make_run(make_candidate("gone", 0.1), value=0.1),
    )
    found = standing_draws(Situation.of(make_request([first, second], 10.0, runs=runs)))
    assert [hint for hint, _ in found] == ["a", "b", "gone"]
    assert [float(draws.mean()) for _, draws in found] == pytest.approx([0.4, 0.2, 0.1], abs=0.01)
