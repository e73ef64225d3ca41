from __future__ import annotations

import math

import numpy as np
import pytest

from predictor.config import BudgetConfig, PlanConfig
from predictor.errors import LawError
from predictor.forecast import forecast
from predictor.law import LinearLaw
from predictor.law.simulate import PlantedLaw
from predictor.planner import PlanRequest, candidate_from_forecast, make_plan
from predictor.records import (
    Budget,
    Candidate,
    ConsensusDetail,
    CostModel,
    GapEstimate,
    LawFit,
    ReweightedConsensus,
    RunSpec,
)

PLANTED = PlantedLaw(slope=1.0, student=0.15, config_sd=0.03, seed_sd=0.02, probe_stderr=0.02, eval_stderr=0.03)


def spec(hint: str) -> RunSpec:
    fields = {"model": "planted/model", "family": "planted", "task": "planted-task", "preset": "miniature"}
    return RunSpec(hint=hint, num_steps=50, seed=0, config_key=hint, **fields)


def fitted(num_gaps: int = 6, seeds: int = 3, seed: int = 0) -> LawFit:
    gaps = [0.6 * index / max(1, num_gaps - 1) for index in range(num_gaps)]
    return LinearLaw().fit(PLANTED.records(gaps, seeds=seeds, seed=seed) if num_gaps else [])


def candidates(fit: LawFit, gaps: list[GapEstimate], *, shared: bool = True) -> list[Candidate]:
    line = fit.line("planted") if shared else None
    told = forecast(fit, gaps, threshold=0.05)
    return [candidate_from_forecast(f, gap, spec(gap.hint), line) for f, gap in zip(told, gaps, strict=True)]


def asked(candidate: Candidate, *, allow_unmeasured: bool = False) -> PlanRequest:
    """A request for one candidate, with money for many runs."""
    return PlanRequest(
        candidates=(candidate,),
        config=PlanConfig(budget=BudgetConfig(seconds=60.0)),
        budget=Budget(device_seconds=60.0),
        costs=CostModel(
            startup_seconds=0.0, seconds_per_step=0.1, eval_startup_seconds=0.0, seconds_per_eval_rollout=0.001
        ),
        num_eval_rollouts=1024,
        allow_unmeasured=allow_unmeasured,
    )


def test_a_candidate_is_its_forecast_without_the_final_evaluations_noise() -> None:
    fit = fitted()
    gap = PLANTED.gap("new", 0.4, consensus_gap=0.3)
    told = forecast(fit, [gap], threshold=0.05)[0]
    candidate = candidates(fit, [gap])[0]
    assert candidate.mean == told.predictive.location
    assert candidate.stderr == pytest.approx(told.predictive.scale * math.sqrt(1 - told.shares.evaluation))
    assert candidate.stderr < told.predictive.scale
    assert candidate.df == told.predictive.df
    assert candidate.student == pytest.approx(0.15)
    assert candidate.consensus_gap == gap.consensus_gap


def test_the_laws_error_is_shared_by_its_variance_and_covariance() -> None:
    fit = fitted()
    low, high = candidates(fit, [PLANTED.gap("low", 0.1), PLANTED.gap("high", 0.5)])
    cov = np.asarray(fit.line("planted").covariance)
    x_low, x_high = np.array([1.0, 0.1]), np.array([1.0, 0.5])
    assert np.dot(low.shared, low.shared) == pytest.approx(float(x_low @ cov @ x_low))
    assert np.dot(low.shared, high.shared) == pytest.approx(float(x_low @ cov @ x_high))


def test_the_seed_spread_is_known_only_where_the_law_has_seen_seeds() -> None:
    gap = PLANTED.gap("new", 0.4)
    assert candidates(fitted(seeds=3), [gap])[0].seed_sd > 0.0
    assert math.isnan(candidates(fitted(seeds=1), [gap])[0].seed_sd)
    without_line = candidates(fitted(seeds=3), [gap], shared=False)[0]
    assert math.isnan(without_line.seed_sd)
    assert without_line.shared == ()


def test_a_law_without_runs_still_makes_candidates() -> None:
    candidate = candidates(fitted(num_gaps=0), [PLANTED.gap("new", 0.4, consensus_gap=0.4)])[0]
    assert candidate.stderr > 0.1
    assert len(candidate.shared) == 2


def test_none_and_controls_are_controls() -> None:
    fit = fitted()
    none = PLANTED.gap("none", 0.0).model_copy(update={"kind": "none"})
    assert candidates(fit, [none])[0].is_control
    assert not candidates(fit, [PLANTED.gap("rule", 0.4)])[0].is_control


def test_doubts_about_a_forecast_follow_it_into_the_reason() -> None:
    fit = LinearLaw(predictor="consensus_gap", fallback="gap").fit([])
    gap = PLANTED.gap("new", 0.4)
    candidate = candidates(fit, [gap])[0]
    assert candidate.notes
    assert candidate.notes[0] in make_plan(asked(candidate, allow_unmeasured=True)).chosen[0].reason


def test_a_refused_consensus_gap_is_never_replaced_by_the_raw_gap_in_silence() -> None:
    gap = PLANTED.gap("new", 0.4)
    refused = ReweightedConsensus(
        consensus=None,
        gap=None,
        refused="effective sample size 3 of 96 rollouts is below 24",
        effective_rollouts=3.0,
        covered=gap.gap,
        stderr_hints=math.nan,
        num_rollouts=96,
        engine_difference=0.0,
        engine_difference_p99=0.0,
    )
    detail = ConsensusDetail(
        mean="geometric",
        num_hints=8,
        estimator="reweight",
        student=gap.student,
        consensus=gap.teacher,
        reweighted=refused,
    )
    gap = gap.model_copy(update={"consensus_detail": detail})
    with pytest.raises(LawError, match="`consensus_gap` was not measured") as caught:
        forecast(LinearLaw(predictor="consensus_gap").fit([]), [gap], threshold=0.05)
    assert refused.refused in caught.value.found
    assert "ensemble" in caught.value.fix
    # Neither a named fallback nor the published law, which predicts from the raw gap, gets it launched.
    for law, doubts in ((LinearLaw(predictor="consensus_gap", fallback="gap"), 1), (LinearLaw(predictor="gap"), 0)):
        candidate = candidates(law.fit([]), [gap])[0]
        assert sum(refused.refused in note for note in candidate.notes) == doubts
        plan = make_plan(asked(candidate))
        assert [item.code for item in plan.rejected] == ["consensus_unmeasured"]
        assert refused.refused in plan.rejected[0].reason


@pytest.mark.slow
def test_a_plan_from_a_fitted_law_beats_the_same_number_of_blind_runs() -> None:
    rng = np.random.default_rng(4)
    planned, blind, expected = [], [], []
    for seed in range(40):
        fit = fitted(seed=seed)
        truths = {f"new{i}": float(g + 0.03 * rng.standard_normal()) for i, g in enumerate(rng.uniform(0, 0.6, 8))}
        measured = {hint: truth + 0.03 * rng.standard_normal() for hint, truth in truths.items()}
        gaps = [PLANTED.gap(hint, value, consensus_gap=value) for hint, value in measured.items()]
        request = PlanRequest(
            candidates=tuple(candidates(fit, gaps)),
            config=PlanConfig(budget=BudgetConfig(seconds=60.0)),
            budget=Budget(device_seconds=18.0),
            costs=CostModel(
                startup_seconds=1.0, seconds_per_step=0.1, eval_startup_seconds=0.0, seconds_per_eval_rollout=0.001
            ),
            num_eval_rollouts=1000,
            num_draws=1024,
        )
        plan = make_plan(request)
        assert 1 <= len(plan.chosen) <= 2
        planned.append(max(truths[run.hint] for run in plan.chosen))
        blind.append(max(list(truths.values())[: len(plan.chosen)]))
        expected.append(plan.expected)
    assert np.mean(planned) > np.mean(blind) + 0.1
    assert np.mean(expected) == pytest.approx(np.mean(planned), abs=0.04)
