from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.planner import PlanRequest, make_plan
from predictor.records import Candidate, Plan, RunRecord

Make = Callable[..., Candidate]
Ask = Callable[..., PlanRequest]
Ran = Callable[..., RunRecord]


def launched(plan: Plan) -> list[tuple[str, int]]:
    return [(run.hint, run.spec.seed) for run in plan.chosen]


NUMBERS = st.floats(-1.5, 1.5) | st.just(math.nan)
CANDIDATES = st.lists(
    st.tuples(NUMBERS, st.floats(0, 1) | st.just(math.nan), st.floats(1, 60), NUMBERS | st.none(), st.booleans()),
    max_size=6,
)
RUNS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["proposed", "running", "finished", "failed", "cancelled"]),
        st.integers(0, 2),
        st.floats(-0.5, 0.8) | st.just(math.nan),
    ),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(
    CANDIDATES,
    RUNS,
    st.floats(0.0, 120.0),
    st.floats(0.0, 60.0),
    st.sampled_from(["best", "threshold", "sum"]),
    st.integers(1, 4) | st.none(),
)
def test_no_plan_exceeds_its_budget_repeats_a_run_or_leaves_a_candidate_without_a_reason(
    make_candidate: Make,
    make_request: Ask,
    make_run: Ran,
    forecasts: list[tuple[float, float, float, float | None, bool]],
    history: list[tuple[int, str, int, float]],
    cap: float,
    spent: float,
    objective: str,
    most: int | None,
) -> None:
    candidates = [
        make_candidate(f"h{i}", mean, stderr, df=df, consensus_gap=consensus, is_control=control, seed_sd=stderr / 2)
        for i, (mean, stderr, df, consensus, control) in enumerate(forecasts)
    ]
    runs = tuple(make_run(candidates[i], s, v, seed=n) for i, s, n, v in history if i < len(candidates))
    budget = {"device_seconds": cap, "charges": [{"kind": "probe", "seconds": spent, "time_utc": ""}]}
    settled = {"objective": objective, "max_runs": most, "seeds": (0, 1, 2), "num_draws": 128, "runs": runs}
    request = make_request(candidates, cap, budget=budget, **settled)
    plan = make_plan(request)

    assert plan.planned <= request.budget.remaining
    assert plan.planned + spent <= cap or not plan.chosen
    assert len(set(launched(plan))) == len(plan.chosen)
    state = {(run.spec.hint, run.spec.seed): run.state for run in runs}
    assert all(state.get(run, "proposed") in ("proposed", "cancelled") for run in launched(plan))
    chosen = {run.hint for run in plan.chosen}
    refused = {item.hint for item in plan.rejected}
    assert chosen | refused == {candidate.hint for candidate in candidates}
    assert not chosen & refused
    assert len(plan.rejected) + len(chosen) == len(candidates) == len(plan.rows)
    by_hint = {candidate.hint: candidate for candidate in candidates}
    for hint in chosen:
        consensus = by_hint[hint].consensus_gap
        assert consensus is not None
        assert consensus.value > request.config.threshold
        assert not by_hint[hint].is_control
    if most is not None:
        assert len(plan.chosen) <= most
    assert (plan.status == "infeasible") <= (not plan.chosen)
    assert make_plan(request).to_json() == plan.to_json()
    json.dumps(plan.as_json(), allow_nan=False)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 0.6), st.floats(0.01, 0.3)), min_size=1, max_size=6),
    st.lists(st.floats(0.0, 100.0), min_size=2, max_size=5),
    st.sampled_from(["best", "threshold", "sum"]),
)
def test_a_larger_budget_never_lowers_the_expected_objective(
    make_candidate: Make,
    make_request: Ask,
    forecasts: list[tuple[float, float]],
    caps: list[float],
    objective: str,
) -> None:
    candidates = [
        make_candidate(f"h{i}", mean, stderr, df=5.0, seed_sd=stderr / 3) for i, (mean, stderr) in enumerate(forecasts)
    ]
    settled = {"objective": objective, "seeds": (0, 1), "num_draws": 256, "min_gain": 0.0}
    worths = [make_plan(make_request(candidates, cap, **settled)).expected for cap in sorted(caps)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(worths))
