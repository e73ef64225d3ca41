from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from predictor.law import PilotPrior
from predictor.planner import PlanRequest, make_plan, pilot_value, pilots, undecided, update_with_pilot
from predictor.records import Candidate, Estimate, RunRecord

Make = Callable[..., Candidate]
Ask = Callable[..., PlanRequest]
SHARP = PilotPrior(rho=0.6, rho_sd=0.05, deviation=0.02, df=50.0)
# A pilot of 10 steps costs 2 s where its measurement is free; a full run costs 12 s.
CHEAP = {"pilot_steps": 10, "num_pilot_rollouts": 0}


def test_the_undecided_are_those_near_the_threshold_or_close_to_the_favourite(
    make_candidate: Make, make_request: Ask
) -> None:
    candidates = [
        make_candidate("favourite", 0.60, 0.05),
        make_candidate("close", 0.58, 0.05),
        make_candidate("middle", 0.30, 0.05),
        make_candidate("edge", 0.05, 0.05),
        make_candidate("hopeless", -0.30, 0.05),
        make_candidate("refused", 0.58, 0.05, consensus_gap=-0.1),
    ]
    request = make_request(candidates, 100.0, threshold=0.05)
    assert [c.hint for c in undecided(request)] == ["favourite", "close", "edge"]
    told = make_request(candidates, 100.0, threshold=0.05, objective="threshold")
    assert [c.hint for c in undecided(told)] == ["edge"]


def test_two_rivals_and_money_for_one_are_worth_a_pilot(make_candidate: Make, make_request: Ask) -> None:
    rivals = [make_candidate("a", 0.40, 0.15), make_candidate("b", 0.40, 0.15)]
    chosen = pilots(make_request(rivals, 15.0, **CHEAP), SHARP)
    assert len(chosen) == 1
    pilot = chosen[0]
    assert pilot.spec.fidelity == "pilot"
    assert pilot.spec.num_steps == 10
    assert pilot.cost.train_seconds == pytest.approx(2.0)
    assert pilot.forecast is not None
    assert pilot.forecast.mean == pytest.approx(0.6 * 0.4, abs=0.005)
    assert pilot.gain >= 0.03
    assert "undecided" in pilot.reason


def test_no_pilot_pays_where_it_cannot_change_the_plan(make_candidate: Make, make_request: Ask) -> None:
    clear = [make_candidate("good", 0.6, 0.03), make_candidate("poor", 0.2, 0.03)]
    assert pilots(make_request(clear, 15.0, **CHEAP), SHARP) == ()
    rivals = [make_candidate("a", 0.40, 0.15), make_candidate("b", 0.40, 0.15)]
    plenty = make_request(rivals, 100.0, **CHEAP)
    assert pilots(plenty, SHARP) == ()
    assert {pilot.hint for pilot in pilots(plenty, SHARP, rule="undecided")} == {"a", "b"}


@pytest.mark.parametrize("seconds", [0.0, 11.9, 13.9])
@pytest.mark.parametrize("rule", ["pays", "undecided"])
def test_no_pilot_leaves_too_little_for_the_full_run(
    make_candidate: Make, make_request: Ask, seconds: float, rule: str
) -> None:
    rivals = [make_candidate("a", 0.40, 0.15), make_candidate("b", 0.40, 0.15)]
    assert pilots(make_request(rivals, seconds, **CHEAP), SHARP, rule=rule) == ()


def test_all_pilots_together_leave_money_for_a_full_run(make_candidate: Make, make_request: Ask) -> None:
    rivals = [make_candidate(hint, 0.40, 0.15) for hint in "abcd"]
    for seconds in (15.0, 19.0):
        chosen = pilots(make_request(rivals, seconds, **CHEAP), SHARP, rule="undecided")
        assert sum(pilot.cost.gpu_hours * 3600 for pilot in chosen) + 12.0 <= seconds
        assert len(chosen) == int((seconds - 12.0) // 2.0)


@pytest.mark.parametrize("state", ["finished", "failed", "running"])
def test_a_hint_config_has_one_pilot(
    make_candidate: Make, make_request: Ask, make_run: Callable[..., RunRecord], state: str
) -> None:
    rivals = [make_candidate("a", 0.40, 0.15), make_candidate("b", 0.40, 0.15)]
    run = make_run(rivals[0], state, value=0.2, fidelity="pilot", num_steps=10)
    request = make_request(rivals, 30.0, runs=(run,), max_runs=1, **CHEAP)
    assert [pilot.hint for pilot in pilots(request, SHARP, rule="undecided")] == ["b"]


def test_the_value_of_a_pilot_is_the_knowledge_gradient(make_candidate: Make, make_request: Ask) -> None:
    known, unsure = make_candidate("known", 0.40, 0.001), make_candidate("unsure", 0.35, 0.15)
    prior = PilotPrior(rho=0.6, rho_sd=1e-4, deviation=0.02, df=1e6)
    request = make_request([known, unsure], 14.5, **CHEAP)
    moved = 0.15 * math.sqrt((0.6 * 0.15) ** 2 / ((0.6 * 0.15) ** 2 + 0.02**2 + unsure.gap.stderr**2))
    z = 0.05 / moved
    exact = moved * (stats.norm.pdf(z) - z * stats.norm.cdf(-z))
    found = pilot_value(request, unsure, prior)
    assert 0.85 * exact <= found <= 1.02 * exact


def test_the_stated_value_is_what_simulated_pilots_bring(make_candidate: Make, make_request: Ask) -> None:
    rng = np.random.default_rng(8)
    rivals = [make_candidate("a", 0.40, 0.12), make_candidate("b", 0.42, 0.05)]
    stated = pilot_value(make_request(rivals, 14.5, **CHEAP), rivals[0], SHARP)
    rises = []
    for _ in range(1500):
        full_a = 0.40 + 0.12 * rng.standard_normal()
        full_b = 0.42 + 0.05 * rng.standard_normal()
        rho, deviation = 0.6 + 0.05 * rng.standard_normal(), 0.02 * rng.standard_normal()
        outcome = rho * full_a + deviation + 0.03 * rng.standard_normal()
        pilot = Estimate(value=outcome, stderr=0.03, num_units=128)
        updated = update_with_pilot(rivals[0], pilot, SHARP)
        rises.append((full_a if updated.mean > rivals[1].mean else full_b) - full_b)
    error = np.std(rises) / math.sqrt(len(rises))
    assert stated == pytest.approx(float(np.mean(rises)), abs=3 * error + 0.004)
    assert stated > 0.02


def test_a_free_pilot_never_costs_worth_and_a_dear_one_may(make_candidate: Make, make_request: Ask) -> None:
    rivals = [make_candidate("a", 0.40, 0.15), make_candidate("b", 0.35, 0.10), make_candidate("c", 0.2, 0.3)]
    for candidate in rivals:
        assert pilot_value(make_request(rivals, 24.0 + 2.5, **CHEAP), candidate, SHARP) >= -0.003
    tight = make_request(rivals, 13.0, **CHEAP)
    assert pilot_value(tight, rivals[0], SHARP) == pytest.approx(-make_plan(tight).expected, abs=0.02)


def test_a_pilot_can_rescue_a_hint_config_that_is_not_sure_enough(make_candidate: Make, make_request: Ask) -> None:
    candidate = make_candidate("a", 0.10, 0.10)
    request = make_request([candidate], 100.0, objective="threshold", threshold=0.05, **CHEAP)
    assert not make_plan(request).chosen
    assert [pilot.hint for pilot in pilots(request, SHARP)] == ["a"]


def test_equal_requests_give_equal_pilots(make_candidate: Make, make_request: Ask) -> None:
    rivals = [make_candidate(hint, 0.40, 0.15) for hint in "abc"]
    request = make_request(rivals, 17.0, **CHEAP)
    assert pilots(request, SHARP) == pilots(request, SHARP)
