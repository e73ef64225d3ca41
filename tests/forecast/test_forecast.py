import math

import numpy as np
import pytest

from predictor.errors import LawError, StoreError
from predictor.forecast import forecast, forecast_of_pilot, freeze, score, verify, with_pilot
from predictor.law import LinearLaw, PilotPair, pilot_pairs, published_prior
from predictor.law.simulate import PlantedLaw
from predictor.planner import candidate_from_forecast, update_with_pilot
from predictor.records import Estimate, FrozenForecast, Provenance

PLANTED = PlantedLaw(slope=1.0, student=0.15, probe_stderr=0.02, eval_stderr=0.03)
PILOT = published_prior().pilot
GAPS = (0.0, 0.1, 0.25, 0.4, 0.6)
BEFORE = Provenance(time_utc="2026-01-01T12:00:00.000001+00:00", git_commit="abc")
AFTER = Provenance(time_utc="2026-01-03T00:00:00.000000+00:00")


def forecasts(records=None, gaps=(0.0, 0.3, 0.8), **settings):
    fit = LinearLaw(**settings).fit(PLANTED.records(GAPS) if records is None else records)
    wanted = [PLANTED.gap(f"new{index}", gap) for index, gap in enumerate(gaps)]
    return forecast(fit, wanted, threshold=0.05)


def names(item):
    return {guard.name for guard in item.guards}


def test_each_hint_config_gets_one_forecast_and_controls_none():
    fit = LinearLaw().fit(PLANTED.records(GAPS))
    gap = PLANTED.gap("a", 0.3)
    control = gap.model_copy(update={"hint": "a/irrelevant", "is_control": True, "control_of": "a"})
    found = forecast(fit, [gap, control], threshold=0.05)
    assert [item.hint for item in found] == ["a"]
    assert found[0].num_own_runs == 5
    assert found[0].improvement.value == pytest.approx(0.3, abs=0.1)


def test_t6_a_forecast_never_leaves_what_the_student_can_gain_or_lose():
    """T6: student + improvement ≤ 1, the clipped mass is reported, and beyond the fitted gaps is extrapolation."""
    low, _, high = forecasts(gaps=(-0.5, 0.3, 1.2))
    for item in (low, high):
        assert -0.15 <= item.improvement.interval95[0] <= item.improvement.interval95[1] <= 0.85
        assert "extrapolation" in names(item)
    assert high.improvement.clipped_above > 0.5
    assert "ceiling" in names(high)
    assert low.improvement.clipped_below > 0.5
    assert high.extrapolation == pytest.approx(1.0, abs=0.2)


def test_p_pays_is_the_mass_above_the_threshold():
    zero, middle, large = forecasts()
    assert zero.p_pays < 0.5 < middle.p_pays < large.p_pays
    assert forecast(LinearLaw().fit([]), [PLANTED.gap("a", 0.8)], threshold=0.9)[0].p_pays == 0.0


def test_without_own_runs_the_forecast_says_that_the_prior_speaks():
    item = forecasts(records=[])[1]
    assert "prior_only" in names(item)
    assert math.isnan(item.extrapolation)
    assert item.as_json()["extrapolation"] is None
    assert item.num_own_runs == 0


def test_a_gap_that_cannot_be_kept_is_flagged_and_louder_when_the_raw_gap_predicts():
    gap = PLANTED.gap("hidden", 0.4, consensus_gap=-0.1)
    raw = forecast(LinearLaw().fit([]), [gap], threshold=0.0)[0]
    mean = forecast(LinearLaw(predictor="consensus_gap").fit([]), [gap], threshold=0.0)[0]
    severities = {
        item.predictor: next(g.severity for g in item.guards if g.name == "disagreement") for item in (raw, mean)
    }
    assert severities == {"gap": "doubt", "consensus_gap": "note"}
    assert raw.improvement.value > 0.2
    assert mean.improvement.value < 0.0
    same = PLANTED.gap("shared", 0.4, consensus_gap=0.39)
    assert "disagreement" not in names(forecast(LinearLaw().fit([]), [same], threshold=0.0)[0])


def test_a_missing_predictor_is_an_error_or_a_flagged_guess():
    fit = LinearLaw(predictor="consensus_gap").fit([])
    with pytest.raises(LawError, match="`consensus_gap` was not measured"):
        forecast(fit, [PLANTED.gap("a", 0.3)], threshold=0.0)
    fit = LinearLaw(predictor="consensus_gap", fallback="gap").fit([])
    item = forecast(fit, [PLANTED.gap("a", 0.3)], threshold=0.0)[0]
    assert item.predictor == "gap"
    assert "fallback_predictor" in names(item)


def test_json_has_the_keys_of_the_design():
    frozen = freeze(forecasts(), inputs={}, provenance=BEFORE)
    row = frozen.as_json()[0]
    assert set(row) >= {
        "hint", "gap", "improvement", "p_pays", "extrapolation", "guards", "frozen_at", "content_hash",
    }  # fmt: skip
    assert set(row["improvement"]) == {"value", "stderr", "interval80", "interval95"}
    assert set(row["gap"]) == {"value", "stderr", "num_units", "interval", "level"}


def test_a_frozen_forecast_survives_json_and_notices_every_change():
    frozen = freeze(forecasts(), inputs={"gaps": [PLANTED.gap("a", 0.1)], "seed": 3}, provenance=BEFORE)
    again = FrozenForecast.model_validate_json(frozen.to_json())
    verify(again, {"gaps": [PLANTED.gap("a", 0.1)], "seed": 3})
    with pytest.raises(StoreError, match="input `seed`"):
        verify(again, {"seed": 4})
    better = again.forecasts[0].model_copy(update={"p_pays": 1.0})
    with pytest.raises(StoreError, match="does not match its hash"):
        verify(again.model_copy(update={"forecasts": (better, *again.forecasts[1:])}))
    with pytest.raises(StoreError, match="does not match its hash"):
        verify(again.model_copy(update={"frozen_at": "2025-01-01T00:00:00.000000+00:00"}))


def test_frozen_forecasts_are_scored_against_runs_that_started_later():
    frozen = freeze(forecasts(), inputs={}, provenance=BEFORE)
    runs = [PLANTED.record(f"new{index}", gap, gap + 0.01) for index, gap in enumerate((0.0, 0.3, 0.8))]
    result = score([frozen], runs)
    assert len(result.scored) == 3
    assert result.refused == ()
    assert result.errors.mae < 0.1
    assert result.scored[0].error == pytest.approx(0.01 - frozen.forecasts[0].improvement.value)


def test_a_forecast_younger_than_its_run_or_altered_is_refused_with_the_reason():
    run = PLANTED.record("new0", 0.0, 0.0)
    young = freeze(forecasts(), inputs={}, provenance=AFTER)
    assert "younger" in score([young], [run]).refused[0].reason
    good = freeze(forecasts(), inputs={}, provenance=BEFORE)
    altered = good.model_copy(update={"frozen_hash": "0" * 32})
    assert "hash does not match" in score([altered], [run]).refused[0].reason
    assert score([young, altered, good], [run]).scored[0].frozen_hash == good.frozen_hash
    unknown = run.model_copy(update={"started_at": ""})
    assert "does not say when" in score([good], [unknown]).refused[0].reason
    failed = run.model_copy(update={"state": "failed"})
    assert "failed" in score([good], [failed]).refused[0].reason
    stranger = PLANTED.record("stranger", 0.1, 0.1)
    assert "never forecast" in score([good], [stranger]).refused[0].reason
    assert score([good], [stranger]).errors is None


def test_the_latest_forecast_before_the_start_is_the_one_that_counts():
    first = freeze(forecasts(records=[]), inputs={}, provenance=BEFORE)
    later = BEFORE.model_copy(update={"time_utc": "2026-01-01T13:00:00.000000+00:00"})
    second = freeze(forecasts(), inputs={}, provenance=later)
    result = score([second, first], [PLANTED.record("new1", 0.3, 0.3)])
    assert result.scored[0].frozen_at == later.time_utc


def pilot_of(hint, gap, improvement):
    record = PLANTED.record(hint, gap, improvement)
    spec = record.spec.model_copy(update={"fidelity": "pilot", "num_steps": 10})
    return record.model_copy(update={"spec": spec})


def test_a_pilot_moves_and_narrows_the_forecast_of_its_full_run():
    before = forecasts(records=[])[1]
    after = with_pilot(before, pilot_of("new1", 0.3, 0.1), PILOT)
    assert after.improvement.value < before.improvement.value - 0.05
    assert np.diff(after.improvement.interval80) < np.diff(before.improvement.interval80)
    assert 0.2 < after.pilot.weight < 1.0
    assert sum(after.shares.model_dump().values()) == pytest.approx(1.0)
    lost = with_pilot(before, pilot_of("new1", 0.3, -0.1), PILOT)
    assert lost.p_pays < after.p_pays < before.p_pays
    agreeing = with_pilot(before, pilot_of("new1", 0.3, 0.25), PILOT)
    assert "pilot_disagrees" not in names(agreeing)
    informed = forecasts()[1]
    assert "pilot_disagrees" in names(with_pilot(informed, pilot_of("new1", 0.3, -0.1), PILOT))


def test_the_share_of_a_pilot_is_learned_from_pairs():
    full = [PLANTED.record(f"h{i}", gap, 1.05 * gap) for i, gap in enumerate(GAPS)]
    pilots = [pilot_of(f"h{i}", gap, gap) for i, gap in enumerate(GAPS)]
    learned = PILOT.updated(pilot_pairs(full + pilots, full[0].spec, pilot_steps=10))
    assert (PILOT.num_pairs, learned.num_pairs) == (0, 5)
    assert learned.rho == pytest.approx(1 / 1.05, abs=0.03)
    assert learned.rho_sd < PILOT.rho_sd


def test_forecast_and_plan_read_a_pilot_alike():
    """One law for both: the plan's posterior of a candidate is the forecast's, evaluation noise aside."""
    before, gap = forecasts()[1], PLANTED.gap("new1", 0.3)
    pilot = pilot_of("new1", 0.3, 0.1)
    prior = PILOT.updated([PilotPair(hint="a", pilot=pilot.improvement, full=pilot.improvement)])
    candidate = candidate_from_forecast(before, gap, pilot.spec)
    planned = update_with_pilot(candidate, pilot.improvement, prior)
    after = with_pilot(before, pilot, prior).predictive
    evaluation = before.shares.evaluation * before.predictive.scale**2
    assert planned.mean == pytest.approx(after.location, abs=1e-9)
    assert planned.stderr == pytest.approx(math.sqrt(after.scale**2 - evaluation), rel=1e-9)


def test_a_pilot_is_forecast_first_and_scored_as_a_pilot():
    full = forecasts()[1]
    expected = forecast_of_pilot(full, PILOT)
    assert expected.improvement.value == pytest.approx(PILOT.rho * full.predictive.location, abs=0.02)
    frozen = freeze([full, expected], inputs={}, provenance=BEFORE)
    result = score([frozen], [pilot_of("new1", 0.3, 0.24)])
    assert result.scored[0].forecast == pytest.approx(expected.improvement.value)


def test_a_pilot_of_another_hint_config_is_refused():
    with pytest.raises(LawError, match="says nothing"):
        with_pilot(forecasts()[1], pilot_of("new0", 0.3, 0.1), PILOT)


def test_the_forecast_is_as_wide_as_the_evaluation_is_small():
    fit = LinearLaw().fit(PLANTED.records(GAPS))
    wide, narrow = (
        forecast(fit, [PLANTED.gap("a", 0.3)], threshold=0.0, num_eval_units=units)[0].improvement.stderr
        for units in (16, 4096)
    )
    assert wide > 1.5 * narrow


def test_a_forecast_with_an_unknown_standard_error_is_refused():
    gap = PLANTED.gap("a", 0.3)
    bare = gap.model_copy(update={"gap": Estimate(value=0.3, stderr=math.nan, num_units=1, kind="difference")})
    with pytest.raises(LawError, match="standard error"):
        forecast(LinearLaw().fit([]), [bare], threshold=0.0)


def test_a_law_without_an_interval_leaves_the_word_to_the_pilot():
    records = [PLANTED.record(f"h{i}", gap, gap + 0.01 * i) for i, gap in enumerate((0.1, 0.1, 0.3, 0.3))]
    bare = forecasts(records=records, method="ols")[1]
    assert "no_interval" in names(bare)
    after = with_pilot(bare, pilot_of("new1", 0.3, 0.2), PILOT)
    assert after.pilot.weight == 1.0
    assert after.predictive.location == pytest.approx(0.2 / PILOT.rho, abs=0.06)
    assert all(math.isfinite(bound) for bound in after.improvement.interval80)
    assert sum(after.shares.model_dump().values()) == pytest.approx(1.0)
