from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from predictor.law import PilotPair, PilotPrior, pilot_pairs, published_prior
from predictor.planner import forecast_pilot, update_with_pilot
from predictor.planner.pilot import preposterior
from predictor.records import Candidate, Estimate, RunRecord

Make = Callable[..., Candidate]
Ran = Callable[..., RunRecord]
PRIOR = published_prior().pilot


def measured(value: float, stderr: float = 0.02) -> Estimate:
    return Estimate(value=value, stderr=stderr, num_units=128, kind="difference")


def draw_pilots(rng: np.random.Generator, full: np.ndarray, prior: PilotPrior, num: int) -> np.ndarray:
    """True pilot improvements under the model, one for each full improvement."""
    variance = prior.df * prior.deviation**2 / rng.chisquare(prior.df, num)
    rho = prior.rho + np.sqrt(variance / prior.weight) * rng.standard_normal(num)
    return rho * full + np.sqrt(variance) * rng.standard_normal(num)


@pytest.mark.parametrize(
    ("mean", "stderr", "df", "outcome", "noise"),
    [
        (0.3, 0.15, math.inf, 0.10, 0.02),
        (0.3, 0.15, 4.0, 0.30, 0.05),
        (0.0, 0.10, 6.0, -0.15, 0.03),
        (0.7, 0.20, 5.0, 0.60, 0.02),
        (0.5, 0.02, 8.0, 0.0, 0.02),
    ],
)
def test_the_posterior_is_that_of_brute_force_integration(
    make_candidate: Make, mean: float, stderr: float, df: float, outcome: float, noise: float
) -> None:
    candidate = make_candidate("a", mean, stderr, df=df)
    rng = np.random.default_rng(11)
    num = 1_000_000
    spread = rng.standard_normal(num) if math.isinf(df) else rng.standard_t(df, num)
    full = mean + stderr * spread
    variance = PRIOR.df * PRIOR.deviation**2 / rng.chisquare(PRIOR.df, num)
    rho = PRIOR.rho + np.sqrt(variance / PRIOR.weight) * rng.standard_normal(num)
    weights = stats.norm.pdf(outcome, rho * np.clip(full, -0.2, 0.8), np.sqrt(variance + noise**2))
    weights /= weights.sum()
    order = np.argsort(full)
    low, high = np.interp([0.1, 0.9], np.cumsum(weights[order]), full[order])

    updated = update_with_pilot(candidate, measured(outcome, noise), PRIOR)
    assert updated.mean == pytest.approx(float(weights @ full), abs=0.02 * stderr)
    half = stats.t(df).ppf(0.9) if math.isfinite(df) else stats.norm.ppf(0.9)
    assert 2 * half * updated.stderr == pytest.approx(high - low, rel=0.02)
    assert updated.df == candidate.df


def test_with_a_sure_rho_the_update_is_normal_conjugacy(make_candidate: Make) -> None:
    sure = PilotPrior(rho=0.5, rho_sd=1e-4, deviation=0.03, df=1e6)
    updated = update_with_pilot(make_candidate("a", 0.3, 0.1), measured(0.25, 0.04), sure)
    noise = 0.03**2 + 0.04**2
    precision = 1 / 0.1**2 + 0.5**2 / noise
    assert updated.mean == pytest.approx((0.3 / 0.1**2 + 0.5 * 0.25 / noise) / precision, abs=1e-4)
    assert updated.stderr == pytest.approx(1 / math.sqrt(precision), rel=1e-3)


def test_past_pairs_update_rho_and_deviation_as_integration_does() -> None:
    full, pilot = np.array([0.2, 0.5, 0.7, 0.1]), np.array([0.18, 0.39, 0.6, 0.12])
    pairs = [PilotPair(hint="a", pilot=measured(p), full=measured(f)) for p, f in zip(pilot, full, strict=True)]
    updated = PRIOR.updated(pairs)
    rho = np.linspace(-0.5, 2.0, 1501)[:, None]
    variance = np.exp(np.linspace(math.log(1e-5), math.log(0.3), 1201))[None, :]
    log_density = stats.norm.logpdf(rho, PRIOR.rho, np.sqrt(variance / PRIOR.weight))
    log_density = log_density - (PRIOR.df / 2) * np.log(variance) - PRIOR.df * PRIOR.deviation**2 / (2 * variance)
    for f, p in zip(full, pilot, strict=True):
        log_density = log_density + stats.norm.logpdf(p, rho * f, np.sqrt(variance))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    assert updated.rho == pytest.approx(float((density * rho).sum()), abs=1e-3)
    # The mean of a scaled inverse χ² is df / (df - 2) times its scale squared.
    implied = updated.df * updated.deviation**2 / (updated.df - 2)
    assert implied == pytest.approx(float((density * variance).sum()), rel=0.01)
    assert updated.rho_sd < PRIOR.rho_sd


def test_no_pair_changes_nothing_and_pairs_in_two_steps_are_pairs_in_one() -> None:
    pairs = [PilotPair(hint="a", pilot=measured(0.2), full=measured(0.3)) for _ in range(3)]
    assert PRIOR.updated([]).model_dump() == pytest.approx(PRIOR.model_dump())
    assert PRIOR.updated(pairs).num_pairs == 3
    assert PRIOR.updated(pairs[:1]).updated(pairs[1:]).model_dump() == pytest.approx(PRIOR.updated(pairs).model_dump())


def test_intervals_cover_at_their_stated_level_before_and_after_the_pilot(make_candidate: Make) -> None:
    rng = np.random.default_rng(5)
    inside = {"pilot80": [], "pilot95": [], "full80": [], "full95": []}
    for _ in range(250):
        study = PRIOR
        variance = study.df * study.deviation**2 / rng.chisquare(study.df)
        rho = study.rho + math.sqrt(variance / study.weight) * rng.standard_normal()
        past = rng.uniform(0.0, 0.7, 3)
        seen = rho * past + math.sqrt(variance) * rng.standard_normal(3)
        pairs = [PilotPair(hint="a", pilot=measured(p), full=measured(f)) for p, f in zip(seen, past, strict=True)]
        prior = PRIOR.updated(pairs)
        candidate = make_candidate("a", 0.25, 0.1, df=6.0)
        full = 0.25 + 0.1 * rng.standard_t(6.0)
        outcome = rho * min(max(full, -0.2), 0.8) + math.hypot(math.sqrt(variance), 0.03) * rng.standard_normal()
        told = forecast_pilot(candidate, prior, num_steps=10, eval_stderr=0.03)
        updated = update_with_pilot(candidate, measured(outcome, 0.03), prior)
        for level, bounds in ((80, told.interval80), (95, told.interval95)):
            inside[f"pilot{level}"].append(bounds[0] <= outcome <= bounds[1])
            half = stats.t(6.0).ppf(0.5 + level / 200) * updated.stderr
            inside[f"full{level}"].append(abs(full - updated.mean) <= half)
    rates = {name: float(np.mean(hits)) for name, hits in inside.items()}
    assert 0.75 <= rates["pilot80"] <= 0.85, rates
    assert 0.92 <= rates["pilot95"] <= 0.98, rates
    assert 0.75 <= rates["full80"] <= 0.85, rates
    assert 0.92 <= rates["full95"] <= 0.99, rates


def test_a_pilots_forecast_has_the_moments_of_simulated_pilots(make_candidate: Make) -> None:
    rng = np.random.default_rng(2)
    candidate = make_candidate("a", 0.3, 0.1)
    full = np.clip(0.3 + 0.1 * rng.standard_normal(400_000), -0.2, 0.8)
    outcomes = draw_pilots(rng, full, PRIOR, 400_000) + 0.03 * rng.standard_normal(400_000)
    told = forecast_pilot(candidate, PRIOR, num_steps=10, eval_stderr=0.03)
    assert told.mean == pytest.approx(float(outcomes.mean()), abs=0.002)
    assert told.interval80 == pytest.approx(tuple(np.quantile(outcomes, [0.1, 0.9])), abs=0.005)
    assert told.interval95 == pytest.approx(tuple(np.quantile(outcomes, [0.025, 0.975])), abs=0.02)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-0.2, 0.9),
    st.floats(0.0, 0.4),
    st.floats(1.0, 50.0) | st.just(math.inf),
    st.floats(-1.0, 1.0),
    st.floats(0.0, 0.3) | st.just(math.nan),
)
def test_an_update_is_finite_and_never_wider_than_twice_the_forecast(
    make_candidate: Make, mean: float, stderr: float, df: float, outcome: float, noise: float
) -> None:
    candidate = make_candidate("a", mean, stderr, df=df, seed_sd=stderr / 2, shared=(stderr / 2,))
    updated = update_with_pilot(candidate, measured(outcome, noise), PRIOR)
    assert math.isfinite(updated.mean)
    assert 0.0 <= updated.stderr <= 2 * stderr
    Candidate.model_validate(updated.model_dump())


def test_a_pilot_of_unknown_error_changes_nothing(make_candidate: Make) -> None:
    candidate = make_candidate("a", 0.3)
    assert update_with_pilot(candidate, measured(0.1, math.nan), PRIOR) == candidate


def test_possible_posteriors_average_to_the_forecast(make_candidate: Make) -> None:
    candidate = make_candidate("a", 0.3, 0.15, df=5.0)
    chances, after = zip(*preposterior(candidate, PRIOR, eval_stderr=0.03, num_bins=9), strict=True)
    assert sum(chances) == pytest.approx(1.0)
    assert max(chances) == pytest.approx(1 / 9, rel=1e-3)
    assert sum(p * c.mean for p, c in zip(chances, after, strict=True)) == pytest.approx(0.3, abs=1e-6)
    means = [c.mean for c in after]
    assert means == sorted(means)


def test_pairs_are_made_of_one_models_pilots_and_full_runs_of_the_right_lengths(
    make_candidate: Make, make_run: Ran
) -> None:
    first, second = make_candidate("a", 0.3), make_candidate("b", 0.3)
    short = {"fidelity": "pilot", "num_steps": 10}
    runs = [
        make_run(first, value=0.50),
        make_run(first, value=0.60, seed=1),
        make_run(first, value=0.30, seed=1, **short),
        make_run(second, value=0.10, seed=2, **short),
        make_run(second, value=0.20),
        make_run(second, value=0.90, fidelity="pilot", num_steps=5),
        make_run(make_candidate("c", 0.3), value=0.9, **short),
        make_run(make_candidate("d", 0.3), value=0.9, model="other", **short),
        make_run(make_candidate("e", 0.3), "failed", **short),
    ]
    pairs = pilot_pairs(runs, first.spec, pilot_steps=10)
    assert [(pair.hint, pair.pilot.value, pair.full.value) for pair in pairs] == [("a", 0.30, 0.60), ("b", 0.10, 0.20)]
