import math

import numpy as np
import pytest
from scipy import stats

from predictor.errors import LawError
from predictor.law import LinearLaw
from predictor.law.bootstrap import bootstrap_line
from predictor.law.compare import compare, influence
from predictor.law.methods import lines_of
from predictor.law.points import collect_points
from predictor.law.select import select_law
from predictor.law.simulate import PlantedLaw
from predictor.law.size import Noise, half_width, next_gaps, noise_of, plan_sizes
from predictor.law.table import tabulate
from predictor.records import Estimate, LawSpec
from predictor.records.law.predict import predict_run

GAPS = np.linspace(0.0, 0.6, 12)


def hidden_rule_records(seed=0, num_configs=12, coverage_effect=0.0):
    """Raw gaps mislead, consensus gaps predict; coverage adds what it is told to."""
    rng = np.random.default_rng(seed)
    planted = PlantedLaw(slope=1.0, config_sd=0.02, probe_stderr=0.01, eval_stderr=0.01, student=0.15)
    records = []
    for index, consensus in enumerate(rng.uniform(-0.1, 0.6, num_configs)):
        coverage = float(rng.uniform(0.3, 1.0))
        outcome = consensus + coverage_effect * (coverage - 0.6) + 0.02 * rng.standard_normal()
        record = planted.record(f"h{index}", float(rng.uniform(0.2, 0.8)), float(outcome))
        gap = record.gap.model_copy(
            update={
                "coverage": coverage,
                "consensus_gap": Estimate(value=float(consensus), stderr=0.01, num_units=128, kind="difference"),
            }
        )
        records.append(record.model_copy(update={"gap": gap}))
    return records


def test_selection_prefers_the_gap_that_predicts_held_out_hint_configs():
    fit, selection = select_law(hidden_rule_records(), LinearLaw(method="ols"))
    assert fit.spec.predictor == "consensus_gap"
    assert selection.chosen == "improvement ~ 1 + consensus_gap"
    by_name = {candidate.predictor: candidate for candidate in selection.candidates}
    assert by_name["consensus_gap"].errors.mae < 0.3 * by_name["gap"].errors.mae
    assert "net_gap" in by_name
    assert "was not measured" in by_name["net_gap"].refused
    assert "chosen" in str(selection)
    assert selection._repr_html_().startswith("<pre>")


def test_selection_never_takes_more_terms_than_the_runs_support():
    records = hidden_rule_records(num_configs=9, coverage_effect=0.5)
    fit, selection = select_law(records, LinearLaw(method="ols"), extra=("coverage",))
    assert fit.spec.extra == ()
    assert "do not support" in selection.candidates[-1].refused


def test_selection_takes_a_term_that_pays_and_leaves_one_that_does_not():
    paying = hidden_rule_records(num_configs=24, coverage_effect=0.5)
    fit, selection = select_law(paying, LinearLaw(method="ols"), extra=("coverage",))
    assert fit.spec.extra == ("coverage",)
    assert "without its extra term" in selection.reason
    idle = hidden_rule_records(num_configs=24, coverage_effect=0.0)
    assert select_law(idle, LinearLaw(method="ols"), extra=("coverage",))[0].spec.extra == ()


def test_selection_without_any_usable_predictor_says_so():
    with pytest.raises(LawError, match="no predictor could be compared"):
        select_law(hidden_rule_records()[:2], LinearLaw(method="ols"))


def test_compare_puts_fits_side_by_side():
    records = PlantedLaw(probe_stderr=0.01, eval_stderr=0.02).records(GAPS)
    table = compare({name: LinearLaw(method=name).fit(records) for name in ("ols", "bayes", "wls", "york")})
    assert table.head == ("", "ols", "bayes", "wls", "york")
    assert {row[0] for row in table.rows} >= {"formula", "slope planted", "held-out MAE", "guards"}
    assert "improvement ~ 1 + gap" in str(table)
    assert table._repr_html_().startswith("<pre>")


def test_the_run_that_moves_the_slope_comes_first_with_the_slope_without_it():
    records = [*PlantedLaw(slope=1.0, config_sd=0.01).records(GAPS), PlantedLaw().record("odd", 0.7, 0.1)]
    fit = LinearLaw(method="ols").fit(records)
    first = influence(fit)[0]
    assert first.label == "odd"
    without = LinearLaw(method="ols").fit(records[:-1]).families[0].slope.value
    assert first.slope == pytest.approx(without, abs=1e-12)
    assert first.shift == pytest.approx(fit.families[0].slope.value - without, abs=1e-12)
    assert first.shift_in_stderrs < -1
    assert first.residual < -0.5
    assert influence(LinearLaw().fit([])) == ()


def test_bootstrap_of_the_slope_agrees_with_its_standard_error():
    records = PlantedLaw(config_sd=0.05).records(np.linspace(0, 0.6, 40), seed=1)
    fit = LinearLaw(method="ols").fit(records)
    boot = bootstrap_line(fit, draws=2000)
    assert np.std(boot.slopes_D) == pytest.approx(fit.families[0].slope.stderr, rel=0.25)
    low, high = boot.slope_interval(0.9)
    assert low < 1.0 < high
    line_low, line_high = boot.line_interval(0.3)
    assert line_low < 0.3 < line_high


def test_bootstrap_of_three_points_survives_draws_of_one_gap_only():
    boot = bootstrap_line(LinearLaw(method="ols").fit(PlantedLaw().records((0.1, 0.3, 0.5))), draws=500)
    assert np.isnan(boot.slopes_D).any()
    assert all(math.isfinite(bound) for bound in boot.slope_interval())
    with pytest.raises(LawError, match="three hint configs"):
        bootstrap_line(LinearLaw().fit(PlantedLaw().records((0.1, 0.3))))


def test_planned_half_width_is_what_a_study_of_that_size_gets():
    planted = PlantedLaw(slope=1.0, config_sd=0.03, seed_sd=0.0, probe_stderr=0.03, eval_stderr=0.04, student=0.2)
    _, teacher, trained = planted.arm_stderrs
    noise = Noise(
        slope=1.0,
        run_var=0.03**2,
        gap_between=0.0,
        gap_within=teacher**2 * 128 * 8,
        outcome_between=0.0,
        outcome_within=trained**2 * 128 * 8,
    )
    expected = half_width(noise, 10, 128, 8)
    found, spec = [], LawSpec(method="ols")
    for seed in range(60):
        points = collect_points(planted.records(np.linspace(0, 0.6, 10), seed=seed), spec).points
        law = lines_of(tabulate(points, 2), spec).families[0]
        gap = Estimate(value=0.3, stderr=0.03, num_units=128)
        predictive = predict_run(law, gap, (), student=None, num_eval_units=128).predictive
        found.append(stats.t.ppf(0.9, predictive.df) * predictive.scale)
    assert np.mean(found) == pytest.approx(expected, rel=0.08)


def test_noise_of_a_fit_gives_its_own_size_back():
    planted = PlantedLaw(config_sd=0.03, probe_stderr=0.02, eval_stderr=0.03)
    fit = LinearLaw(method="ols").fit(planted.records(GAPS, seed=2))
    law = fit.families[0]
    noise = noise_of(law)
    known = law.slope.value**2 * law.probe_var + law.eval_var
    assert noise.residual_var(128, 8) == pytest.approx(max(law.residual_var, known), rel=1e-6)
    with pytest.raises(LawError, match="follows from fitted runs"):
        noise_of(LinearLaw().fit([]).line("none"))


def test_a_size_plan_lists_the_cheapest_first_and_says_never_where_runs_differ_too_much():
    noise = Noise(1.0, 0.02**2, 0.02, 0.3, 0.05, 0.3)
    plan = plan_sizes(noise, wanted=0.06)
    costs = [size.num_rollouts for size in plan.sizes if size.num_rollouts is not None]
    assert costs == sorted(costs)
    assert plan.cheapest is not None
    assert plan.cheapest.half_width <= 0.06
    hopeless = plan_sizes(Noise(1.0, 0.1**2, 0.02, 0.3, 0.05, 0.3), wanted=0.06)
    assert hopeless.cheapest is None
    assert "never" in str(hopeless)
    assert half_width(noise, 2, 128, 8) == math.inf


def test_the_next_gap_that_sharpens_the_slope_most_is_the_far_end_below_the_ceiling():
    fit = LinearLaw(method="ols").fit(PlantedLaw(student=0.2, config_sd=0.05).records((0.1, 0.2, 0.25, 0.3), seed=3))
    best, *_, last = next_gaps(fit, (0.0, 0.2, 0.5, 0.7, 1.2))
    assert best.gap == 0.7
    assert not last.below_ceiling
    assert best.slope_stderr < fit.families[0].slope.stderr


def test_next_gap_predicts_the_standard_error_that_one_more_run_gives():
    records = PlantedLaw(config_sd=0.05).records((0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), seed=4)
    fit = LinearLaw(method="ols").fit(records[:-1])
    (expected,) = next_gaps(fit, (0.7,))
    x = np.array([record.gap.gap.value for record in records])
    exact = fit.families[0].residual_sd / math.sqrt(np.sum((x - x.mean()) ** 2))
    assert expected.slope_stderr == pytest.approx(exact, rel=1e-6)


def test_s6_a_formula_is_read_and_a_near_miss_is_named():
    """S6: an unknown name is an error that names the nearest valid one."""
    law = LinearLaw.from_formula("train_improvement ~ 1 + consensus_gap + coverage", method="ols")
    assert law.formula == "train_improvement ~ 1 + consensus_gap + coverage"
    assert law.method == "ols"
    with pytest.raises(LawError, match="unknown term `consensus_gpa`") as caught:
        LinearLaw.from_formula("improvement ~ consensus_gpa")
    assert "consensus_gap" in caught.value.fix
    with pytest.raises(ValueError, match="methd"):
        LinearLaw.model_validate({"methd": "ols"})


def test_covariates_give_terms_that_no_record_holds():
    records = PlantedLaw(config_sd=0.02).records(GAPS)
    sizes = {f"hint{index:05d}": float(index % 3) for index in range(len(GAPS))}
    law = LinearLaw(method="ols", extra=("log_params",), covariates={"log_params": sizes})
    assert len(law.fit(records).families[0].coefficients) == 3
