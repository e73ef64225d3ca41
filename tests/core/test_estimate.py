"""Intervals of estimates agree with statsmodels and scipy, and never claim more than identical units tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from predictor.records import Estimate, finite_or_none
from predictor.records.estimate import jeffreys_interval, wilson_interval
from predictor.stats import cluster_mean, paired_difference

SHARES = st.floats(0.0, 1.0)
LEVELS = st.sampled_from([0.5, 0.8, 0.95, 0.99])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), LEVELS)
def test_the_interval_of_a_share_is_statsmodels_wilson_interval(counts: tuple[int, int], level: float) -> None:
    successes, n = counts
    expected = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    assert wilson_interval(successes / n, n, level) == pytest.approx(expected, abs=1e-9)
    stderr = math.sqrt(successes / n * (1 - successes / n) / n)
    estimate = Estimate(value=successes / n, stderr=stderr, num_units=n, kind="share")
    if n > 1:
        assert estimate.interval(level) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(-0.4, 0.4), st.floats(1e-3, 0.05), st.integers(2, 300), LEVELS)
def test_the_interval_of_a_difference_is_scipys_t_interval(value: float, stderr: float, n: int, level: float) -> None:
    low, high = stats.t.interval(level, n - 1, loc=value, scale=stderr)
    expected = (max(-1.0, low), min(1.0, high))
    assert Estimate(value=value, stderr=stderr, num_units=n, kind="difference").interval(level) == pytest.approx(
        expected
    )
    assert Estimate(value=value, stderr=stderr, num_units=n).interval(level) == pytest.approx((low, high))


def binomial(successes: int, n: int) -> Estimate:
    share = successes / n
    return Estimate(value=share, stderr=math.sqrt(share * (1 - share) / n), num_units=n, kind="share")


def difference_of(first: Estimate, second: Estimate, correlation: float) -> Estimate:
    variance = first.stderr**2 + second.stderr**2 - 2 * correlation * first.stderr * second.stderr
    return Estimate(
        value=first.value - second.value,
        stderr=math.sqrt(variance),
        num_units=first.num_units,
        kind="difference",
        sides=(first, second),
    )


COUNTS = st.integers(8, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))), LEVELS)
def test_jeffreys_interval_is_that_of_statsmodels_away_from_the_ends(counts: tuple[int, int], level: float) -> None:
    successes, n = counts
    low, high = proportion_confint(successes, n, alpha=1 - level, method="jeffreys")
    expected = (min(low, successes / n), 1.0 if successes == n else max(high, successes / n))
    assert jeffreys_interval(successes / n, n, level) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(COUNTS, st.floats(-0.9, 0.9), LEVELS)
def test_the_interval_of_a_difference_of_known_shares_squares_and_adds_theirs(
    counts: tuple[int, int, int], correlation: float, level: float
) -> None:
    """Zou and Donner (2008): lower = d - sqrt(a^2 - 2 r a b + b^2), a and b how far each side's interval reaches."""
    ones, others, n = counts
    found = difference_of(binomial(ones, n), binomial(others, n), correlation)
    if found.stderr == 0.0:
        return
    scale = (stats.norm.ppf(0.5 + level / 2) / stats.t.ppf(0.5 + level / 2, n - 1)) ** 2
    first, second = (
        jeffreys_interval(count / n, n if count in (0, n) else max(1.0, n * scale), level) for count in (ones, others)
    )
    certain = 0 in (ones, others) or n in (ones, others)
    r = 0.0 if certain else correlation
    a, b = ones / n - first[0], second[1] - others / n
    c, d = first[1] - ones / n, others / n - second[0]
    least = 0.3 * stats.t.ppf(0.5 + level / 2, n - 1) * found.stderr
    expected = (
        max(-1.0, found.value - max(least, math.sqrt(a * a - 2 * r * a * b + b * b))),
        min(1.0, found.value + max(least, math.sqrt(c * c - 2 * r * c * d + d * d))),
    )
    assert found.interval(level) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=80, deadline=None)
@given(COUNTS, st.floats(-0.9, 0.9), LEVELS)
def test_swapping_the_sides_or_counting_failures_mirrors_the_interval(
    counts: tuple[int, int, int], correlation: float, level: float
) -> None:
    ones, others, n = counts
    low, high = difference_of(binomial(ones, n), binomial(others, n), correlation).interval(level)
    swapped = difference_of(binomial(others, n), binomial(ones, n), correlation)
    failures = difference_of(binomial(n - ones, n), binomial(n - others, n), correlation)
    assert swapped.interval(level) == pytest.approx((-high, -low), abs=1e-9)
    assert failures.interval(level) == pytest.approx((-high, -low), abs=1e-9)
    assert low <= ones / n - others / n + 1e-9
    assert high >= ones / n - others / n - 1e-9


def test_with_many_units_the_sides_change_nothing_and_near_zero_they_skew_the_interval() -> None:
    many = difference_of(binomial(6200, 10_000), binomial(4100, 10_000), 0.4)
    assert many.interval() == pytest.approx(many.model_copy(update={"sides": None}).interval(), abs=1e-4)
    low, high = difference_of(binomial(2, 60), binomial(0, 60), 0.0).interval()
    assert high - 2 / 60 > 1.3 * (2 / 60 - low)


def test_more_effective_units_than_ten_a_unit_are_not_taken_at_their_word() -> None:
    agreeing = Estimate(value=0.3, stderr=0.004, num_units=6, kind="share", degrees=1.5)
    variance = (1.5 * 0.004**2 + 0.3 * 0.7 / 60) / 2.5
    scale = (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 2.5)) ** 2
    moderated = wilson_interval(0.3, 0.3 * 0.7 / variance * scale, 0.95)
    plain = wilson_interval(0.3, 0.3 * 0.7 / 0.004**2 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 1.5)) ** 2, 0.95)
    assert agreeing.interval() == pytest.approx(moderated)
    assert moderated[0] < plain[0] < plain[1] < moderated[1]


def test_where_a_sample_without_an_event_is_likely_the_other_tail_gets_the_whole_error() -> None:
    rare = Estimate(value=0.1, stderr=0.06, num_units=6, kind="share")
    variance = (5 * 0.06**2 + 0.1 * 0.9 / 60) / 6
    z, t = stats.norm.ppf(0.95), stats.t.ppf(0.95, 5)
    one_sided = wilson_interval(0.1, 0.1 * 0.9 / variance * (z / t) ** 2, 0.90)
    two_sided = wilson_interval(0.1, 0.1 * 0.9 / variance * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 5)) ** 2, 0.95)
    low, high = rare.interval()
    assert low == pytest.approx(one_sided[0])
    assert low > two_sided[0]
    assert high == pytest.approx(two_sided[1])
    even = Estimate(value=0.5, stderr=0.02, num_units=200, kind="share")
    assert even.interval()[0] + even.interval()[1] == pytest.approx(1.0)


def test_one_event_among_many_units_leaves_more_open_than_none() -> None:
    """Nearly equal sides: their correlation is near 1, and the few units that differ carry all of the error."""
    student = [1.0] * 50 + [0.0] * 50
    none = paired_difference(student, student).interval()
    one = paired_difference([*student[:99], 1.0], student).interval()
    assert one[0] < 0.0 < none[1] < one[1]


@pytest.mark.parametrize(
    ("first", "second"), [([0.5625, 0.1875], [0.6875, 0.5625]), ([0.5, 0.0, 0.5], [1.0, 0.0, 1.0])]
)
def test_two_or_three_units_never_imply_that_the_difference_is_known(first: list[float], second: list[float]) -> None:
    found = paired_difference(first, second)
    low, high = found.interval()
    assert low == -1.0 or high - low >= 0.599 * stats.t.ppf(0.975, found.num_units - 1) * found.stderr


def test_rounding_is_no_correlation_and_only_one_tail_gets_the_whole_error() -> None:
    student = np.full(100, 1 / 7)
    assert 0.0 < cluster_mean(student, kind="share").stderr < 1e-15
    teacher = np.random.default_rng(1).binomial(7, 0.6, 100) / 7
    found = paired_difference(teacher, student)
    assert found.sides is not None
    exact = found.model_copy(update={"sides": (found.sides[0], found.sides[1].model_copy(update={"stderr": 0.0}))})
    assert found.interval() == pytest.approx(exact.interval(), abs=1e-9)
    few = Estimate(value=0.5, stderr=0.2, num_units=3, kind="share")
    low, high = few.interval()
    assert low + high == pytest.approx(1.0)
    assert low <= few.interval(0.9)[0]


@pytest.mark.parametrize("stderr", [math.nan, math.inf])
def test_a_side_that_was_not_measured_is_not_combined(stderr: float) -> None:
    bare = Estimate(value=0.2, stderr=0.05, num_units=20, kind="difference")
    for side in (
        Estimate(value=0.5, stderr=stderr, num_units=20, kind="share"),
        Estimate(value=0.5, stderr=0.1, num_units=1, kind="share"),
        Estimate(value=math.nan, stderr=math.nan, num_units=0, kind="share"),
    ):
        assert bare.model_copy(update={"sides": (side, binomial(6, 20))}).interval() == bare.interval()
    assert Estimate(value=0.5, stderr=math.inf, num_units=10, kind="share").interval()[0] < 0.1


def test_an_estimate_without_fewer_degrees_is_written_as_it_was_before_they_existed() -> None:
    plain = Estimate(value=0.25, stderr=0.125, num_units=8)
    assert plain.model_dump() == {"value": 0.25, "stderr": 0.125, "num_units": 8, "kind": "mean"}
    known = difference_of(binomial(3, 8), binomial(1, 8), 0.2)
    assert Estimate.model_validate_json(known.model_dump_json()) == known
    assert "sides" not in binomial(3, 8).model_dump()
    fewer = Estimate(value=0.25, stderr=0.125, num_units=8, degrees=3.0)
    assert Estimate.model_validate_json(fewer.model_dump_json()) == fewer
    assert fewer.interval() == pytest.approx(stats.t.interval(0.95, 3, loc=0.25, scale=0.125))


def test_clustered_rollouts_count_for_fewer_units() -> None:
    free = Estimate(value=0.3, stderr=math.sqrt(0.3 * 0.7 / 100), num_units=100, kind="share").interval()
    clustered = Estimate(value=0.3, stderr=2 * math.sqrt(0.3 * 0.7 / 100), num_units=100, kind="share").interval()
    # Korn and Graubard (1998): 100 / 4 units, less (z / t)^2 because the factor 4 is itself estimated from 100 units.
    # One of 100 degrees of freedom says 1,000 units.
    units = 25 / (0.99 + 0.01 * 25 / 1000) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 99)) ** 2
    assert clustered == pytest.approx(proportion_confint(0.3 * units, units, method="wilson"))
    assert clustered[0] < free[0] < free[1] < clustered[1]


@pytest.mark.parametrize("stderr", [0.0, 1.9e-17, 5.7e-18])
@pytest.mark.parametrize("kind", ["share", "difference"])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_identical_units_never_give_certainty_not_even_after_rounding(value: float, kind: str, stderr: float) -> None:
    low, high = Estimate(value=value, stderr=stderr, num_units=10, kind=kind).interval()
    assert high - low > 0.2
    assert low <= value <= high


def test_no_success_among_n_units_leaves_wilsons_bound_open() -> None:
    low, high = Estimate(value=0.0, stderr=0.0, num_units=20, kind="share").interval()
    assert low == 0.0
    assert high == pytest.approx(proportion_confint(0, 20, method="wilson")[1])
    assert Estimate(value=0.0, stderr=0.0, num_units=20, kind="difference").interval() == pytest.approx((-high, high))


@pytest.mark.parametrize(
    ("value", "stderr", "units"), [(math.nan, 0.1, 9), (0.5, math.nan, 9), (0.5, 0.1, 1), (0.5, 0.1, 0)]
)
def test_an_unknown_standard_error_gives_an_unknown_interval(value: float, stderr: float, units: int) -> None:
    for kind in ("share", "difference", "mean"):
        estimate = Estimate(value=value, stderr=stderr, num_units=units, kind=kind)
        assert all(math.isnan(end) for end in estimate.interval())
        assert estimate.as_json()["interval"] == [None, None]


@settings(max_examples=100, deadline=None)
@given(SHARES, st.floats(0.0, 0.5), st.integers(2, 500), LEVELS, st.sampled_from(["share", "difference"]))
def test_an_interval_holds_its_value_within_its_range(
    value: float, stderr: float, units: int, level: float, kind: str
) -> None:
    low, high = Estimate(value=value, stderr=stderr, num_units=units, kind=kind).interval(level)
    assert (0.0 if kind == "share" else -1.0) <= low <= value + 1e-9
    assert value - 1e-9 <= high <= 1.0


def test_json_of_an_estimate_has_the_documented_keys_and_null_for_unknown() -> None:
    shown = Estimate(value=0.25, stderr=math.nan, num_units=8, kind="share").as_json(0.8)
    assert shown == {"value": 0.25, "stderr": None, "num_units": 8, "interval": [None, None], "level": 0.8}
    assert [finite_or_none(x) for x in (1.5, math.inf, -math.inf, math.nan)] == [1.5, None, None, None]
