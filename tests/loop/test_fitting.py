from __future__ import annotations

import json
from pathlib import Path

import pytest

from predictor.cli import run
from predictor.errors import LawError, StudyError
from predictor.forecast import forecast, freeze, score, score_studies
from predictor.law import LinearLaw
from predictor.law.simulate import PlantedLaw
from predictor.loop.fitting import fit_law, score_forecasts, select_fit
from predictor.loop.session import Session
from predictor.records import FrozenForecast, Provenance, RunRecord
from predictor.store import Study
from tests.planted_study import planted_study

PLANTED = PlantedLaw(slope=1.0, student=0.15, probe_stderr=0.02, eval_stderr=0.03)
CONSENSUS = tuple(0.06 * number for number in range(12))
BEFORE = Provenance(time_utc="2026-01-01T12:00:00.000001+00:00")


def with_consensus(record: RunRecord, consensus: float, task: str) -> RunRecord:
    assert record.gap is not None
    gap = PLANTED.gap(record.spec.hint, record.gap.gap.value, consensus_gap=consensus)
    spec = record.spec.model_copy(update={"task": task})
    return record.model_copy(update={"spec": spec, "gap": gap.model_copy(update={"task": task})})


def study_with_runs(path: Path, task: str = "one", *, law: str = "") -> Study:
    """A study whose improvements follow the consensus gap; its raw gaps say nothing."""
    study = planted_study(path, "new")
    (path / "study.yaml").write_text((path / "study.yaml").read_text() + f"law: {{predictor: consensus_gap{law}}}\n")
    for number, consensus in enumerate(CONSENSUS):
        raw = 0.1 + 0.05 * (number % 5)
        record = PLANTED.record(f"h{number}", raw, consensus + 0.01 * (number % 3 - 1))
        study.append("runs", with_consensus(record, consensus, task))
    return study


def frozen_far_off(task: str, gap: float) -> FrozenForecast:
    measured = PLANTED.gap("h1", gap).model_copy(update={"task": task})
    return freeze(forecast(LinearLaw().fit([]), [measured], threshold=0.0), inputs={}, provenance=BEFORE)


def test_runs_of_other_studies_inform_a_forecast_once_each_and_only_when_mixing_is_allowed(tmp_path: Path) -> None:
    study_with_runs(tmp_path / "first", "one")
    study_with_runs(tmp_path / "second", "two", law=", runs_from: [../first], allow_mixed: true")
    study_with_runs(tmp_path / "third", "two", law=", runs_from: [../first]")
    second = Session(tmp_path / "second")
    fitted = fit_law(second, second.config.law, [Session(tmp_path / "first"), Session(tmp_path / "second")])
    assert fitted.num_runs == 2 * len(CONSENSUS)
    assert "mixed_task" in {guard.name for guard in fitted.guards}
    third = Session(tmp_path / "third")
    with pytest.raises(LawError, match="one law"):
        fit_law(third, third.config.law)


def test_a_study_that_runs_from_names_and_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    study_with_runs(tmp_path / "first", law=", runs_from: [../lost]")
    session = Session(tmp_path / "first")
    with pytest.raises(StudyError, match=r"study\.yaml"):
        fit_law(session, session.config.law)


def test_selection_takes_the_predictor_that_forecasts_and_refuses_terms_that_few_configs_cannot_carry(
    tmp_path: Path,
) -> None:
    study_with_runs(tmp_path / "first")
    session = Session(tmp_path / "first")
    law = session.config.law.model_copy(update={"method": "ols"})
    fitted, selection = select_fit(session, law)
    assert fitted.spec.predictor == "consensus_gap"
    assert fitted.spec.extra == ()
    longer = [candidate for candidate in selection.candidates if candidate.extra]
    assert [candidate.extra for candidate in longer] == [("coverage",), ("num_steps",)]
    assert all(candidate.refused for candidate in longer)
    stored = session.study.read("law", type(fitted))
    assert stored is not None
    assert stored.to_json() == fitted.to_json()


def test_forecasts_of_several_studies_are_scored_together_but_never_against_another_studys_run() -> None:
    run_one = PLANTED.record("h1", 0.1, 0.1)
    low, high = frozen_far_off("planted-task", 0.1), frozen_far_off("planted-task", 0.9)
    together = score_studies([([low], [run_one]), ([high], [run_one])])
    apart = [score([frozen], [run_one]).scored[0] for frozen in (low, high)]
    assert list(together.scored) == apart
    assert apart[0].forecast < apart[1].forecast
    assert together.errors is not None
    assert (together.errors.num_runs, together.errors.num_folds) == (2, 2)


def test_a_score_says_how_many_own_runs_its_forecast_had(tmp_path: Path) -> None:
    study = study_with_runs(tmp_path / "first", "planted-task")
    study.append("forecasts", frozen_far_off("planted-task", 0.1))
    scored = score_forecasts(Session(tmp_path / "first")).scored
    assert [(row.hint, row.num_own_runs) for row in scored] == [("h1", 0)]
    old = scored[0].model_dump(exclude={"num_own_runs"})
    assert type(scored[0]).model_validate(old) == scored[0]


def test_fit_prints_selection_influence_and_coverage_and_the_same_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_with_runs(tmp_path / "first", "planted-task")
    study.append("forecasts", frozen_far_off("planted-task", 0.1))
    run(["fit", str(tmp_path / "first"), "--select", "--method", "ols", "--form", "linear"])
    printed = capsys.readouterr().out
    assert "Chosen: improvement ~ 1 + consensus_gap" in printed
    assert "Slope moved most by: h" in printed
    assert "from the prior alone: 1 of 1 outcomes inside their 80 % interval" in printed
    run(["fit", str(tmp_path / "first"), "--select", "--method", "york", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["method"] == "york"
    assert document["selection"]["chosen"] == document["formula"]
    assert document["forecasts"]["errors"]["mae"] > 0
    assert {row["hint"] for row in document["forecasts"]["refused"]} == {f"h{n}" for n in range(12)} - {"h1"}


def test_a_law_without_prior_and_without_runs_makes_no_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = planted_study(tmp_path / "new", "probed")
    assert run(["forecast", str(study.path), "--predictor", "gap", "--prior", "none"]) == 2
    assert "no finished run" in capsys.readouterr().err
    assert not study.records("forecasts", FrozenForecast)
    assert run(["forecast", str(study.path), "--predictor", "gap", "--prior", "published"]) in (0, 3)
    assert len(study.records("forecasts", FrozenForecast)) == 1


def test_a_gap_that_was_not_measured_stops_the_forecast_unless_the_study_names_a_fallback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = planted_study(tmp_path / "new", "probed")
    assert run(["forecast", str(study.path)]) == 2
    assert "law.fallback" in capsys.readouterr().err
    (study.path / "study.yaml").write_text((study.path / "study.yaml").read_text() + "law: {fallback: gap}\n")
    assert run(["forecast", str(study.path), "--json"]) == 3
    printed = json.loads(capsys.readouterr().out)
    named = {item["hint"]: {guard["name"] for guard in item["guards"]} for item in printed}
    assert "fallback_predictor" in named["own-failure"]
    assert "fallback_predictor" not in named["rule"]


def test_fit_says_how_large_a_study_must_be_and_which_hint_config_to_train_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_with_runs(tmp_path / "first", "planted-task")
    study.replace("gaps", [PLANTED.gap("near", 0.33, consensus_gap=0.33), PLANTED.gap("far", 0.7, consensus_gap=0.7)])
    run(["fit", str(study.path), "--method", "ols", "--form", "linear", "--half-width", "0.06"])
    printed = capsys.readouterr().out
    assert "Half-width 0.060 of a 80% interval for a new run" in printed
    assert "A run of `far` would sharpen the slope most" in printed
