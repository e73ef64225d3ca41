"""The adaptive rule on rollouts that a fixed design stored, and the pages that compare the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from predictor.probe import replay as module
from predictor.probe.replay import replay
from predictor.stats.coverage.__main__ import main
from tests.probe.test_planted import quiet, run_probe, write_study

HINTS: list[dict[str, object]] = [
    {"name": "none", "kind": "none"},
    {"name": "hint", "kind": "static", "template": "HINT", "irrelevant": "NOISE"},
    {"name": "copy", "kind": "static", "template": "NOISE", "controls": []},
]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_study(tmp_path_factory.mktemp("replay") / "study", rollouts=8, hints=HINTS)
    run_probe(path).run(quiet)
    return path


def test_a_replay_decides_like_the_fixed_design_and_pays_less(probed: Path) -> None:
    found = replay(probed, first_rollouts=6)
    configs = {item.hint: item for item in found.configs}
    assert set(configs) == {"hint", "copy"}
    assert (configs["hint"].fixed, configs["hint"].adaptive) == ("above", "above")
    assert configs["copy"].adaptive == "open"
    assert (configs["copy"].examples, configs["copy"].rollouts) == (32, 8)
    assert found.hint_tokens_share < found.tokens_share < 1.0


def test_the_page_of_a_replay_names_decisions_and_shares(probed: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert module.main([str(probed), "--first-rollouts", "6", "--out", str(page)]) == 0
    text = page.read_text()
    assert "| study | hint | +0." in text
    assert "| 2 | 1 of 1 | 0 | 0 |" in text


def test_the_coverage_command_writes_both_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--draws", "4", "--studies", "2", "--out", str(tmp_path)]) == 0
    assert "adaptive.md" in capsys.readouterr().out
    table = (tmp_path / "probe_coverage.md").read_text()
    assert table.count("\n| 30 |") == 20
    assert "made by `python -m predictor.stats.coverage --draws 4 --studies 2`" in table
    design = (tmp_path / "adaptive.md").read_text()
    assert design.count("\n| 128 |") == 2
    assert "opposite" in design
