from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from predictor.config import BudgetConfig, PlanConfig
from predictor.planner import PlanRequest
from predictor.records import Budget, Candidate, CostModel, Estimate, Provenance, RunRecord

MakeCandidate = Callable[..., Candidate]
MakeRequest = Callable[..., PlanRequest]
MakeRun = Callable[..., RunRecord]

# One full run takes 10 s of training and 2 s of evaluation; at level 0.5 nothing is added for safety.
COSTS = {"startup_seconds": 0.0, "seconds_per_step": 0.2, "eval_startup_seconds": 0.0}


def difference(value: float, stderr: float = 0.03) -> Estimate:
    return Estimate(value=value, stderr=stderr, num_units=128, kind="difference")


@pytest.fixture(scope="session")
def make_candidate() -> MakeCandidate:
    def make(hint: str, mean: float, stderr: float = 0.1, **changes: Any) -> Candidate:
        gap = changes.pop("gap", 0.3)
        consensus = changes.pop("consensus_gap", 0.3)
        spec = {
            "model": "m",
            "family": "f",
            "task": "t",
            "hint": hint,
            "preset": "p",
            "num_steps": 50,
            "seed": 0,
            "config_key": f"settings of {hint}",
        }
        fields = {
            "spec": spec,
            "gap": difference(gap),
            "consensus_gap": None if consensus is None else difference(consensus, 0.04),
            "student": 0.2,
            "mean": mean,
            "stderr": stderr,
            "df": math.inf,
        }
        return Candidate.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def make_request() -> MakeRequest:
    def make(candidates: list[Candidate], seconds: float, **changes: Any) -> PlanRequest:
        names = ("objective", "threshold", "probability", "max_runs", "pilot_steps")
        settings = {name: changes.pop(name) for name in names if name in changes}
        costs = {"seconds_per_eval_rollout": 0.002, "level": 0.5} | COSTS
        fields = {
            "candidates": tuple(candidates),
            "config": PlanConfig(budget=BudgetConfig(seconds=1.0), **settings),
            "budget": Budget(device_seconds=seconds),
            "costs": CostModel(**costs),
            "num_eval_rollouts": 1000,
        }
        return PlanRequest.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    def make(candidate: Candidate, state: str = "finished", value: float = math.nan, **changes: Any) -> RunRecord:
        stderr = changes.pop("stderr", 0.02)
        known = not math.isnan(value)
        return RunRecord.model_validate(
            {
                "spec": candidate.spec.model_copy(update=changes),
                "state": state,
                "improvement": difference(value, stderr) if known else None,
                "provenance": Provenance(time_utc="2026-11-30T00:00:00+00:00"),
            }
        )

    return make
