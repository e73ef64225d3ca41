"""Two-stage arms, the gate, and adaptive stages, on a model known in closed form."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from predictor.loop.regrade import regrade
from predictor.probe import Probe, ProbeResult
from predictor.store import Study
from tests.probe.test_planted import NUM_EXAMPLES, quiet, run_probe, write_study

NONE = {"name": "none", "kind": "none"}
HINT = {"name": "hint", "kind": "static", "template": "HINT", "irrelevant": "NOISE"}


def changed(path: Path, **probe: object) -> Path:
    study = yaml.safe_load((path / "study.yaml").read_text())
    study["probe"] |= probe
    (path / "study.yaml").write_text(yaml.safe_dump(study))
    return path


def rows(path: Path, arm: str) -> pd.DataFrame:
    frame = Study(path).rollouts.read()
    return frame[frame["arm"] == arm]


def failed_places(path: Path) -> set[tuple[str, int]]:
    student = rows(path, "student")
    failed = student[(student["split"] == "eval") & (student["correct"] == 0)]
    return set(zip(failed["example_id"], failed["index"], strict=True))


def test_behind_a_gate_only_failed_rollouts_are_generated_and_luck_cancels_in_the_net_gap(tmp_path: Path) -> None:
    hints = [NONE, HINT, {**HINT, "name": "gated", "gating": "failed"}]
    path = write_study(tmp_path / "study", rollouts=8, hints=hints)
    result = run_probe(path).run(quiet)
    places = failed_places(path)
    for arm in ("gated", "gated/irrelevant"):
        answered = rows(path, arm)
        assert set(zip(answered["example_id"], answered["index"], strict=True)) == places
    gated, every = result.hint("gated"), result.hint("hint")
    assert gated.coverage == pytest.approx(len(places) / (8 * NUM_EXAMPLES))
    assert gated.gating == "failed"
    assert gated.num_rollouts == every.num_rollouts == 8 * NUM_EXAMPLES
    assert gated.net_gap is not None
    assert every.net_gap is not None
    # (1 - student) of the hint's .300 is left, and what succeeded is the very same resample on both sides.
    expected = sum(0.3 * (1 - (0.1 + 0.5 * i / (NUM_EXAMPLES - 1))) for i in range(NUM_EXAMPLES)) / NUM_EXAMPLES
    assert abs(gated.net_gap.value - expected) < 4 * gated.net_gap.stderr
    assert gated.net_gap.stderr < every.net_gap.stderr
    irrelevant = result.hint("gated/irrelevant").net_gap
    assert irrelevant is not None
    assert abs(irrelevant.value) < 4 * irrelevant.stderr


def test_recovery_of_a_bare_resample_is_luck_that_net_recovery_subtracts(tmp_path: Path) -> None:
    result = run_probe(write_study(tmp_path / "study", rollouts=8)).run(quiet)
    named = result.hint("none").estimands
    assert named is not None
    assert named.recovery_pooled is not None
    assert named.net_recovery_pooled is not None
    assert named.recovery_pooled.value > 0.2
    assert abs(named.net_recovery_pooled.value) < 4 * named.net_recovery_pooled.stderr
    hinted = result.hint("hint").estimands
    assert hinted is not None
    assert hinted.net_recovery_pooled is not None
    assert hinted.net_recovery_pooled.value > 0.2
    assert hinted.coverage_pooled is not None
    assert hinted.coverage_pooled.value == 1.0


@pytest.fixture(scope="module")
def two_stage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ProbeResult]:
    hints = [
        NONE,
        {"name": "peer", "kind": "peer_solution", "template": "HINT {{ hint }}", "controls": ["other_example"]},
        {"name": "keys", "kind": "key_hints", "template": "HINT {{ hint }}", "controls": [], "extraction_tokens": 5},
        {"preset": "all", "name": "both", "controls": ["shuffled", "corrupted"]},
    ]
    path = write_study(tmp_path_factory.mktemp("probe") / "study", rollouts=4, hints=hints)
    return path, run_probe(path).run(quiet)


def test_two_stage_hints_are_answered_after_the_students_own_rollouts(two_stage: tuple[Path, ProbeResult]) -> None:
    path, result = two_stage
    student, peers = rows(path, "student"), rows(path, "peer")
    right = student[(student["split"] == "eval") & (student["correct"] == 1)].groupby("example_id").size()
    for name, index, has_context in zip(peers["example_id"], peers["index"], peers["has_context"], strict=True):
        own = student[(student["example_id"] == name) & (student["index"] == index)].iloc[0]["correct"]
        assert has_context == (right.get(name, 0) - (own == 1) > 0)
    assert 0.0 < result.hint("peer").coverage < 1.0


def test_key_hints_are_extracted_once_for_each_chosen_peer_and_never_judged(
    two_stage: tuple[Path, ProbeResult],
) -> None:
    path, _ = two_stage
    extracted, student = rows(path, "keys/extract"), rows(path, "student")
    assert 0 < len(extracted) <= (student["correct"] == 1).sum()
    assert not extracted.duplicated(["example_id", "index"]).any()
    assert set(extracted["checker"]) == {"none"}
    assert extracted["correct"].isna().all()
    assert extracted["completion_ids"].map(len).max() <= 5
    regraded = regrade(Study(path))
    assert regraded.num_changed == 0
    assert rows(path, "keys/extract")["correct"].isna().all()


def test_a_probe_of_two_stage_hints_repeats_nothing(two_stage: tuple[Path, ProbeResult]) -> None:
    path, first = two_stage
    again = run_probe(path).run(quiet)
    assert again.effort.generated_rollouts == 0
    assert [gap.gap for gap in again.hints] == [gap.gap for gap in first.hints]


def test_an_adaptive_probe_stops_what_is_decided_and_answers_the_rest_in_full(tmp_path: Path) -> None:
    # The planted gap of .300 is far above .02; a copy of the student's own prompt can never be told from it.
    hints = [NONE, HINT, {"name": "copy", "kind": "static", "template": "NOISE", "controls": []}]
    path = changed(
        write_study(tmp_path / "study", rollouts=8, hints=hints), adaptive=True, first_rollouts=6, stage_examples=8
    )
    probe = run_probe(path)
    result = probe.run(quiet)
    strong, copy = result.hint("hint").stopping, result.hint("copy").stopping
    assert strong is not None
    assert copy is not None
    assert result.hint("none").stopping is None
    assert (strong.decided, copy.decided) == ("above", "open")
    assert strong.low > 0.02
    assert (strong.rollouts, copy.rollouts) == (6, 8)
    assert len(rows(path, "hint")) == strong.examples * 6 == len(rows(path, "hint/irrelevant"))
    assert result.hint("hint").num_rollouts == strong.examples * 6
    assert copy.examples == NUM_EXAMPLES
    assert len(rows(path, "copy")) == NUM_EXAMPLES * 8
    assert "2010.09686" in strong.rule
    again = run_probe(path).run(quiet)
    assert again.effort.generated_rollouts == 0
    assert [gap.stopping for gap in again.hints] == [gap.stopping for gap in result.hints]


class Killed(Exception):
    """Stands for a kill: nothing after it runs."""


@pytest.mark.parametrize("after", [60, 90, 140])
def test_an_adaptive_probe_that_was_cut_off_ends_with_the_same_rollouts(tmp_path: Path, after: int) -> None:
    hints = [NONE, HINT, {**HINT, "name": "gated", "gating": "failed"}]
    options = {"adaptive": True, "stage_examples": 8, "shard_rollouts": 16}
    calm = changed(write_study(tmp_path / "calm", rollouts=4, hints=hints), **options)
    cut = changed(write_study(tmp_path / "cut", rollouts=4, hints=hints), **options)
    run_probe(calm).run(quiet)
    seen = 0

    def until(_stage: str, _done: int, _total: int) -> None:
        nonlocal seen
        seen += 1
        if seen == after:
            raise Killed

    with pytest.raises(Killed):
        run_probe(cut).run(until)
    finished: Probe = run_probe(cut)
    finished.run(quiet)
    columns = ["arm", "example_id", "index", "text", "seed"]
    both = [
        Study(path).rollouts.read()[columns].sort_values(columns[:3]).reset_index(drop=True) for path in (calm, cut)
    ]
    pd.testing.assert_frame_equal(*both)
