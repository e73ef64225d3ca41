import contextlib
import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

from predictor.errors import LawError
from predictor.law import LinearLaw
from predictor.law.hierarchical import mixed_fit
from predictor.law.methods import lines_of
from predictor.law.points import collect_points
from predictor.law.simulate import PlantedLaw
from predictor.law.table import tabulate
from predictor.law.york import Errors, york_line
from predictor.records import Estimate, LawFit, LawSpec, RunRecord

GAPS = (0.0, 0.08, 0.15, 0.3, 0.42, 0.6)

PEARSON_X = np.array([0.0, 0.9, 1.8, 2.6, 3.3, 4.4, 5.2, 6.1, 6.5, 7.4])
PEARSON_Y = np.array([5.9, 5.4, 4.4, 4.6, 3.5, 3.7, 2.8, 2.8, 2.4, 1.5])
YORK_X_WEIGHTS = np.array([1000.0, 1000.0, 500.0, 800.0, 200.0, 80.0, 60.0, 20.0, 1.8, 1.0])
YORK_Y_WEIGHTS = np.array([1.0, 1.8, 4.0, 8.0, 20.0, 20.0, 70.0, 70.0, 100.0, 500.0])


def points_of(records):
    return np.array([r.gap.gap.value for r in records]), np.array([r.improvement.value for r in records])


def with_stderr(record: RunRecord, stderr: float) -> RunRecord:
    return record.model_copy(update={"improvement": record.improvement.model_copy(update={"stderr": stderr})})


def test_york_equals_the_published_values_on_pearsons_data_with_yorks_weights():
    """York et al. (2004): a = 5.47991022 ± 0.2950, b = -0.480533407 ± 0.0580, S = 11.866."""
    line = york_line(PEARSON_X, PEARSON_Y, Errors(1 / YORK_X_WEIGHTS, 1 / YORK_Y_WEIGHTS, np.zeros(10)))
    assert line.intercept == pytest.approx(5.47991022, abs=1e-8)
    assert line.slope == pytest.approx(-0.480533407, abs=1e-9)
    assert round(line.intercept_stderr, 4) == 0.2950
    assert round(line.slope_stderr, 4) == 0.0580
    assert line.chi2 == pytest.approx(11.86635319, abs=1e-7)


def test_york_without_errors_in_the_gap_is_weighted_least_squares():
    rng = np.random.default_rng(1)
    x, variance = np.linspace(0, 1, 9), rng.uniform(0.001, 0.01, 9)
    y = 0.1 + 1.3 * x + rng.normal(size=9) * np.sqrt(variance)
    line = york_line(x, y, Errors(np.full(9, 1e-18), variance, np.zeros(9)))
    borrowed = sm.WLS(y, sm.add_constant(x), weights=1 / variance).fit()
    assert (line.intercept, line.slope) == pytest.approx(tuple(borrowed.params), abs=1e-9)


def test_york_with_correlated_errors_recovers_a_planted_slope():
    rng = np.random.default_rng(2)
    true = rng.normal(0.3, 0.1, 4000)
    shared = rng.normal(0, 0.05, 4000)
    x, y = true + shared, 0.02 + 0.6 * true + shared
    same = np.full(4000, 0.05**2)
    assert york_line(x, y, Errors(same, same, same * (1 - 1e-9))).slope == pytest.approx(0.6, abs=0.02)
    assert np.polyfit(x, y, 1)[0] > 0.65, "least squares takes the shared error for slope"


def line_of(records, method):
    """The line alone, without the held-out refits that a fit makes."""
    spec = LawSpec(method=method, allow_mixed=True, form="linear")
    return lines_of(tabulate(collect_points(records, spec).points, 2), spec).families[0]


def slopes(method, *, slope, seeds, **noise):
    planted = PlantedLaw(slope=slope, config_sd=0.02, seed_sd=0.0, student=0.2, **noise)
    rng = np.random.default_rng(3)
    found = []
    for seed in range(seeds):
        records = planted.records(rng.normal(0.3, 0.06, 20), seed=seed, remeasured=True)
        fresh = [record.model_copy(update={"baseline_id": f"again {index}"}) for index, record in enumerate(records)]
        with contextlib.suppress(LawError):
            found.append((line_of(fresh, method).slope, fresh))
    return found


def test_t1_a_remeasured_baseline_manufactures_slope_and_york_with_the_covariance_takes_it_out():
    """T1: planted slope 0; each hint config's own student measurement enters gap and improvement."""
    noise = {"probe_stderr": 0.03, "eval_stderr": 0.03}
    ols, york = (slopes(method, slope=0.0, seeds=60, **noise) for method in ("ols", "york"))
    assert np.mean([slope.value for slope, _ in ols]) > 0.06
    assert abs(np.median([slope.value for slope, _ in york])) < 0.06
    covered = [slope.interval(0.95)[0] <= 0.0 <= slope.interval(0.95)[1] for slope, _ in york]
    assert np.mean(covered) >= 0.9
    fit = LinearLaw(method="ols", allow_mixed=True).fit(ols[0][1])
    names = {guard.name for guard in fit.guards}
    assert {"mixed_baseline", "remeasured_baseline"} <= names, "the summary of ols warns"
    assert "york" in str(fit)


def test_t1_a_shared_baseline_leaves_the_slope_alone_and_shifts_the_intercept():
    records = PlantedLaw(slope=1.5, config_sd=0.02).records(GAPS, seed=4)
    shift = 0.05

    def moved(record):
        gap, improvement = record.gap.gap, record.improvement
        return record.model_copy(
            update={
                "gap": record.gap.model_copy(update={"gap": gap.model_copy(update={"value": gap.value - shift})}),
                "improvement": improvement.model_copy(update={"value": improvement.value - shift}),
            }
        )

    before = LinearLaw(method="ols").fit(records).families[0]
    after = LinearLaw(method="ols").fit([moved(record) for record in records]).families[0]
    assert after.slope.value == pytest.approx(before.slope.value, abs=1e-9)
    assert after.intercept.value - before.intercept.value == pytest.approx(shift * (before.slope.value - 1), abs=1e-9)


def test_t2_probe_noise_flattens_ols_and_not_york_and_ols_still_predicts_at_equally_noisy_gaps():
    """T2: attenuation lambda = Var(g) / (Var(g) + noise); the shared student is no noise of the gaps' differences."""
    rng = np.random.default_rng(5)
    flat, straight, misses = [], [], []
    for seed in range(40):
        planted = PlantedLaw(slope=1.5, probe_stderr=0.04, eval_stderr=0.02, config_sd=0.0, seed_sd=0.0)
        records = planted.records(rng.normal(0.3, 0.05, 41), seed=seed)
        flat.append(line_of(records[:40], "ols"))
        straight.append(line_of(records[:40], "york").slope.value)
        new = records[40]
        line = flat[-1].intercept.value + flat[-1].slope.value * new.gap.gap.value
        misses.append(new.improvement.value - line)
    noise = planted.arm_stderrs[1] ** 2
    expected = 1.5 * 0.05**2 / (0.05**2 + noise)
    assert np.mean([law.slope.value for law in flat]) == pytest.approx(expected, abs=0.06)
    assert np.median(straight) == pytest.approx(1.5, abs=0.1)
    assert abs(np.mean(misses)) < 0.03
    fit = LinearLaw(method="ols", form="linear").fit(records)
    assert any(guard.name == "noisy_gaps" for guard in fit.guards)


def test_york_refuses_gaps_that_are_all_noise():
    planted = PlantedLaw(probe_stderr=0.2, eval_stderr=0.05)
    with pytest.raises(LawError, match="no more than their measurement noise"):
        LinearLaw(method="york").fit(planted.records((0.3, 0.31, 0.29, 0.3, 0.32), seed=3))


def test_wls_and_its_interval_for_a_new_run_equal_statsmodels_with_the_new_runs_weight():
    """Trap 1 of the style dossier: without `weights=` statsmodels assumes unit variance for the new run."""
    stderrs = (0.01, 0.05, 0.02, 0.04, 0.03, 0.02)
    records = [
        with_stderr(record, stderr)
        for record, stderr in zip(PlantedLaw(config_sd=0.03).records(GAPS, seed=6), stderrs, strict=True)
    ]
    x, y = points_of(records)
    borrowed = sm.WLS(y, sm.add_constant(x), weights=1 / np.square(stderrs)).fit()
    fit = LinearLaw(method="wls").fit(records)
    line = fit.families[0]
    assert line.coefficients == pytest.approx(tuple(borrowed.params), abs=1e-10)
    assert line.slope.interval(0.95) == pytest.approx(tuple(borrowed.conf_int()[1]), abs=1e-10)
    new_var = line.unit_var / 128
    frame = borrowed.get_prediction([[1.0, 0.25]], weights=1 / new_var).summary_frame(alpha=0.2)
    gap = Estimate(value=0.25, stderr=0.0, num_units=128)
    low, high = fit.predict(gap).predictive.interval(0.8)
    assert (low, high) == pytest.approx((frame["obs_ci_lower"].iloc[0], frame["obs_ci_upper"].iloc[0]), abs=1e-10)


@pytest.mark.parametrize("method", ["ols", "wls"])
def test_clustered_covariances_equal_statsmodels_to_1e_10(method):
    """One point for each run; the runs of one hint config are one cluster."""
    planted = PlantedLaw(config_sd=0.05, seed_sd=0.02, eval_stderr=0.02)
    stderrs = np.linspace(0.01, 0.04, 18)
    records = [with_stderr(r, float(s)) for r, s in zip(planted.records(GAPS, seeds=3, seed=8), stderrs, strict=True)]
    x, y = points_of(records)
    groups = np.repeat(np.arange(6), 3)
    weights = 1 / stderrs**2 if method == "wls" else np.ones(18)
    borrowed = sm.WLS(y, sm.add_constant(x), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    line = LinearLaw(method=method, unit="run", covariance="clustered", form="linear").fit(records).families[0]
    assert np.asarray(line.covariance) == pytest.approx(borrowed.cov_params(), abs=1e-10)
    assert line.slope.interval(0.95) == pytest.approx(tuple(borrowed.conf_int()[1]), abs=1e-10)
    assert line.df == 5


def test_a_clustered_covariance_is_for_least_squares_only():
    with pytest.raises(LawError, match="no clustered covariance"):
        LinearLaw(method="bayes", covariance="clustered").fit(PlantedLaw().records(GAPS))


def test_s9_wls_refuses_an_improvement_without_standard_error():
    records = [with_stderr(record, 0.0) for record in PlantedLaw().records(GAPS)]
    with pytest.raises(LawError, match="standard error of every improvement"):
        LinearLaw(method="wls").fit(records)


def test_theil_sen_equals_scipy_and_one_odd_run_hardly_moves_it():
    records = PlantedLaw(slope=1.2, config_sd=0.01).records(np.linspace(0, 0.6, 11), seed=7)
    x, y = points_of(records)
    clean = LinearLaw(method="theil_sen").fit(records).families[0]
    assert clean.slope.value == pytest.approx(stats.theilslopes(y, x).slope, abs=1e-12)
    odd = PlantedLaw().record("odd", 0.55, -0.4)
    robust = LinearLaw(method="theil_sen").fit([*records, odd]).families[0].slope
    plain = LinearLaw(method="ols").fit([*records, odd]).families[0].slope
    assert abs(robust.value - 1.2) < 0.1
    assert abs(plain.value - 1.2) > 0.2
    assert robust.interval()[0] < 1.2 < robust.interval()[1]


def test_theil_sen_needs_five_points_and_two_term_methods_refuse_more():
    with pytest.raises(LawError, match="Theil-Sen gives no interval"):
        LinearLaw(method="theil_sen").fit(PlantedLaw().records(GAPS[:4]))
    for method in ("york", "theil_sen"):
        with pytest.raises(LawError, match="intercept and a slope only"):
            LinearLaw(method=method, extra=("coverage",)).fit(PlantedLaw(probe_stderr=0.01).records(GAPS))


def families(num_families, num_configs, *, spread, noise, seed):
    rng = np.random.default_rng(seed)
    records = []
    for number in range(num_families):
        planted = PlantedLaw(
            slope=1.2 + spread * rng.standard_normal(),
            intercept=0.2 * rng.standard_normal(),
            config_sd=noise,
            seed_sd=0.0,
            family=f"f{number}",
        )
        records += planted.records(np.linspace(0.0, 0.6, num_configs), seed=seed)
    return records


def test_hierarchical_agrees_with_statsmodels_mixedlm_reml_on_balanced_data():
    records = families(6, 4, spread=0.4, noise=0.05, seed=1)
    x, y = points_of(records)
    groups = [record.spec.family for record in records]
    design = sm.add_constant(x)
    independent = MixedLMParams.from_components(fe_params=np.ones(2), cov_re=np.eye(2))
    borrowed = MixedLM(y, design, groups=groups, exog_re=design).fit(reml=True, free=independent, method="lbfgs")
    fit = LinearLaw(method="hierarchical").fit(records)
    ours = mixed_fit(tabulate(fit.points, 2))
    assert tuple(ours.coefficients_K) == pytest.approx(tuple(borrowed.fe_params), abs=1e-5)
    assert ours.residual_var == pytest.approx(borrowed.scale, rel=1e-3)
    assert tuple(ours.spread_var_K) == pytest.approx(tuple(np.diag(borrowed.cov_re)), rel=1e-2)
    assert np.sqrt(np.diag(ours.covariance_KK)) == pytest.approx(borrowed.bse_fe, rel=1e-2)
    for number, law in enumerate(fit.families):
        expected = borrowed.fe_params + borrowed.random_effects[f"f{number}"]
        assert law.coefficients == pytest.approx(tuple(expected), abs=1e-3)


def test_hierarchical_shrinks_families_towards_each_other_and_widens_for_an_unseen_one():
    records = families(5, 4, spread=0.1, noise=0.1, seed=2)
    apart = LinearLaw(method="ols").fit(records)
    spec = LawSpec(method="hierarchical")
    lines = lines_of(tabulate(apart.points, 2), spec)
    spread_apart = np.std([law.slope.value for law in apart.families])
    assert np.std([law.slope.value for law in lines.families]) < spread_apart
    pooled = apart.model_copy(update={"spec": spec, "families": lines.families, "new_family": lines.new_family})
    gap = Estimate(value=0.3, stderr=0.0, num_units=128)
    seen, unseen = pooled.predict(gap, family="f0").predictive, pooled.predict(gap, family="new").predictive
    assert unseen.scale >= seen.scale
    assert unseen.df == 4


def test_hierarchical_needs_several_families():
    with pytest.raises(LawError, match="several families"):
        LinearLaw(method="hierarchical").fit(PlantedLaw().records(GAPS))


def ceiling_records(seed=8):
    planted = PlantedLaw(slope=2.1, student=0.15, config_sd=0.02, seed_sd=0.02, saturating=True, eval_stderr=0.01)
    return planted.records(np.linspace(0.0, 0.8, 13), seeds=2, seed=seed)


def test_a_law_that_bends_at_the_ceiling_is_found_chosen_and_named():
    fit = LinearLaw(method="ols").fit(ceiling_records())
    assert fit.form == "saturating"
    assert fit.note.startswith("Form: saturating, because held-out CRPS")
    assert fit.families[0].slope.value == pytest.approx(2.1, abs=0.25)
    straight = LinearLaw(method="ols", form="linear").fit(ceiling_records())
    assert straight.families[0].slope.value < 1.5
    assert fit.leave_one_out.mae < 0.6 * straight.leave_one_out.mae
    assert LawFit.model_validate_json(fit.to_json()).form == "saturating"


def test_t6_intervals_of_a_saturating_law_respect_the_ceiling_and_leave_it_some_width():
    fit = LinearLaw().fit(ceiling_records())
    predictive = fit.predict(Estimate(value=0.8, stderr=0.01, num_units=128), student=0.15).predictive
    low, high = predictive.interval(0.8)
    assert high == pytest.approx(0.85)
    assert 0.7 < low < 0.85
    assert predictive.mean == pytest.approx(0.84, abs=0.03)


def test_a_straight_law_stays_straight():
    records = PlantedLaw(slope=1.0, student=0.15, config_sd=0.03).records(np.linspace(0, 0.82, 12), seed=9)
    assert LinearLaw(method="ols").fit(records).form == "linear"
    few = ceiling_records()[::6]
    assert LinearLaw(method="ols").fit(few).form == "linear", "too few hint configs to tell a bend from noise"


def test_an_unknown_student_accuracy_leaves_the_widest_bounds():
    fit = LinearLaw().fit(PlantedLaw().records(GAPS))
    gap = Estimate(value=0.3, stderr=0.01, num_units=128)
    assert fit.predict(gap, student=math.nan).predictive == fit.predict(gap, student=None).predictive
