from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from predictor.planner import PlanRequest, make_plan
from predictor.planner.situation import Situation
from predictor.records import Candidate, LedgerEntry, Plan, RunRecord

Make = Callable[..., Candidate]
Ask = Callable[..., PlanRequest]
Ran = Callable[..., RunRecord]
RUN_SECONDS = 12.0


def codes(plan: Plan) -> dict[str, str]:
    return {item.hint: item.code for item in plan.rejected}


def launched(plan: Plan) -> list[tuple[str, int]]:
    return [(run.hint, run.spec.seed) for run in plan.chosen]


def test_the_favourite_is_launched_and_a_hopeless_rival_dominated(make_candidate: Make, make_request: Ask) -> None:
    plan = make_plan(make_request([make_candidate("good", 0.6, 0.02), make_candidate("poor", 0.2, 0.02)], 100.0))
    assert launched(plan) == [("good", 0)]
    assert codes(plan) == {"poor": "dominated"}
    assert plan.expected == pytest.approx(0.6, abs=0.002)
    assert plan.planned == pytest.approx(RUN_SECONDS)


def test_two_close_rivals_are_both_launched(make_candidate: Make, make_request: Ask) -> None:
    plan = make_plan(make_request([make_candidate("a", 0.40), make_candidate("b", 0.38)], 100.0))
    assert [hint for hint, _ in launched(plan)] == ["a", "b"]


def test_rivals_that_only_the_law_is_unsure_about_need_one_run(make_candidate: Make, make_request: Ask) -> None:
    rivals = [make_candidate(hint, mean, 0.1, shared=(0.0999,)) for hint, mean in (("a", 0.40), ("b", 0.38))]
    assert launched(make_plan(make_request(rivals, 100.0))) == [("a", 0)]


def test_a_second_seed_is_launched_where_the_spread_of_seeds_promises_more(
    make_candidate: Make, make_request: Ask
) -> None:
    wild = make_candidate("wild", 0.5, 0.11, seed_sd=0.1)
    plan = make_plan(make_request([wild, make_candidate("poor", 0.1, 0.02)], 30.0, seeds=(7, 8, 9)))
    assert launched(plan) == [("wild", 7), ("wild", 8)]
    unknown = wild.model_copy(update={"seed_sd": math.nan})
    plan = make_plan(make_request([unknown, make_candidate("poor", 0.1, 0.02)], 30.0, seeds=(7, 8, 9)))
    assert launched(plan) == [("wild", 7)]


def test_a_hint_config_without_consensus_gap_above_the_threshold_is_refused_with_both_numbers(
    make_candidate: Make, make_request: Ask
) -> None:
    plan = make_plan(make_request([make_candidate("hidden", 0.5, gap=0.5, consensus_gap=-0.16)], 100.0))
    assert plan.status == "infeasible"
    assert codes(plan) == {"hidden": "consensus_gap"}
    reason = plan.rejected[0].reason
    assert "-0.160 (95 % interval -0.239 to -0.081)" in reason
    assert "+0.500 (95 % interval +0.441 to +0.559)" in reason


def test_the_consensus_gap_must_be_above_the_threshold_not_at_it(make_candidate: Make, make_request: Ask) -> None:
    at, above = make_candidate("at", 0.5, consensus_gap=0.1), make_candidate("above", 0.5, consensus_gap=0.1001)
    plan = make_plan(make_request([at, above], 100.0, threshold=0.1))
    assert codes(plan)["at"] == "consensus_gap"
    assert [hint for hint, _ in launched(plan)] == ["above"]


def test_an_unmeasured_consensus_gap_is_refused_unless_allowed(make_candidate: Make, make_request: Ask) -> None:
    candidate = make_candidate("a", 0.5, consensus_gap=None)
    assert codes(make_plan(make_request([candidate], 100.0))) == {"a": "consensus_unmeasured"}
    plan = make_plan(make_request([candidate], 100.0, allow_unmeasured=True))
    assert launched(plan) == [("a", 0)]
    assert "not measured" in plan.chosen[0].reason


def test_every_kind_of_refusal_has_its_own_code(make_candidate: Make, make_request: Ask, make_run: Ran) -> None:
    fine = [make_candidate(hint, mean) for hint, mean in (("done", 0.4), ("busy", 0.4), ("broken", 0.4))]
    runs = (
        make_run(fine[0], value=0.35),
        make_run(fine[1], "running"),
        make_run(fine[2], "failed").model_copy(update={"reason": "out of memory"}),
    )
    others = [
        make_candidate("none", 0.0, is_control=True),
        make_candidate("weak", -0.1, 0.02),
        make_candidate("numberless", 0.3, math.nan),
        make_candidate("open", 0.5),
    ]
    plan = make_plan(make_request([*fine, *others], 20.0, runs=runs))
    assert codes(plan) == {
        "done": "already_ran",
        "busy": "running",
        "broken": "failed_before",
        "none": "control",
        "weak": "below_threshold",
        "numberless": "no_stderr",
        "open": "over_budget",
    }
    reasons = {item.hint: item.reason for item in plan.rejected}
    assert "+0.350" in reasons["done"]
    assert "out of memory" in reasons["broken"]
    assert "8.0 s" in reasons["open"]
    assert "12.0 s" in reasons["open"]
    assert "0.00" in reasons["weak"]


def test_a_running_run_reserves_what_it_may_still_cost(make_candidate: Make, make_request: Ask, make_run: Ran) -> None:
    busy, fresh = make_candidate("busy", 0.4), make_candidate("fresh", 0.4)
    run = make_run(busy, "running")
    request = make_request([busy, fresh], 23.0, runs=(run,))
    assert Situation.of(request).remaining == pytest.approx(11.0)
    assert codes(make_plan(request))["fresh"] == "over_budget"
    entry = LedgerEntry(kind="train", key=run.spec.key, seconds=5.0, time_utc="")
    charged = request.model_copy(update={"budget": request.budget.with_charges([entry])})
    assert Situation.of(charged).remaining == pytest.approx(11.0)


def test_a_cancelled_run_is_proposed_again_and_a_failed_seed_is_not(
    make_candidate: Make, make_request: Ask, make_run: Ran
) -> None:
    candidate = make_candidate("a", 0.4, 0.11, seed_sd=0.1)
    cancelled = make_request([candidate], 14.0, runs=(make_run(candidate, "failed"), make_run(candidate, "cancelled")))
    assert launched(make_plan(cancelled)) == [("a", 0)]
    runs = (make_run(candidate, "failed", seed=1), make_run(candidate, value=0.4, seed=0))
    assert launched(make_plan(make_request([candidate], 14.0, runs=runs, seeds=(0, 1, 2)))) == [("a", 2)]


def test_a_finished_run_of_other_settings_is_another_run(
    make_candidate: Make, make_request: Ask, make_run: Ran
) -> None:
    candidate = make_candidate("a", 0.4)
    other = make_run(candidate, value=0.1, config_key="other learning rate")
    assert launched(make_plan(make_request([candidate], 100.0, runs=(other,)))) == [("a", 0)]


def test_a_finished_good_run_dominates_what_it_beats(make_candidate: Make, make_request: Ask, make_run: Ran) -> None:
    done, rival = make_candidate("done", 0.4), make_candidate("rival", 0.35, 0.05)
    assert launched(make_plan(make_request([rival], 100.0))) == [("rival", 0)]
    plan = make_plan(make_request([done, rival], 100.0, runs=(make_run(done, value=0.6),)))
    assert plan.status == "ok"
    assert not plan.chosen
    assert codes(plan) == {"done": "already_ran", "rival": "dominated"}
    assert plan.expected == pytest.approx(0.6, abs=0.01)
    row = plan.rows[0]
    assert row.outcome is not None
    assert row.outcome.value == 0.6


def test_max_runs_counts_what_ran_before(make_candidate: Make, make_request: Ask, make_run: Ran) -> None:
    trio = [make_candidate(hint, 0.4) for hint in "abc"]
    plan = make_plan(make_request(trio, 100.0, max_runs=2, runs=(make_run(trio[0], value=0.3),)))
    assert len(plan.chosen) == 1
    assert "max_runs" in codes(plan).values()


def test_the_threshold_objective_takes_all_that_are_likely_enough_by_probability_per_cost(
    make_candidate: Make, make_request: Ask
) -> None:
    sure, likely, unlikely = make_candidate("sure", 0.4), make_candidate("likely", 0.25), make_candidate("no", 0.21)
    request = make_request([likely, unlikely, sure], 100.0, objective="threshold", threshold=0.15, seeds=(0, 1))
    plan = make_plan(request)
    assert launched(plan) == [("sure", 0), ("likely", 0), ("sure", 1), ("likely", 1)]
    assert codes(plan) == {"no": "below_threshold"}
    assert plan.expected == pytest.approx(sum(c.probability_above(0.15) for c in (sure, likely)))
    assert [run.gain for run in plan.chosen][2:] == [0.0, 0.0]
    assert launched(make_plan(make_request([likely, sure], 30.0, objective="threshold", threshold=0.15))) == [
        ("sure", 0),
        ("likely", 0),
    ]
    assert launched(make_plan(make_request([likely, sure], 20.0, objective="threshold", threshold=0.15))) == [
        ("sure", 0)
    ]
    dear = sure.model_copy(update={"spec": sure.spec.model_copy(update={"num_steps": 500})})
    assert launched(make_plan(make_request([dear, likely], 115.0, objective="threshold", threshold=0.15))) == [
        ("likely", 0),
        ("sure", 0),
    ]


def test_a_plan_is_the_json_of_the_design(make_candidate: Make, make_request: Ask) -> None:
    plan = make_plan(make_request([make_candidate("a", 0.4), make_candidate("b", math.nan, math.nan)], 3600.0))
    printed = json.loads(json.dumps(plan.as_json(), allow_nan=False))
    assert list(printed) == ["status", "reason", "objective", "expected", "budget", "chosen", "rejected"]
    assert printed["budget"] == {"gpu_hours": 1.0, "charged": 0.0, "planned": pytest.approx(RUN_SECONDS / 3600)}
    assert set(printed["chosen"][0]) == {"hint", "seed", "key", "cost_gpu_hours", "reason"}
    assert printed["chosen"][0]["key"] == plan.chosen[0].spec.key
    assert set(printed["rejected"][0]) == {"hint", "reason"}
    assert Plan.model_validate_json(plan.to_json()).to_json() == plan.to_json()


def test_nothing_to_plan_for_is_infeasible_with_a_reason(make_request: Ask) -> None:
    plan = make_plan(make_request([], 100.0))
    assert plan.status == "infeasible"
    assert "no candidates" in plan.reason


def test_a_candidate_or_seed_given_twice_is_an_error(make_candidate: Make, make_request: Ask) -> None:
    with pytest.raises(ValueError, match="candidates occur more than once: a"):
        make_request([make_candidate("a", 0.1), make_candidate("a", 0.2)], 1.0)
    with pytest.raises(ValueError, match="seeds occur more than once"):
        make_request([make_candidate("a", 0.1)], 1.0, seeds=(1, 1))


def test_parts_larger_than_the_whole_error_are_an_error(make_candidate: Make) -> None:
    with pytest.raises(ValueError, match="larger than `stderr`"):
        make_candidate("a", 0.1, 0.1, seed_sd=0.2)
