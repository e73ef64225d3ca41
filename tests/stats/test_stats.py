import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from predictor.errors import DataError
from predictor.stats import (
    accuracies,
    bootstrap_mean,
    bootstrap_statistic,
    cluster_mean,
    difference,
    distinct_samples,
    examples_needed,
    gap_stderr,
    harm,
    minimal_detectable_gap,
    paired_difference,
    percentile_interval,
    power_to_detect,
    recovery,
    repeated_samples,
    share_interval,
)


def simulated_arms(num_examples, rollouts, seed):
    """Student mean 0.28 and gap 0.106 on heterogeneous examples, as in the simulations behind trap T4."""
    rng = np.random.default_rng(seed)
    student = rng.beta(0.35, 0.9, size=num_examples)
    teacher = np.clip(student + rng.normal(0.106, 0.12, size=num_examples), 0, 1)
    return rng.binomial(rollouts, student) / rollouts, rng.binomial(rollouts, teacher) / rollouts


def test_cluster_standard_error_equals_statsmodels_clustered_covariance():
    rng = np.random.default_rng(1)
    units = [f"passage{index % 17}" for index in range(90)]
    values = rng.normal(size=90) + np.array([hash(unit) % 7 for unit in units]) / 7
    codes = np.unique(units, return_inverse=True)[1]
    # statsmodels multiplies by (n-1)/(n-k) = 1 here and G/(G-1), which is CR1.
    borrowed = sm.OLS(values, np.ones(90)).fit(cov_type="cluster", cov_kwds={"groups": codes})
    ours = cluster_mean(values, units)
    assert ours.stderr == pytest.approx(borrowed.bse[0], rel=1e-10)
    assert ours.num_units == 17


def test_examples_without_clusters_give_the_sample_standard_error():
    values = np.array([0.1, 0.5, 0.9, 0.3])
    assert cluster_mean(values).stderr == pytest.approx(values.std(ddof=1) / 2, rel=1e-12)


def test_degrees_of_freedom_are_those_of_the_estimated_variance():
    """Satterthwaite: 2 (mean variance)^2 / (variance of the variance), which for k of U equal units is near 2 k."""
    rng = np.random.default_rng(7)
    assert cluster_mean([-0.1, 0.0, 0.0, 0.0, 0.0, 0.1]).degrees is None, "k = 3 gives U - 1"
    for few in (1, 3, 10):
        sparse = np.r_[np.ones(few), np.zeros(1000 - few)]
        assert cluster_mean(sparse).degrees == pytest.approx(2 * few, rel=0.05)
    draws = rng.choice([0.0, 1.0], p=[0.9, 0.1], size=(4000, 60))
    variances = draws.var(axis=1, ddof=1)
    truth = 2 * variances.mean() ** 2 / variances.var()
    found = np.median([cluster_mean(draw).degrees or 59.0 for draw in draws[:400]])
    assert found == pytest.approx(truth, rel=0.1)


def test_few_units_that_carry_the_difference_widen_its_interval_and_evenly_spread_ones_do_not():
    sparse = cluster_mean([0.5, 0.5, *[0.0] * 98], kind="difference")
    plain = stats.t.interval(0.95, 99, loc=sparse.value, scale=sparse.stderr)
    assert sparse.interval()[1] > plain[1]
    even = cluster_mean([0.5, -0.5] * 50, kind="difference")
    assert even.interval() == pytest.approx(stats.t.interval(0.95, 99, loc=even.value, scale=even.stderr))


def test_a_paired_difference_knows_the_shares_it_is_the_difference_of():
    teacher, student = simulated_arms(40, 8, seed=3)
    units = [f"u{number // 2}" for number in range(40)]
    found = paired_difference(teacher, student, units)
    assert found.sides == tuple(cluster_mean(side, units, kind="share") for side in (teacher, student))
    assert found.sides[0].value - found.sides[1].value == pytest.approx(found.value)


def test_one_unit_has_an_unknown_standard_error_and_never_zero():
    assert math.isnan(paired_difference([0.5], [0.25]).stderr)
    assert math.isnan(cluster_mean([0.5, 0.7], ["same", "same"]).stderr)


def test_s1_every_bootstrap_draw_recomputes_the_macro_statistic():
    """S1: an interval for another estimand does not even contain the reported value."""
    accuracy = np.array([1.0] * 40 + [0.0] * 10)
    weights = np.array([1.0] * 40 + [99.0] * 10)
    macro = cluster_mean(accuracy).value
    low, high = percentile_interval(bootstrap_mean(accuracy, draws=1000))
    assert low <= macro <= high
    pooled = bootstrap_statistic(lambda a, w: float(a @ w / w.sum()), [accuracy, weights], draws=300)
    assert percentile_interval(pooled)[1] < macro, "the pooled share is another estimand, and is named as one"


def test_s2_identical_rollouts_add_no_information():
    """S2: K copies of one rollout give the standard error of K = 1."""
    rng = np.random.default_rng(2)
    once = [(f"e{index}", bool(rng.random() < 0.4)) for index in range(60)]
    copied = [outcome for outcome in once for _ in range(8)]
    assert accuracies(copied).estimate().stderr == pytest.approx(accuracies(once).estimate().stderr)
    assert repeated_samples([("a", "a", "a"), ("a", "b"), ("c",)]) == 1
    assert distinct_samples(["a", "a", "b"]) == 2


def test_s5_undecided_rollouts_are_counted_and_never_poison_or_enter_the_mean():
    """S5: the mean is over what was judged, and the rest is counted."""
    found = accuracies([("a", True), ("a", None), ("b", False), ("b", True), ("c", None), ("c", None)])
    assert found.by_example == {"a": 1.0, "b": 0.5}
    assert found.estimate().value == 0.75
    assert found.num_undecided == 3
    assert found.undecided == pytest.approx(0.5)
    assert found.unjudged == ("c",)
    with pytest.raises(DataError, match="not a number"):
        cluster_mean([0.1, math.nan])


def test_s9_a_missing_standard_error_gives_no_interval_instead_of_zero_to_one():
    """S9: unknown stays unknown."""
    estimate = cluster_mean([0.4], kind="share")
    assert all(math.isnan(bound) for bound in estimate.interval())


def test_t4_pairing_over_examples_gives_the_simulated_standard_errors():
    """T4: pairing, not counting rollouts as independent, decides the standard error of a gap."""
    paired, unpaired = [], []
    for seed in range(40):
        student, teacher = simulated_arms(131, 8, seed)
        paired.append(paired_difference(teacher, student).stderr)
        unpaired.append(math.hypot(cluster_mean(teacher).stderr, cluster_mean(student).stderr))
    assert np.mean(paired) == pytest.approx(0.0163, abs=0.003)
    assert np.mean(unpaired) > 2 * np.mean(paired)


def test_t4_the_paired_standard_error_is_the_spread_of_repeated_probes():
    """T4: the printed error is the spread of repeated probes."""
    found = [paired_difference(*reversed(simulated_arms(131, 8, seed))) for seed in range(300)]
    spread = np.std([estimate.value for estimate in found], ddof=1)
    assert np.mean([estimate.stderr for estimate in found]) == pytest.approx(spread, rel=0.12)


def test_t5_recovery_of_a_bare_resample_is_what_a_hint_must_beat():
    """T5: resampling alone recovers failures; the hint's share is what lies above it."""
    rng = np.random.default_rng(5)
    truth = rng.beta(1, 1, size=2000)
    student, resample = rng.binomial(8, truth) / 8, rng.binomial(8, truth) / 8
    names = [f"e{index}" for index in range(2000)]

    def arm(shares):
        return accuracies(
            (name, draw < round(8 * share)) for name, share in zip(names, shares, strict=True) for draw in range(8)
        )

    bare = recovery(arm(resample), arm(student))
    assert bare.value == pytest.approx(1 / 3, abs=0.03), "E[p(1-p)] / E[1-p] for uniform p"
    assert harm(arm(resample), arm(student)).value == pytest.approx(1 / 3, abs=0.03)
    assert difference(arm(resample), arm(student)).value == pytest.approx(0.0, abs=0.02)


def test_recovery_without_failures_is_unknown():
    always = accuracies([("a", True), ("b", True)])
    assert math.isnan(recovery(always, always).value)


@pytest.mark.parametrize(("method", "scipy_name"), [("wilson", "wilson"), ("exact", "exact")])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 12), (12, 12), (5, 12), (30, 131)])
def test_share_intervals_equal_scipy(method, scipy_name, successes, trials):
    borrowed = stats.binomtest(successes, trials).proportion_ci(0.9, method=scipy_name)
    assert share_interval(successes, trials, level=0.9, method=method) == pytest.approx(tuple(borrowed), abs=1e-10)


def test_jeffreys_interval_is_open_at_the_ends_only_where_it_must_be():
    low, high = share_interval(0, 10, method="jeffreys")
    assert low == 0.0
    assert 0.15 < high < 0.25


def test_minimal_detectable_gap_has_the_stated_power():
    gap = minimal_detectable_gap(0.3, 200, power=0.8)
    assert power_to_detect(gap, 0.3, 200) == pytest.approx(0.8, abs=1e-3)
    assert examples_needed(gap, 0.3) in (200, 201)
    assert examples_needed(gap, 0.3, deff=2.0) in (400, 401)


def test_more_rollouts_help_less_and_less():
    errors = [gap_stderr(131, k, between_var=0.02, within_var=0.3) for k in (1, 2, 4, 8, 64)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] > math.sqrt(0.02 / 131)


def test_clustered_bootstrap_agrees_with_the_clustered_standard_error():
    rng = np.random.default_rng(8)
    units = [f"u{index // 5}" for index in range(300)]
    values = rng.normal(size=300) + np.repeat(rng.normal(size=60), 5)
    spread = bootstrap_mean(values, units, draws=3000).std()
    assert spread == pytest.approx(cluster_mean(values, units).stderr, rel=0.08)
    naive = bootstrap_mean(values, draws=1000).std()
    assert naive < 0.7 * spread, "resampling examples of one cluster apart pretends to more than there is"


def test_bootstrap_of_any_statistic_agrees_with_the_fast_mean():
    values = np.random.default_rng(9).normal(size=80)
    slow = bootstrap_statistic(lambda column: float(column.mean()), [values], draws=2000)
    assert slow.std() == pytest.approx(bootstrap_mean(values, draws=2000).std(), rel=0.1)


def test_columns_of_different_length_are_refused():
    with pytest.raises(DataError, match="differ in length"):
        bootstrap_statistic(float, [np.ones(3), np.ones(4)])
    with pytest.raises(DataError, match="same examples"):
        paired_difference([0.1], [0.1, 0.2])
    with pytest.raises(DataError, match="no judged example in common"):
        difference(accuracies([("a", True)]), accuracies([("b", True)]))
    with pytest.raises(DataError, match="units do not match"):
        cluster_mean([0.1, 0.2], ["a"])
    with pytest.raises(DataError, match="successes"):
        share_interval(3, 2)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([True, False, None])), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rollouts_never_matters(outcomes, shuffler):
    named = [(f"e{example}", correct) for example, correct in outcomes]
    moved = list(named)
    shuffler.shuffle(moved)
    first, second = accuracies(named), accuracies(moved)
    assert dict(first.by_example) == dict(second.by_example)
    assert first.num_undecided == second.num_undecided


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_a_paired_difference_with_itself_is_zero(values):
    estimate = paired_difference(values, values)
    assert estimate.value == 0.0
    assert estimate.stderr == 0.0
    low, high = estimate.interval()
    assert low < 0.0 < high, "identical units leave a bound open"
