import math

import pytest

from predictor.errors import LawError
from predictor.law import LinearLaw
from predictor.law.simulate import PlantedLaw
from predictor.records import Estimate, RunRecord

GAPS = (0.0, 0.1, 0.25, 0.4)
PLANTED = PlantedLaw()


def names(fit):
    return {guard.name for guard in fit.guards}


def changed(record: RunRecord, **update) -> RunRecord:
    spec = {key: update.pop(key) for key in list(update) if key in type(record.spec).model_fields}
    return record.model_copy(update=update | {"spec": record.spec.model_copy(update=spec)})


def test_s3_two_points_are_an_error_and_not_p_equal_zero():
    """S3: scipy.stats.linregress returns p = 0 and standard error 0 for n = 2."""
    with pytest.raises(LawError, match="no error at all"):
        LinearLaw(method="ols").fit(PLANTED.records(GAPS[:2]))
    fit = LinearLaw().fit(PLANTED.records(GAPS[:2]))
    assert {"two_points", "few_gaps"} <= names(fit)
    assert fit.exit_code == 0, "with the prior two points are few, not wrong"


def test_s3_identical_gaps_are_an_error():
    """S3: scipy raises, we say why."""
    with pytest.raises(LawError, match="cannot be told apart"):
        LinearLaw(method="ols").fit(PLANTED.records((0.2, 0.2, 0.2, 0.2)))


def test_s3_two_distinct_gaps_give_a_line_and_no_interval():
    """S3: fewer than three distinct gaps have no interval."""
    fit = LinearLaw(method="ols").fit(PLANTED.records((0.1, 0.1, 0.3, 0.3)))
    assert "few_gaps" in names(fit)
    assert fit.exit_code == 3
    predictive = fit.predict(Estimate(value=0.2, stderr=0.0, num_units=64)).predictive
    assert math.isnan(predictive.interval(0.8)[0])
    assert predictive.mean == pytest.approx(0.2, abs=0.05)


def test_s3_a_constant_improvement_has_no_r_squared():
    """S3: constant y."""
    records = [PLANTED.record(f"h{i}", gap, 0.05) for i, gap in enumerate(GAPS)]
    fit = LinearLaw(method="ols").fit(records)
    assert "constant_improvement" in names(fit)
    assert math.isnan(fit.families[0].r2)


def test_s3_missing_numbers_are_listed_and_dropped_only_on_request():
    """S3, S4: one NaN never turns everything NaN, nor goes away in silence."""
    records = PLANTED.records(GAPS)
    broken = records[1].model_copy(
        update={"improvement": Estimate(value=math.nan, stderr=0.1, num_units=8, kind="difference")}
    )
    rows = [records[0], broken, *records[2:]]
    with pytest.raises(LawError, match="missing numbers") as caught:
        LinearLaw(method="ols").fit(rows)
    assert "hint00001" in caught.value.found
    fit = LinearLaw(method="ols", drop_missing=True).fit(rows)
    assert [entry.hint for entry in fit.left_out] == ["hint00001"]
    assert "missing_values" in names(fit)


def test_s9_a_missing_standard_error_is_an_error_and_not_zero():
    """S9: missing is an error, not 0 and not [0, 1]."""
    record = PLANTED.records(GAPS)[0]
    bare = Estimate(value=0.1, stderr=math.nan, num_units=1, kind="difference")
    with pytest.raises(LawError, match="missing numbers"):
        LinearLaw().fit([record.model_copy(update={"improvement": bare})])
    with pytest.raises(LawError, match="standard error"):
        LinearLaw().fit([]).predict(bare, family="x")


def test_s3_duplicates_are_rejected_or_dropped_by_name():
    """S3: duplicates are named."""
    records = PLANTED.records(GAPS)
    with pytest.raises(LawError, match="more than once"):
        LinearLaw(method="ols").fit([*records, records[0]])
    fit = LinearLaw(method="ols", drop_duplicates=True).fit([*records, records[0]])
    assert fit.num_runs == 4
    assert "duplicate_records" in names(fit)
    assert fit.left_out[0].reason.startswith("duplicate")


def test_unfinished_runs_pilots_and_runs_without_gap_are_listed():
    records = PLANTED.records(GAPS)
    extra = [
        changed(records[0], state="failed", reason="out of memory", seed=7),
        changed(records[1], fidelity="pilot", seed=8),
        changed(records[2], gap=None, seed=9),
    ]
    fit = LinearLaw(method="ols").fit(records + extra)
    reasons = [entry.reason for entry in fit.left_out]
    assert fit.num_runs == 4
    assert reasons[0] == "the run is failed (out of memory)"
    assert "pilot" in reasons[1]
    assert "no gap" in reasons[2]


@pytest.mark.parametrize(
    ("guard", "change"),
    [
        ("mixed_task", {"task": "other"}),
        ("mixed_decoding", {"decoding": "greedy"}),
        ("mixed_steps", {"num_steps": 10}),
        ("mixed_preset", {"preset": "smollm"}),
        ("mixed_checkpoint_rule", {"checkpoint_rule": "best"}),
        ("mixed_baseline", {"baseline_id": "measured again"}),
    ],
)
def test_mixed_records_are_refused_unless_asked_for(guard, change):
    records = PLANTED.records(GAPS)
    mixed = [changed(records[0], **change), *records[1:]]
    with pytest.raises(LawError, match="do not belong to one law") as caught:
        LinearLaw(method="ols").fit(mixed)
    assert caught.value.exit_code == 2
    fit = LinearLaw(method="ols", allow_mixed=True).fit(mixed)
    assert guard in names(fit)
    assert fit.exit_code == 3


def test_two_training_settings_are_mixed_even_under_one_preset_but_unknown_ones_are_not():
    records = PLANTED.records(GAPS)
    forward = [records[0].model_copy(update={"training_key": "forward"}), *records[1:]]
    assert "mixed_training" not in names(LinearLaw(method="ols").fit(forward))
    both = [*forward[:-1], records[-1].model_copy(update={"training_key": "reverse"})]
    with pytest.raises(LawError, match="training settings differs: forward, reverse"):
        LinearLaw(method="ols").fit(both)
    assert "mixed_training" in names(LinearLaw(method="ols", allow_mixed=True).fit(both))


def test_steps_may_differ_when_they_are_a_term():
    records = [changed(r, num_steps=10 * (1 + i % 3)) for i, r in enumerate(PLANTED.records((0, 0.1, 0.2, 0.3, 0.4)))]
    assert "mixed_steps" not in names(LinearLaw(method="ols", extra=("num_steps",)).fit(records))


def test_s8_results_at_the_best_checkpoint_are_labelled():
    """S8: the final step is the default; the best one is said to be the best one."""
    records = [changed(record, checkpoint_rule="best") for record in PLANTED.records(GAPS)]
    fit = LinearLaw(method="ols").fit(records)
    assert "peak_checkpoint" in names(fit)
    assert fit.exit_code == 3


def test_a_saturated_student_is_named():
    fit = LinearLaw(method="ols").fit(PlantedLaw(student=0.97).records(GAPS))
    assert "saturated_student" in names(fit)


def test_t2_noisy_gaps_are_named_with_their_share():
    """T2: the flattening is told where it matters."""
    fit = LinearLaw(method="ols").fit(PlantedLaw(probe_stderr=0.1).records(GAPS, seed=2))
    guard = next(guard for guard in fit.guards if guard.name == "noisy_gaps")
    assert "not biased" in guard.message


def test_a_predictor_that_was_not_measured_is_an_error_that_names_it_or_a_flagged_fallback():
    records = PLANTED.records(GAPS)
    with pytest.raises(LawError, match="`consensus_gap` was not measured for hint config `hint00000`"):
        LinearLaw(predictor="consensus_gap").fit(records)
    fit = LinearLaw(predictor="consensus_gap", fallback="gap").fit(records)
    guard = next(guard for guard in fit.guards if guard.name == "fallback_predictor")
    assert guard.severity == "doubt"
    assert fit.points[0].predictor == "gap"


def test_training_improvement_is_another_response_and_never_stands_in():
    records = PLANTED.records(GAPS)
    with pytest.raises(LawError, match="missing numbers"):
        LinearLaw(response="train_improvement").fit(records)


def test_no_records_and_no_prior_is_an_error_that_says_what_to_do():
    with pytest.raises(LawError, match="no finished run"):
        LinearLaw(method="ols").fit([])
    with pytest.raises(LawError, match="no finished run"):
        LinearLaw(prior="none").fit([])


def test_one_family_with_too_few_points_is_skipped_by_name_when_another_can_be_fitted():
    other = PlantedLaw(family="other")
    fit = LinearLaw(method="ols").fit(PLANTED.records(GAPS) + other.records(GAPS[:2]))
    assert [line.family for line in fit.families] == ["planted"]
    assert any("other" in guard.message and guard.name == "few_gaps" for guard in fit.guards)


def test_too_many_terms_for_the_points_are_refused():
    with pytest.raises(LawError, match="too few points"):
        LinearLaw(method="ols", extra=("coverage",)).fit(PLANTED.records(GAPS[:3]))


def test_s7_a_fit_to_be_doubted_and_a_fit_that_failed_never_end_with_exit_code_0():
    """S7: 3 is done but not to be trusted, 2 is input that must change."""
    doubtful = LinearLaw(method="ols").fit([changed(r, checkpoint_rule="best") for r in PLANTED.records(GAPS)])
    assert doubtful.exit_code == 3
    assert LinearLaw(method="ols").fit(PLANTED.records(GAPS)).exit_code == 0
    with pytest.raises(LawError) as caught:
        LinearLaw(method="ols").fit(PLANTED.records(GAPS[:2]))
    assert caught.value.exit_code == 2
