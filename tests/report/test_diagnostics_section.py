"""Token diagnostics on the page and in the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from predictor.cli import run
from predictor.cli.consensus import consensus_rows, print_consensus
from predictor.cli.diagnostics import diagnostics_json, print_diagnostics
from predictor.records import ConsensusDetail, ReweightedConsensus
from predictor.report import build_report, read_evidence
from predictor.report.diagnostics import diagnostics_section
from tests.planted_study import contrast, planted_gaps, planted_study, share
from tests.plots.test_positions import diagnosis
from tests.report.reading import row


def test_the_section_names_the_command_that_fills_it_until_there_is_something(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    assert "--diagnostics" in diagnostics_section(read_evidence(study)).missing[0]


def test_tables_and_figure_show_what_was_measured(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    study.replace("diagnostics", [diagnosis("rule", 0.5), diagnosis("own-failure", 0.0, scored=False)])
    section = diagnostics_section(read_evidence(study))
    assert row(section, "rule")[1].startswith("0.500|")
    assert row(section, "rule")[-1] == "70.0 % 10.0 % 10.0 % 10.0 %"
    assert row(section, "own-failure")[1] == "–|not measured"
    assert "rule forward 1.500" in section.pictures[0].alt
    assert all(note.count("(") for table in section.tables for note in table.notes)
    page = build_report(study, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Token diagnostics" in page


def test_a_study_without_any_scored_rollout_has_no_figure(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    study.replace("diagnostics", [diagnosis("rule", 0.5, scored=False)])
    assert diagnostics_section(read_evidence(study)).pictures == ()


def test_the_terminal_shows_tokens_and_leaks(capsys: pytest.CaptureFixture[str]) -> None:
    print_diagnostics([], 0.95)
    assert capsys.readouterr().out == ""
    print_diagnostics([diagnosis("rule", 0.5), diagnosis("unscored", 0.5, scored=False)], 0.95)
    shown = capsys.readouterr().out
    assert "0.50 ±0.02" in shown
    assert "0.70 0.10 0.10 0.10" in shown
    found = diagnostics_json([diagnosis("rule", 0.5), diagnosis("unscored", 0.5, scored=False)], 0.95)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found[0]["tokens"]["forward_kl"]["value"] == 0.5
    assert found[0]["tokens"]["profile"]["num_rollouts"] == [100, 40, 5]
    assert found[1]["tokens"] is None


def test_both_estimators_stand_side_by_side_and_a_refusal_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps = [
        gap for gap in planted_gaps(planted_study(tmp_path / "s", "new").config) if gap.hint in ("answer", "demo-1")
    ]
    fields = {
        "effective_rollouts": 212.0,
        "covered": share(0.97).model_copy(update={"kind": "mean"}),
        "stderr_hints": 0.011,
        "num_rollouts": 512,
        "engine_difference": 0.001,
        "engine_difference_p99": 0.01,
    }
    kept = ReweightedConsensus(consensus=share(0.14), gap=contrast(-0.01), **fields)
    refused = ReweightedConsensus(consensus=None, gap=None, refused="too few", **fields)
    changed = []
    for gap, found in zip(gaps, (kept, refused), strict=True):
        detail = gap.consensus_detail
        assert isinstance(detail, ConsensusDetail)
        changed.append(gap.model_copy(update={"consensus_detail": detail.model_copy(update={"reweighted": found})}))
    rows, lines = consensus_rows(changed, 0.95)
    assert rows[0][3:] == ["+0.011", "212 of 512", "0.97", "0.011", "0.0010, 0.0100"]
    assert rows[1][2:4] == ["–", "–"]
    assert lines == ["demo-1: not reweighted, too few"]
    print_consensus(changed, 0.95)
    assert "not reweighted" in capsys.readouterr().out
    print_consensus(gaps, 0.95)
    assert capsys.readouterr().out == ""


def test_a_number_is_explained_and_an_unknown_one_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "nowhere", "--explain", "privilege_margin"]) == 0
    assert "2609.20612" in capsys.readouterr().out
    assert run(["probe", "nowhere", "--explain", "all"]) == 0
    assert "stderr_hints" in capsys.readouterr().out
    assert run(["probe", "nowhere", "--explain", "privilege"]) == 2
    assert "privilege_margin" in capsys.readouterr().err
