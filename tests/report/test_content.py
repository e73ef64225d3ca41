"""What the sections say: the planted numbers, and what is missing."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from predictor.records import FrozenForecast, GapEstimate, RunRecord
from predictor.report import Evidence, read_evidence
from predictor.report.costs import costs_section
from predictor.report.decisions import plan_section
from predictor.report.forecasts import forecast_section
from predictor.report.honesty import honesty_section
from predictor.report.measured import gaps_section
from predictor.report.origin import origin_section, warning
from predictor.report.outcomes import runs_section
from predictor.report.page import Section
from predictor.report.samples import samples_section
from predictor.report.verdict import verdict
from predictor.store import Study
from tests.planted_study import GAPS, OUTCOMES, STAGES, Stage, contrast, planted_study, provenance
from tests.report.reading import changed_runs, row


@pytest.mark.parametrize("stage", STAGES)
def test_the_verdict_is_one_sentence_at_every_stage(tmp_path: Path, stage: Stage) -> None:
    said = verdict(read_evidence(planted_study(tmp_path / "study", stage)))
    assert re.fullmatch(r"[A-Z0-9][^\n]*[^.]\.", said)
    assert not re.search(r"\. [A-Z]", said)
    assert "nan" not in said


def test_the_verdict_tells_outcome_forecast_and_cost(evidence: Evidence) -> None:
    said = verdict(evidence)
    forecast = next(item for item in evidence.frozen[0].forecasts if item.hint == "rule")
    assert f"`rule` changed held-out accuracy by {OUTCOMES['rule']:+.3f}" in said
    assert f"inside the 80 % interval of the forecast frozen before it, {forecast.improvement.value:+.3f}" in said
    assert "2 of 7 hint configs were trained, and 59.2 % of the budget is spent" in said


def test_the_verdict_counts_seeds_and_says_when_no_forecast_came_first(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study")
    run = study.records("runs", RunRecord)[0]
    study.append("runs", run.model_copy(update={"spec": run.spec.model_copy(update={"seed": 1})}))
    assert "+0.702 on average over 2 seeds" in verdict(read_evidence(study))
    assert "2 of 2 times inside" in verdict(read_evidence(study))
    late = changed_runs(study, started_at="2026-03-01T09:59:00.000000+00:00")
    assert "no forecast frozen before training" in verdict(late)


SECTIONS: dict[str, Callable[[Evidence], Section]] = {
    "forecast": forecast_section,
    "probe": gaps_section,
    "plan": plan_section,
    "launch": runs_section,
    "fit": honesty_section,
}


@pytest.mark.parametrize(
    ("stage", "commands"),
    [
        ("new", {"forecast", "probe", "plan", "launch", "fit"}),
        ("probed", {"forecast", "plan", "launch", "fit"}),
        ("forecast", {"plan", "launch", "fit"}),
        ("planned", {"launch", "fit"}),
        ("finished", set()),
    ],
)
def test_a_part_that_is_missing_names_the_command_that_makes_it(
    tmp_path: Path, stage: Stage, commands: set[str]
) -> None:
    found = read_evidence(planted_study(tmp_path / "study", stage))
    missing = {name for name, make in SECTIONS.items() if f"`gapcast {name}`" in " ".join(make(found).missing)}
    assert missing == commands
    assert bool(costs_section(found).missing) == (stage == "new")


@pytest.mark.parametrize("hint", sorted(GAPS))
def test_the_table_of_hint_configs_shows_the_records_numbers(evidence: Evidence, hint: str) -> None:
    gap = next(gap for gap in evidence.gaps if gap.hint == hint)
    cells = row(gaps_section(evidence), hint)
    low, high = gap.gap.interval(0.95)
    assert cells[3] == f"{gap.gap.value:+.3f}|{low:+.3f} to {high:+.3f}"
    for place, estimate in ((4, gap.net_gap), (5, gap.transferable_gap), (6, gap.consensus_gap)):
        assert cells[place].split("|")[0] == ("–" if estimate is None else f"{estimate.value:+.3f}")
    assert cells[7:10] == ["1.7 %", "0.3 %", f"{100 * gap.coverage:.1f} %"]
    assert gap.copy_rate is not None
    assert cells[10].split("|")[0] == f"{gap.copy_rate.value:.3f}"


def test_controls_stand_below_their_hint_config_and_are_set_back(evidence: Evidence) -> None:
    rows = gaps_section(evidence).tables[0].rows
    assert [found.cells[0].text for found in rows] == [gap.hint for gap in evidence.gaps]
    assert [found.is_control for found in rows] == [gap.is_control for gap in evidence.gaps]


def test_forecasts_carry_intervals_and_the_stamp_before(evidence: Evidence) -> None:
    section = forecast_section(evidence)
    forecast = next(f for f in evidence.frozen[0].forecasts if f.hint == "rule")
    cells = row(section, "rule")
    low, high = forecast.improvement.interval80
    assert cells[1] == f"{forecast.improvement.value:+.3f}|{low:+.3f} to {high:+.3f}"
    assert cells[6] == "2026-03-01 10:05|forecast 5.0 min before"
    assert cells[7] == "+0.702|1 run"
    assert row(section, "answer")[6] == "–|not trained"
    assert "every hash matches its content" in section.text[0]
    assert "8 of the forecasts below rest on the published prior alone" in section.text[0]


def test_a_forecast_frozen_after_training_began_is_called_too_late(tmp_path: Path) -> None:
    late = changed_runs(planted_study(tmp_path / "study"), started_at="2026-03-01T09:59:00.000000+00:00")
    assert row(forecast_section(late), "rule")[6] == "2026-03-01 09:59|forecast too late, not scored"
    assert "younger than the run" in row(runs_section(late), "rule")[10]
    assert row(runs_section(late), "rule")[8] == "–"


def test_a_forecast_that_was_changed_after_its_freeze_is_called_changed(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study")
    frozen = study.records("forecasts", FrozenForecast)[0]
    better = tuple(item.model_copy(update={"p_pays": 0.999}) for item in frozen.forecasts)
    study.replace("forecasts", [frozen.model_copy(update={"forecasts": better})])
    section = forecast_section(read_evidence(study))
    assert "CHANGED after the freeze" in section.text[0]
    assert row(section, "rule")[6].endswith("not scored")


def test_a_later_forecast_never_replaces_the_one_that_was_scored(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study")
    frozen = study.records("forecasts", FrozenForecast)[0]
    later = frozen.model_copy(update={"frozen_at": "2026-03-01T11:00:00.000000+00:00"})
    study.append("forecasts", later.model_copy(update={"frozen_hash": later.expected_hash()}))
    section = forecast_section(read_evidence(study))
    assert row(section, "rule")[5].startswith("2026-03-01 10:00")
    assert row(section, "answer")[5].startswith("2026-03-01 11:00")


def test_a_dirty_tree_is_warned_of_and_a_clean_one_is_not(tmp_path: Path, evidence: Evidence) -> None:
    assert warning(evidence) == ""
    assert "0123456789ab" in warning(read_evidence(planted_study(tmp_path / "dirty", dirty=True)))


def test_provenance_names_commit_engine_versions_and_settings(evidence: Evidence) -> None:
    section = origin_section(evidence, provenance(dirty=True))
    assert row(section, "engine")[1] == "scripted 1"
    assert row(section, "versions")[1] == "gapcast 0.1.0, numpy 2.4.0"
    assert row(section, "report built by")[1].endswith("with uncommitted changes")
    assert "max_truncated: 0.25" in section.samples[0].parts[0][1]


def test_truncation_and_doubt_above_the_studys_limits_are_marked(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    gaps = study.records("gaps", GapEstimate)
    study.replace("gaps", [gap.model_copy(update={"truncated": 0.31, "undecided": 0.06}) for gap in gaps])
    cells = row(gaps_section(read_evidence(study)), "rule")
    assert cells[7:9] == ["31.0 %|above the limit", "6.0 %|above the limit"]


def test_gaps_with_different_baselines_are_flagged(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    first, *rest = study.records("gaps", GapEstimate)
    assert len(gaps_section(read_evidence(study)).text) == 1
    study.replace("gaps", [first.model_copy(update={"baseline_id": "another"}), *rest])
    assert "noisier" in gaps_section(read_evidence(study)).text[1]


def test_an_unknown_standard_error_is_never_shown_as_certainty(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    gaps = study.records("gaps", GapEstimate)
    study.replace("gaps", [gap.model_copy(update={"gap": contrast(0.5, math.nan)}) for gap in gaps])
    assert row(gaps_section(read_evidence(study)), "rule")[3] == "+0.500|no interval"


def test_samples_show_question_hint_answer_and_verdict(finished: Study, evidence: Evidence) -> None:
    section = samples_section(evidence, finished)
    assert len(section.samples) == 2
    parts = dict(section.samples[0].parts)
    assert parts["reference answer"] == " ".join(reversed(parts["question"].split()))
    assert parts["student, no hint: wrong"] == "d c b a"
    assert parts["hint `rule` (system)"] == "rule reverse"
    assert parts["hint `answer` (system)"] == f"answer {parts['reference answer']}"
    assert parts["hint `own-failure` (system)"] == "tried d c b a"
    assert "with `alias`: right, cut at the token limit" in parts
    assert "with `none`: undecided" in parts
    assert "after training with `rule`, seed 0, 50 steps, no hint: right" in parts


def test_a_long_rollout_is_cut_and_the_cut_is_said(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed", text="ab " * 2000)
    parts = dict(samples_section(read_evidence(study), study).samples[0].parts)
    assert parts["student, no hint: wrong"].endswith("(cut here; 6,000 characters in all)")


def test_samples_survive_examples_that_are_gone(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    text = (study.path / "study.yaml").read_text(encoding="utf-8")
    (study.path / "study.yaml").write_text(text.replace("eval_examples: 12,", "eval_examples: 9000000,"), "utf-8")
    again = Study(study.path)
    parts = dict(samples_section(read_evidence(again), again).samples[0].parts)
    assert "question" not in parts
    assert parts["student, no hint: wrong"] == "d c b a"


def test_rollouts_of_a_hint_that_was_reworded_since_are_not_shown_under_the_new_words(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    text = (study.path / "study.yaml").read_text(encoding="utf-8")
    (study.path / "study.yaml").write_text(text.replace('"rule reverse"', '"rule backwards"'), encoding="utf-8")
    again = Study(study.path)
    parts = dict(samples_section(read_evidence(again), again).samples[0].parts)
    assert "hint `rule` (system)" not in parts
    assert parts["hint `alias` (system)"] == "rule mirror"


def test_the_page_carries_its_tables_as_files(evidence: Evidence) -> None:
    files = {file.name: file.uri for file in origin_section(evidence, provenance()).downloads}
    assert set(files) == {"gaps.csv", "runs.csv"}
    tables = {
        name: list(csv.DictReader(io.StringIO(base64.b64decode(uri.partition("base64,")[2]).decode())))
        for name, uri in files.items()
    }
    assert [found["hint"] for found in tables["gaps.csv"]] == [gap.hint for gap in evidence.gaps]
    assert {found["hint"]: float(found["improvement"]) for found in tables["runs.csv"]} == OUTCOMES
