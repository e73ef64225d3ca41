"""Every number is what its name says: macro counts examples, pooled counts rollouts, and luck has its own number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.errors import InputError
from predictor.probe.measured import Measured, Window, frame_accuracies, judged_wrong
from predictor.probe.shares import conditional, macro_share, net_recovery, pooled_share, repeated_share, same_output
from predictor.probe.sizing import PUBLISHED_BETWEEN, PUBLISHED_WITHIN, Components, Pricing, sizes
from predictor.records import Estimands, Estimate, GapEstimate
from predictor.records.numbers import definition, definitions
from predictor.stats import pooled_difference

Outcomes = dict[str, Sequence[bool | None]]


def frame(outcomes: Outcomes, *, texts: dict[str, Sequence[str]] | None = None, units: str = "") -> pd.DataFrame:
    rows = [
        {
            "arm_key": "a",
            "example_id": name,
            "unit": units or name,
            "split": "eval",
            "index": index,
            "correct": correct,
            "text": (texts or {}).get(name, ["x"] * len(found))[index],
            "extracted": "",
            "completion_ids": np.array([index, len(name)]),
        }
        for name, found in outcomes.items()
        for index, correct in enumerate(found)
    ]
    return pd.DataFrame(rows)


def value(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.value


STUDENT: Outcomes = {"a": [False, False, False, True], "b": [True, True, True, False], "c": [True] * 4}
TEACHER: Outcomes = {"a": [True, False, False, False], "b": [False, True, True, True], "c": [True] * 4}


def test_s1_macro_and_pooled_recovery_are_two_numbers_under_two_names() -> None:
    """S1: the name carries the estimand."""
    by_rollout = conditional(frame(TEACHER), frame(STUDENT), given=False, by_rollout=True)
    assert value(by_rollout["pooled"]) == pytest.approx(2 / 4)
    assert value(by_rollout["macro"]) == pytest.approx((1 / 3 + 1) / 2)
    by_example = conditional(frame(TEACHER), frame(STUDENT), given=False, by_rollout=False)
    assert value(by_example["pooled"]) == pytest.approx((3 * 0.25 + 1 * 0.75) / 4)
    assert value(by_example["macro"]) == pytest.approx((0.25 + 0.75) / 2)
    assert {"recovery_pooled", "recovery_macro", "gap_pooled", "gap_macro"} <= set(Estimands.model_fields)
    assert not {"recovery", "gap"} & set(Estimands.model_fields)


def test_without_failures_recovery_is_unknown_and_not_zero() -> None:
    right: Outcomes = {"a": [True, True]}
    assert conditional(frame(right), frame(right), given=False, by_rollout=True) == {"pooled": None, "macro": None}
    assert same_output(frame(right), frame(right)) is None
    assert net_recovery(frame(right), frame(right), frame(right), by_rollout=False) is None


def test_t5_net_recovery_subtracts_what_a_bare_resample_recovers_of_the_same_rollouts() -> None:
    """T5: regression to the mean is not teaching."""
    bare: Outcomes = {"a": [True, True, False, False], "b": [True] * 4, "c": [True] * 4}
    found = net_recovery(frame(TEACHER), frame(bare), frame(STUDENT), by_rollout=True)
    assert value(found) == pytest.approx((1 - 2) / 4 + 0.0)
    itself = net_recovery(frame(bare), frame(bare), frame(STUDENT), by_rollout=False)
    assert value(itself) == 0.0


def test_undecided_rollouts_enter_no_condition_and_no_accuracy() -> None:
    student: Outcomes = {"a": [False, None, True], "b": [True, True, True]}
    teacher: Outcomes = {"a": [None, True, True], "b": [True, None, False]}
    assert conditional(frame(teacher), frame(student), given=False, by_rollout=True)["pooled"] is None
    kept = conditional(frame(teacher), frame(student), given=True, by_rollout=True)
    assert value(kept["pooled"]) == pytest.approx(2 / 3)
    assert judged_wrong(frame(student)["correct"]).tolist() == [True] + [False] * 5
    assert frame_accuracies(frame(teacher)).num_undecided == 2


def test_the_same_wrong_answer_again_is_anchoring() -> None:
    student = frame({"a": [False, False]}, texts={"a": [" 5 ", "6"]})
    teacher = frame({"a": [False, True]}, texts={"a": ["5", "7"]})
    assert value(same_output(teacher, student)) == 0.5


def test_f20_a_seed_used_for_every_request_shows_as_repeated_rollouts() -> None:
    """F20: K identical rollouts at T > 0 are seen and told."""
    honest = frame({"a": [True, True], "b": [True, False]})
    reused = honest.assign(completion_ids=[np.array([1, 2])] * 4)
    assert value(repeated_share(honest)) == 0.0
    assert value(repeated_share(reused)) == 1.0
    assert repeated_share(frame({"a": [True], "b": [True]})) is None


def test_s2_copies_of_a_rollout_leave_every_standard_error_as_it_is() -> None:
    """S2: the unit is the example."""
    one: Outcomes = {name: [found[0]] for name, found in TEACHER.items()}
    four: Outcomes = {name: [found[0]] * 4 for name, found in TEACHER.items()}
    for share in (pooled_share, macro_share):
        single, copied = (share(rows, rows["correct"]) for rows in (frame(one), frame(four)))
        assert copied.stderr == pytest.approx(single.stderr)
        assert copied.num_units == single.num_units == 3
    together = frame(TEACHER, units="one cluster")
    assert math.isnan(pooled_share(together, together["correct"]).stderr)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=2, max_size=5))
def test_pooled_and_macro_agree_exactly_when_all_examples_have_equally_many_rollouts(groups: list[list[bool]]) -> None:
    outcomes = {f"e{i}": found for i, found in enumerate(groups)}
    rows = frame(outcomes)
    pooled, macro = pooled_share(rows, rows["correct"]), macro_share(rows, rows["correct"])
    assert pooled.value == pytest.approx(sum(map(sum, groups)) / sum(map(len, groups)))
    assert macro.value == pytest.approx(sum(sum(g) / len(g) for g in groups) / len(groups))
    base = frame({name: [False] * len(found) for name, found in outcomes.items()})
    difference = pooled_difference(frame_accuracies(rows), frame_accuracies(base))
    assert difference.value == pytest.approx(pooled.value)
    assert difference.stderr == pytest.approx(pooled.stderr, abs=1e-12)


def test_a_window_is_the_first_examples_and_rollouts_of_the_held_out_split() -> None:
    rows = frame(STUDENT)
    assert len(Window().of(rows)) == 12
    assert len(Window(frozenset({"a", "b"}), 2).of(rows)) == 4
    assert Window().of(rows.assign(split="train")).empty
    assert Measured.from_frame(rows).frames.keys() == {"a"}


def test_every_number_of_a_probe_has_its_definition() -> None:
    found = definitions()
    numbers = {name for name in GapEstimate.model_fields if name in found} | set(Estimands.model_fields)
    assert {"gap", "net_gap", "transferable_gap", "consensus_gap", "recovery", "harm", "coverage"} <= numbers
    assert {"copy_rate", "truncated", "undecided", "same_output_pooled"} <= numbers
    assert [name for name, text in found.items() if not text] == []
    assert "bare resample" in definition("net_gap")
    with pytest.raises(InputError, match="no number of this name") as caught:
        definition("net_gaps")
    assert "net_gap" in caught.value.fix


def test_a_plan_names_the_fewest_examples_that_reach_the_half_width() -> None:
    components = Components(
        between_var=PUBLISHED_BETWEEN, within_var=PUBLISHED_WITHIN, deff=1.0, source="published simulation"
    )
    pricing = Pricing(arms=10, tokens_per_rollout=50.0, seconds_per_rollout=0.01)
    found = {size.rollouts: size for size in sizes(components, 0.0323, pricing, level=0.95)}
    # 131 examples x 8 rollouts have a standard error of .0163 in the simulation that the components come from.
    assert found[8].examples == pytest.approx(131, abs=5)
    assert found[1].examples > found[4].examples > found[16].examples
    for size in found.values():
        assert size.total_rollouts == size.examples * size.rollouts * 10
        assert size.total_tokens == 50.0 * size.total_rollouts
        assert size.seconds == pytest.approx(0.01 * size.total_rollouts)
        assert 0.03 < size.minimal_detectable_gap < 0.06
    clustered = components.model_copy(update={"deff": 3.0})
    more = {size.rollouts: size for size in sizes(clustered, 0.0323, pricing, level=0.95)}
    assert more[8].examples == pytest.approx(3 * found[8].examples, rel=0.05)
