from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.records import Budget, CostModel, CostObservation, LedgerEntry

CALIBRATED = CostModel(
    startup_seconds=4.0, seconds_per_step=0.5, eval_startup_seconds=3.0, seconds_per_eval_rollout=0.01
)


def observed(hint: str, seconds: float, *, num_steps: int = 60, eval_seconds: float = 0.0) -> CostObservation:
    return CostObservation(
        hint=hint, num_steps=num_steps, train_seconds=seconds, num_eval_rollouts=1000, eval_seconds=eval_seconds
    )


def test_the_median_cost_is_the_calibration_added_up() -> None:
    cost = CALIBRATED.cost_of("rule", 60, 1000, level=0.5)
    assert cost.train_seconds == pytest.approx(4.0 + 60 * 0.5)
    assert cost.eval_seconds == pytest.approx(3.0 + 1000 * 0.01)
    assert cost.gpu_hours == pytest.approx(47.0 / 3600)


def test_a_run_without_evaluation_is_charged_none() -> None:
    assert CALIBRATED.cost_of("rule", 60, 0).eval_seconds == 0.0


def test_devices_multiply_the_hours() -> None:
    four = CALIBRATED.model_copy(update={"num_devices": 4})
    assert four.cost_of("rule", 60, 1000).gpu_hours == pytest.approx(4 * CALIBRATED.cost_of("rule", 60, 1000).gpu_hours)


def test_a_finished_run_replaces_the_calibration() -> None:
    model = CALIBRATED.updated([observed("rule", 51.0, eval_seconds=26.0)])
    cost = model.cost_of("other", 60, 1000, level=0.5)
    assert cost.train_seconds == pytest.approx(51.0)
    assert cost.eval_seconds == pytest.approx(26.0)
    assert model.cost_of("other", 60, 2000, level=0.5).eval_seconds == pytest.approx(2 * (3.0 + 20.0))


def test_a_hint_config_is_priced_by_its_own_runs_and_steps_first() -> None:
    model = CALIBRATED.updated([observed("long", 80.0), observed("short", 20.0), observed("long", 9.0, num_steps=10)])
    assert model.cost_of("long", 60, 0, level=0.5).train_seconds == pytest.approx(80.0)
    assert model.cost_of("new", 60, 0, level=0.5).train_seconds == pytest.approx(math.sqrt(80.0 * 20.0))
    assert model.cost_of("new", 10, 0, level=0.5).train_seconds == pytest.approx(9.0)


def test_the_margin_shrinks_as_equal_runs_finish() -> None:
    margins = []
    for count in (0, 1, 3, 10, 30):
        model = CALIBRATED.updated([observed("rule", 34.0)] * count)
        margins.append(model.cost_of("rule", 60, 0).train_seconds / 34.0)
    assert margins[0] == pytest.approx(margins[1])
    assert margins[1] > margins[2] > margins[3] > margins[4] > 1.0
    assert margins[1] < 1.5


@pytest.mark.parametrize("spread", [0.05, 0.15, 0.3])
def test_a_run_stays_under_its_planned_cost_at_the_stated_rate(spread: float) -> None:
    rng = np.random.default_rng(3)
    under = []
    for _ in range(400):
        seconds = 34.0 * np.exp(spread * rng.standard_normal(6))
        model = CALIBRATED.updated([observed("rule", float(s)) for s in seconds[:5]])
        under.append(seconds[5] <= model.cost_of("rule", 60, 0, level=0.9).train_seconds)
    # The prior spread of 0.15 makes the bound careful for steadier runs and a little short for wilder ones.
    assert np.mean(under) >= (0.85 if spread > 0.15 else 0.88)


@settings(deadline=None)
@given(
    st.floats(0.5, 0.99),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 1e4), st.integers(1, 500)), max_size=8),
    st.integers(1, 500),
)
def test_a_safer_cost_is_never_smaller_and_always_finite(
    level: float, runs: list[tuple[str, float, int]], steps: int
) -> None:
    model = CALIBRATED.updated([observed(h, s, num_steps=n, eval_seconds=s / 2) for h, s, n in runs])
    for hint in "abz":
        safe = model.cost_of(hint, steps, 100, level=level)
        median = model.cost_of(hint, steps, 100, level=0.5)
        assert 0.0 < median.train_seconds <= safe.train_seconds * (1 + 1e-12) < math.inf
        assert 0.0 < median.eval_seconds <= safe.eval_seconds * (1 + 1e-12) < math.inf


@settings(deadline=None)
@given(st.floats(0, 1e6), st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.floats(0, 1e5)), max_size=20))
def test_what_is_charged_is_gone_and_the_rest_is_never_negative(cap: float, spent: list[tuple[str, float]]) -> None:
    entries = [LedgerEntry(kind="train", key=key, seconds=s, time_utc="") for key, s in spent]
    budget = Budget(device_seconds=cap).with_charges(entries[:3]).with_charges(entries[3:])
    assert budget.charged == pytest.approx(sum(s for _, s in spent))
    assert budget.remaining == max(0.0, cap - budget.charged)
    assert budget.charged_to("a") + budget.charged_to("b") + budget.charged_to("") == pytest.approx(budget.charged)


@pytest.mark.parametrize("cap", [-1.0, math.nan, math.inf])
def test_a_budget_is_a_finite_number(cap: float) -> None:
    with pytest.raises(ValueError, match="device_seconds"):
        Budget(device_seconds=cap)
