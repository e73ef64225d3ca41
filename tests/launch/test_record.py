"""Recording measures the trained weights: what was left as it was, is measured by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from predictor.cli import run
from predictor.engines.scripted import ScriptedEngine, ScriptedTable, plant
from predictor.errors import RunError
from predictor.launch import RunRequest, launch_run, record_run, run_config
from predictor.launch.process import write_run
from predictor.probe import Probe
from predictor.records import RunConfig, RunRecord, TrainResult, current_provenance
from predictor.store import Study
from tests.cli.test_commands import NUM, scripted_study


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


def trained(probe: Probe, share: float, **changes: Any) -> RunConfig:
    """A run that has finished training; its checkpoint answers rightly that often."""
    study = probe.study
    config = run_config(study, probe.model_dir, RunRequest("told", 0, "full", study.config.training.num_steps))
    run_dir = study.runs_dir / config.spec.key
    write_run(run_dir, config)
    rules = [
        rule for n in range(NUM) for rule in plant(f"question {n}?", ("right", "wrong"), share, {"HINT": 0.4 + share})
    ]
    ScriptedTable(rules=tuple(rules)).save(run_dir / "checkpoint")
    fields: dict[str, Any] = {
        "key": config.spec.key,
        "num_steps": 10,
        "seconds": 1.0,
        "num_tokens": 100,
        "checkpoint": "checkpoint",
        "final_loss": 0.1,
        "truncated": 0.0,
        "coverage": 1.0,
        "provenance": current_provenance(),
    }
    (run_dir / "result.json").write_text(TrainResult.model_validate(fields | changes).model_dump_json())
    return config


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    """A probed study whose student answers three in ten rightly."""
    study = Study(scripted_study(tmp_path / "study"))
    model = study.path / "model"
    engine = ScriptedEngine(ScriptedTable.load(model))
    found = Probe(study, engine, model, lambda: engine)
    found.run(quiet)
    return found


def test_the_trained_weights_are_measured_beside_the_students_first_measurement(probe: Probe) -> None:
    """S8: what is recorded is the final step, and says so."""
    record = record_run(probe, trained(probe, 0.6), quiet)
    assert record.state == "finished"
    assert record.improvement is not None
    assert record.improvement.value == pytest.approx(0.3, abs=4 * record.improvement.stderr)
    assert record.checkpoint_rule == "final"


def test_weights_that_answer_as_before_are_refused_instead_of_measured(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    """F21: the adapter was never applied, so base and trained log-probabilities agree to the last bit."""
    config = trained(probe, 0.3)
    stored = len(probe.study.rollouts.read())
    with pytest.raises(RunError, match="cannot be told from the initial ones") as caught:
        record_run(probe, config, quiet)
    assert "8 rollouts" in caught.value.found
    assert len(probe.study.rollouts.read()) == stored
    assert run(["record", str(probe.study.path), config.spec.key]) == 1
    assert "adapters merged" in capsys.readouterr().err


def test_a_launched_run_whose_weights_did_not_change_fails_and_stays_in_the_table(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    """F21, S7: the run is not measured, its reason is kept, and the command that launched it ends with 1."""
    config = trained(probe, 0.3)
    assert run(["launch", str(probe.study.path), "--hint", "told"]) == 1
    assert "cannot be told from the initial ones" in capsys.readouterr().err
    record = launch_run(probe.study, lambda: probe, config, budget_seconds=60.0, on_progress=quiet)
    assert [found.state for found in probe.study.records("runs", RunRecord)] == ["failed", "failed"]
    assert "cannot be told from the initial ones" in record.reason
    assert record.improvement is None


def test_a_run_that_never_met_a_hint_may_end_as_it_began(probe: Probe) -> None:
    record = record_run(probe, trained(probe, 0.3, coverage=0.0), quiet)
    assert record.state == "finished"
    assert record.improvement is not None
    assert abs(record.improvement.value) < 4 * record.improvement.stderr
