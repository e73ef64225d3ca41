"""Plan, runs, cost and honesty: the planted numbers and reasons, word for word."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from predictor.records import LedgerEntry, RunRecord
from predictor.report import Evidence, read_evidence
from predictor.report.costs import costs_section, train_all_seconds
from predictor.report.decisions import plan_section
from predictor.report.honesty import honesty_section
from predictor.report.outcomes import runs_section
from predictor.report.verdict import verdict
from predictor.store import Study
from tests.planted_study import contrast, planted_study
from tests.report.reading import changed_runs, row


def test_runs_show_before_after_improvement_forecast_and_state(evidence: Evidence) -> None:
    section = runs_section(evidence)
    cells = row(section, "rule")
    assert cells[2:4] == ["full|50 steps", "finished"]
    assert cells[4].startswith("0.150|")
    assert cells[5].startswith("0.852|")
    assert cells[6] == "+0.702|+0.651 to +0.753"
    assert cells[8:10] == ["yes", "18.0 s"]
    assert row(section, "alias")[3] == "failed"
    assert row(section, "alias")[10] == "the loss is not finite"
    assert row(section, "unsure-25")[2] == "pilot|10 steps"
    assert section.text == ("3 of 3 outcomes lie inside the 80 % interval of their frozen forecast.",)


def test_an_outcome_outside_its_interval_is_said_to_be_outside(tmp_path: Path) -> None:
    missed = changed_runs(planted_study(tmp_path / "study"), improvement=contrast(-0.12))
    assert row(runs_section(missed), "rule")[8] == "no"
    assert "outside the 80 % interval" in verdict(missed)


def test_imported_peak_and_doubtful_runs_are_marked(tmp_path: Path) -> None:
    update = {"source": "wandb", "checkpoint_rule": "best", "truncated": 0.5, "undecided": 0.5}
    remarks = row(runs_section(changed_runs(planted_study(tmp_path / "study"), **update)), "rule")[10]
    for words in ("imported from wandb", "best checkpoint", "many truncated answers", "many undecided answers"):
        assert words in remarks


def test_the_later_record_of_a_run_counts(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study")
    run = study.records("runs", RunRecord)[0]
    study.append("runs", run.model_copy(update={"improvement": contrast(0.111)}))
    assert row(runs_section(read_evidence(study)), "rule")[6].startswith("+0.111")


def test_every_refused_hint_config_has_its_reason_word_for_word(evidence: Evidence) -> None:
    assert evidence.plan is not None
    assert len(evidence.plan.rejected) == 8
    for item in evidence.plan.rejected:
        assert row(plan_section(evidence), item.hint)[3] == item.reason


def test_chosen_runs_stand_in_launch_order_with_their_cost(tmp_path: Path) -> None:
    planned = read_evidence(planted_study(tmp_path / "study", "planned"))
    assert planned.plan is not None
    chosen = plan_section(planned).tables[0]
    assert [found.cells[0].text for found in chosen.rows] == [run.hint for run in planned.plan.chosen]
    assert [found.cells[5].text for found in chosen.rows] == [run.reason for run in planned.plan.chosen]


def test_the_ledger_adds_up_and_compares_with_training_everything(finished: Study, evidence: Evidence) -> None:
    section = costs_section(evidence)
    spent = math.fsum(entry.seconds for entry in finished.records("ledger", LedgerEntry))
    assert row(section, "all together")[1:] == [f"{spent:.1f} s", "100.0 %"]
    assert row(section, "budget")[1] == "2.5 min"
    assert row(section, "spent on full runs alone")[1] == "54.0 s"
    everything, how = train_all_seconds(evidence)
    assert everything == pytest.approx(7 * 2 * 18.0)
    assert "7 hint configs × 2 seeds" in how
    assert row(section, "spent instead")[1] == f"{100 * spent / everything:.1f} %"


def test_without_finished_runs_training_everything_is_priced_by_the_plan_and_before_that_unknown(
    tmp_path: Path,
) -> None:
    planned = read_evidence(planted_study(tmp_path / "planned", "planned"))
    assert planned.plan is not None
    rows = [found for found in planned.plan.rows if found.hint != "none"]
    assert train_all_seconds(planned)[0] == pytest.approx(2 * 3600 * math.fsum(r.cost_gpu_hours for r in rows))
    probed = read_evidence(planted_study(tmp_path / "probed", "probed"))
    assert row(costs_section(probed), "training everything")[1] == "unknown"


def test_honesty_shows_held_out_and_frozen_errors_and_every_guard(evidence: Evidence) -> None:
    section = honesty_section(evidence)
    assert evidence.law is not None
    assert evidence.law.leave_one_out is not None
    assert evidence.score.errors is not None
    assert row(section, "leave one hint config out")[2] == f"{evidence.law.leave_one_out.mae:.3f}"
    assert row(section, "of this study, frozen before training")[2] == f"{evidence.score.errors.mae:.3f}"
    assert row(section, "llama")[3].startswith(f"{evidence.law.families[0].slope.value:+.3f}|")
    told = {found.cells[-1].text for found in section.tables[-1].rows}
    assert {guard.message for guard in evidence.law.guards} <= told
    assert {entry.reason for entry in evidence.law.left_out} <= told
