"""`gapcast probe` without measuring: definitions, and the size that a precision needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from predictor.cli import run
from predictor.records import Estimands
from tests.cli.test_commands import change, scripted_study


def test_a_definition_is_one_option_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = str(tmp_path)
    assert run(["probe", study, "--explain", "net_gap"]) == 0
    assert "bare resample" in capsys.readouterr().out
    assert run(["probe", study, "--explain", "all", "--json"]) == 0
    assert set(Estimands.model_fields) <= set(json.loads(capsys.readouterr().out))
    assert run(["probe", study, "--explain", "net_gapp"]) == 2
    assert "net_gap" in capsys.readouterr().err


def test_a_plan_says_what_a_half_width_costs_before_and_after_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = str(scripted_study(tmp_path / "study"))
    assert run(["probe", study, "--plan", "--half-width", "0.1", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert before["components"]["source"] == "published simulation"
    assert before["arms"] == 5
    assert all(size["seconds"] is None for size in before["sizes"])
    assert run(["probe", study, "--json"]) == 0
    capsys.readouterr()
    assert run(["probe", study, "--plan", "--half-width", "0.1", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert "measured on" in after["components"]["source"]
    # Every question has accuracies .3 and .7, so nothing differs between examples: within = 2 x .21.
    assert after["components"]["within_var"] == pytest.approx(0.42, abs=0.08)
    assert run(["probe", study, "--plan"]) == 0
    assert "examples x rollouts" in capsys.readouterr().out
    assert run(["probe", study, "--plan", "--half-width", "2"]) == 2
    assert "between 0 and 1" in capsys.readouterr().err


def test_an_adaptive_probe_prints_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scripted_study(tmp_path / "study")
    change(path, "probe", adaptive=True, stage_examples=8)
    assert yaml.safe_load((path / "study.yaml").read_text())["probe"]["adaptive"] is True
    assert run(["probe", str(path)]) in (0, 3)
    out = capsys.readouterr().out
    assert "Where the adaptive probe stopped" in out
    assert "above 0.02" in out
    assert run(["probe", str(path), "--json"]) in (0, 3)
    told = next(hint for hint in json.loads(capsys.readouterr().out)["hints"] if hint["hint"] == "told")
    assert told["stopping"]["decided"] == "above"
    assert told["estimands"]["gap_macro"]["value"] == told["gap"]["value"]
