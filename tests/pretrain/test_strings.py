"""The string world: its rules as written by hand, and what no seed and no size may change."""

from __future__ import annotations

import math
import sys
from collections import Counter
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import DataError
from predictor.tasks.strings import (
    ALIASES,
    HELD_OUT_SHARE,
    MAX_EXAMPLES_PER_SPLIT,
    RULE_PRIOR,
    RULES,
    SYMBOLS,
    apply_rule,
    is_held_out,
    is_unambiguous,
    string_examples,
)

# Written by hand for two strings; the second wraps around the alphabet's ends.
TRUTH = {
    "copy": ("d a c b", "t q a k"),
    "reverse": ("b c a d", "k a q t"),
    "rotate_left": ("a c b d", "q a k t"),
    "rotate_right": ("b d a c", "k t q a"),
    "next": ("e b d c", "a r b l"),
    "previous": ("c t b a", "s p t j"),
    "swap_pairs": ("a d b c", "q t k a"),
    "swap_ends": ("b a c d", "k q a t"),
    "duplicate_first": ("d d a c b", "t t q a k"),
    "drop_last": ("d a c", "t q a"),
    "abab": ("d a d a", "t q t q"),
    "sort": ("a b c d", "a k q t"),
}

seeds = st.integers(0, 10**6)
rules = st.sampled_from(sorted(RULES))


@pytest.mark.parametrize("rule", sorted(TRUTH))
def test_a_rule_gives_the_answers_written_by_hand(rule: str) -> None:
    assert (apply_rule(rule, "d a c b"), apply_rule(rule, "t q a k")) == TRUTH[rule]


def test_every_rule_has_a_truth_an_alias_and_a_place_in_the_prior() -> None:
    assert set(TRUTH) == set(RULES) == set(ALIASES) == set(RULE_PRIOR)
    words = [*SYMBOLS, *RULES, *ALIASES.values()]
    assert len(words) == len(set(words))


def test_the_prior_sums_to_one_and_leaves_reverse_hard_to_guess() -> None:
    assert math.isclose(sum(RULE_PRIOR.values()), 1.0)
    assert max(RULE_PRIOR, key=lambda name: RULE_PRIOR[name]) == "copy"
    assert 0.12 <= RULE_PRIOR["reverse"] <= 0.15


def test_importing_the_string_world_loads_no_deep_learning_library() -> None:
    code = "import sys, predictor.tasks.strings; assert not {'torch', 'transformers', 'vllm'} & set(sys.modules)"
    run([sys.executable, "-c", code], check=True)


@settings(deadline=None, max_examples=25)
@given(rule=rules, seed=seeds, few=st.integers(0, 20), more=st.integers(0, 20))
def test_more_examples_leave_the_first_ones_unchanged(rule: str, seed: int, few: int, more: int) -> None:
    small = string_examples(rule=rule, num_train=few, num_eval=few, seed=seed)
    large = string_examples(rule=rule, num_train=few + more, num_eval=few + more, seed=seed)
    assert small[:few] == large[:few]
    assert small[few:] == large[few + more : few + more + few]


@settings(deadline=None, max_examples=25)
@given(hidden=st.lists(rules, min_size=1, max_size=4, unique=True), seed=seeds)
def test_no_string_comes_twice_and_no_training_string_is_held_out(hidden: list[str], seed: int) -> None:
    rows = string_examples(rule=None, hidden_rules=tuple(hidden), num_train=40, num_eval=40, seed=seed)
    assert len({row["prompt"] for row in rows}) == len({row["example_id"] for row in rows}) == 80
    for row in rows:
        string = tuple(row["prompt"].split())
        assert is_held_out(string) == (row["split"] == "eval")
        assert is_unambiguous(string)


@settings(deadline=None, max_examples=25)
@given(hidden=st.lists(rules, min_size=1, max_size=4, unique=True), seed=seeds)
def test_metadata_keeps_its_promises(hidden: list[str], seed: int) -> None:
    for row in string_examples(rule=None, hidden_rules=tuple(hidden), num_train=5, num_eval=5, seed=seed):
        question, values = row["prompt"], row["metadata"]
        rule = values["rule"]
        assert rule in hidden
        assert row["answer"] == row["solution"] == apply_rule(rule, question)
        assert values["alias"] == ALIASES[rule]
        assert values["other_rule"] != rule
        assert rule in values["alternatives"].split()
        assert len(set(values["alternatives"].split())) == 2
        assert {rule, "copy"} <= {"copy", *values["alternatives_common"].split()}
        assert values["coin_rule_copy"] in {rule, "copy"}
        assert values["common_failure"] == question
        assert all(isinstance(value, str) for value in values.values())


def test_coins_are_fair_and_tossed_apart() -> None:
    rows = string_examples(rule="reverse", num_train=2000, num_eval=0, seed=3)
    tosses = [
        (
            row["metadata"]["coin_rule_random"] == "reverse",
            row["metadata"]["coin_rule_copy"] == "reverse",
            row["metadata"]["coin_answer"] == row["answer"],
            row["metadata"]["alternatives"].startswith("reverse "),
        )
        for row in rows
    ]
    # Sixteen outcomes of 125 expected each; four standard deviations are 44.
    counts = Counter(tosses)
    assert len(counts) == 16
    assert all(abs(count - 125) <= 44 for count in counts.values())


def test_one_string_in_five_is_held_out() -> None:
    strings = [(a, b, c, d) for a in SYMBOLS for b in SYMBOLS for c in SYMBOLS[:5] for d in SYMBOLS[:5]]
    assert abs(sum(map(is_held_out, strings)) / len(strings) - HELD_OUT_SHARE) < 0.02


@pytest.mark.parametrize(
    ("rule", "hidden", "count", "says"),
    [
        (None, (), 1, "one rule or several hidden ones"),
        ("reverse", ("copy",), 1, "one rule or several hidden ones"),
        ("revers", (), 1, "does not know this rule"),
        ("reverse", (), MAX_EXAMPLES_PER_SPLIT + 1, "too few strings"),
    ],
)
def test_a_request_the_world_cannot_meet_is_refused(
    rule: str | None, hidden: tuple[str, ...], count: int, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        string_examples(rule=rule, hidden_rules=hidden, num_train=count, num_eval=0, seed=0)
