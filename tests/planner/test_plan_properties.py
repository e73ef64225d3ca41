from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.law import published_prior
from predictor.planner import PlanRequest, make_plan, pilots
from predictor.records import Candidate, Plan, RunRecord

Make = Callable[..., Candidate]
Ask = Callable[..., PlanRequest]
Ran = Callable[..., RunRecord]


def launched(plan: Plan) -> list[tuple[str, int]]:
    return [(run.hint, run.spec.seed) for run in plan.chosen]


STATES = ("proposed", "running", "finished", "failed", "cancelled")
ODD = (
    {"mean": math.nan},
    {"stderr": math.nan},
    {"stderr": 0.0},
    {"consensus_gap": None},
    {"consensus_gap": -0.1},
    {"consensus_gap": math.nan},
    {"is_control": True},
    {"mean": -0.4},
    {"mean": 1.4},
    {"df": 1.0, "stderr": 0.8},
    {"seed_sd": math.nan},
)


def any_request(make_candidate: Make, make_request: Ask, make_run: Ran, seed: int, objective: str) -> PlanRequest:
    """Up to seven candidates, a third of them odd, with runs in all states and money for none to most of them."""
    rng = np.random.default_rng(seed)
    candidates = []
    for index in range(rng.integers(0, 8)):
        odd = ODD[rng.integers(len(ODD))] if rng.random() < 0.33 else {}
        fields = {"mean": rng.uniform(0.05, 0.7), "stderr": rng.uniform(0.01, 0.15), "df": rng.uniform(2, 30)} | odd
        fields = {"seed_sd": fields["stderr"] * rng.uniform(0, 1)} | fields
        candidate = make_candidate(f"h{index}", **fields)
        steps = int(rng.integers(1, 100))
        candidates.append(candidate.model_copy(update={"spec": candidate.spec.model_copy(update={"num_steps": steps})}))
    runs = []
    for candidate in candidates:
        for number in range(3):
            if rng.random() < 0.2:
                state = STATES[rng.integers(len(STATES))]
                value = rng.uniform(-0.2, 0.7) if rng.random() < 0.8 else math.nan
                runs.append(make_run(candidate, state, value, seed=number))
    cap, spent = rng.uniform(0, 150), rng.uniform(0, 60)
    budget = {"device_seconds": cap, "charges": [{"kind": "probe", "seconds": spent, "time_utc": ""}]}
    most = int(rng.integers(1, 6)) if rng.random() < 0.3 else None
    settled = {"objective": objective, "max_runs": most, "seeds": (0, 1, 2), "num_draws": 128, "runs": tuple(runs)}
    return make_request(candidates, cap, budget=budget, **settled)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["best", "threshold", "sum"]))
def test_no_plan_exceeds_its_budget_repeats_a_run_or_leaves_a_candidate_without_a_reason(
    make_candidate: Make, make_request: Ask, make_run: Ran, seed: int, objective: str
) -> None:
    request = any_request(make_candidate, make_request, make_run, seed, objective)
    candidates, config = request.candidates, request.config
    plan = make_plan(request)

    reserved = sum(
        request.costs.cost_of(run.spec.hint, run.spec.num_steps, request.num_eval_rollouts).gpu_hours * 3600
        for run in request.runs
        if run.state == "running"
    )
    assert plan.planned + (reserved if plan.chosen else 0.0) <= request.budget.remaining
    assert plan.planned + request.budget.charged <= request.budget.device_seconds or not plan.chosen
    assert len(set(launched(plan))) == len(plan.chosen)
    state = {(run.spec.hint, run.spec.seed): run.state for run in request.runs}
    assert all(state.get(run, "proposed") in ("proposed", "cancelled") for run in launched(plan))
    chosen, refused = {run.hint for run in plan.chosen}, {item.hint for item in plan.rejected}
    assert chosen | refused == {candidate.hint for candidate in candidates}
    assert not chosen & refused
    assert len(plan.rejected) + len(chosen) == len(candidates) == len(plan.rows)
    by_hint = {candidate.hint: candidate for candidate in candidates}
    for hint in chosen:
        consensus = by_hint[hint].consensus_gap
        assert consensus is not None
        assert consensus.value > config.threshold
        assert not by_hint[hint].is_control
    if config.max_runs is not None:
        before = sum(s in ("running", "finished", "failed") for s in state.values())
        assert len(plan.chosen) <= max(0, config.max_runs - before)
    assert not (plan.status == "infeasible" and plan.chosen)
    assert make_plan(request).to_json() == plan.to_json()
    json.dumps(plan.as_json(), allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["best", "threshold", "sum"]), st.sampled_from(["pays", "undecided"]))
def test_pilots_leave_money_for_a_full_run_and_are_never_launched_twice(
    make_candidate: Make,
    make_request: Ask,
    make_run: Ran,
    seed: int,
    objective: str,
    rule: Literal["pays", "undecided"],
) -> None:
    request = any_request(make_candidate, make_request, make_run, seed, objective)
    chosen = pilots(request, published_prior().pilot, rule=rule)
    assert len({run.hint for run in chosen}) == len(chosen)
    spent = sum(run.cost.gpu_hours for run in chosen) * 3600
    for run in chosen:
        steps = next(c.spec.num_steps for c in request.candidates if c.hint == run.hint)
        full = request.costs.cost_of(run.hint, steps, request.num_eval_rollouts).gpu_hours * 3600
        assert spent + full <= request.budget.remaining * (1 + 1e-9)
        assert run.forecast is not None
        assert math.isfinite(run.forecast.mean)
        assert run.spec.fidelity == "pilot"


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
