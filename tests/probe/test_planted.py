"""Planted truths: on a model known in closed form the probe finds what was planted, at its stated rates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from predictor.engines.scripted import ScriptedEngine, ScriptedTable, plant
from predictor.probe import Probe
from predictor.store import Study

NUM_EXAMPLES = 32
PLANTED_GAP = 0.300
SEEDS = 200


def planted_table(num_examples: int, drift: float = 0.0) -> ScriptedTable:
    """Student accuracies from .1 to .6, different for each question; the hint adds exactly .300 to each.

    `drift` is added to every accuracy, as another engine might.
    """
    students = np.linspace(0.1, 0.6, num_examples) + drift
    rules = []
    for number, student in enumerate(students):
        hints = {"HINT": student + PLANTED_GAP, "NOISE": student}
        rules += plant(f"question {number}?", ("right", "wrong"), float(student), hints)
    return ScriptedTable(rules=tuple(rules))


def write_study(path: Path, *, seed: int = 0, rollouts: int = 2, hints: list[dict[str, object]] | None = None) -> Path:
    """A study of the planted model."""
    path.mkdir(parents=True)
    planted_table(NUM_EXAMPLES).save(path / "model")
    rows = [
        {"example_id": f"{split}{number}", "prompt": f"question {number}?", "answer": "right", "split": split}
        for split in ("train", "eval")
        for number in range(NUM_EXAMPLES)
    ]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study = {
        "model": {"path": "model"},
        "task": {
            "source": "jsonl",
            "path": "examples.jsonl",
            "eval_examples": NUM_EXAMPLES,
            "train_examples": NUM_EXAMPLES,
        },
        "sampling": {"max_tokens": 8},
        "probe": {"rollouts": rollouts, "seed": seed, "consensus_hints": 4, "consensus_examples": NUM_EXAMPLES},
        "hints": hints
        or [
            {"name": "none", "kind": "none"},
            {"name": "hint", "kind": "static", "template": "HINT", "irrelevant": "NOISE"},
        ],
        "plan": {"budget": {"seconds": 60}},
    }
    (path / "study.yaml").write_text(yaml.safe_dump(study))
    return path


def run_probe(path: Path) -> Probe:
    """The study's probe on the scripted engine."""
    study = Study(path)
    engine = ScriptedEngine(ScriptedTable.load(path / "model"))
    return Probe(study, engine, path / "model", lambda: engine)


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


@pytest.mark.timeout(300)
def test_a_planted_gap_lies_inside_its_95_percent_interval_at_that_rate(tmp_path: Path) -> None:
    inside, estimates = 0, []
    for seed in range(SEEDS):
        gap = run_probe(write_study(tmp_path / str(seed), seed=seed)).run(quiet).hint("hint").gap
        low, high = gap.interval(0.95)
        inside += low <= PLANTED_GAP <= high
        estimates.append(gap.value)
    # Between the 0.1 % and 99.9 % quantiles of 200 trials at .95; the planted gap is the same for every example.
    assert 180 <= inside <= 199
    assert abs(np.mean(estimates) - PLANTED_GAP) < 4 * np.std(estimates) / np.sqrt(SEEDS)


def test_controls_without_information_have_no_gap_and_the_student_is_measured_once(tmp_path: Path) -> None:
    hints = [
        {"name": "none", "kind": "none"},
        {"name": "hint", "kind": "static", "template": "HINT", "irrelevant": "NOISE"},
        {"name": "again", "kind": "static", "template": "HINT indeed", "irrelevant": "NOISE"},
    ]
    probe = run_probe(write_study(tmp_path / "study", rollouts=16, hints=hints))
    result = probe.run(quiet)
    control = result.hint("hint/irrelevant").gap
    assert abs(control.value) < 4 * control.stderr
    assert {gap.baseline_id for gap in result.hints} == {result.baseline_id}
    arms = probe.study.rollouts.read().groupby("arm_key").size()
    # student on both splits; on the held-out ones bare resample, `none`, two teachers and one shared irrelevant text
    assert sorted(arms) == [16 * NUM_EXAMPLES] * 5 + [32 * NUM_EXAMPLES]


def test_net_gap_subtracts_the_bare_resample_and_consensus_of_a_shared_hint_is_its_gap(tmp_path: Path) -> None:
    result = run_probe(write_study(tmp_path / "study", rollouts=8)).run(quiet)
    hint, none = result.hint("hint"), result.hint("none")
    assert hint.net_gap is not None
    assert abs(hint.net_gap.value - PLANTED_GAP) < 4 * hint.net_gap.stderr
    assert hint.consensus_gap == hint.gap
    assert hint.transferable_gap == hint.gap
    assert none.consensus_detail is not None
    assert none.consensus_detail.estimator == "identical"


def test_the_consensus_of_hints_that_contradict_each_other_is_their_mean(tmp_path: Path) -> None:
    hints = [{"name": "mixed", "kind": "messages", "template": "{{ metadata.hint }}", "controls": []}]
    path = write_study(tmp_path / "study", rollouts=8, hints=hints)
    study = yaml.safe_load((path / "study.yaml").read_text())
    study["probe"] |= {"consensus_hints": 16, "consensus_rollouts": 16}
    study["training"] = {"preset": "opsd_math"}
    (path / "study.yaml").write_text(yaml.safe_dump(study))
    rows = [json.loads(line) for line in (path / "examples.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["metadata"] = {"hint": "HINT" if number % 2 else "NOISE"}
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gap = run_probe(path).run(quiet).hint("mixed")
    assert gap.consensus_gap is not None
    assert gap.consensus_detail is not None
    assert gap.consensus_detail.mean == "arithmetic"
    # Half of the other examples' hints add .300 and half add nothing: the forward KL's mean keeps half.
    assert abs(gap.consensus_gap.value - PLANTED_GAP / 2) < 4 * gap.consensus_gap.stderr + 0.03


def test_f17_two_engines_are_never_mixed_within_one_contrast(tmp_path: Path) -> None:
    """F17: the engine that decodes the consensus drifts by .100; its own student is subtracted, not the other's."""
    hints = [{"name": "mixed", "kind": "messages", "template": "{{ metadata.hint }}", "controls": []}]
    path = write_study(tmp_path / "study", rollouts=64, hints=hints)
    study = (path / "study.yaml").read_text()
    (path / "study.yaml").write_text(
        study.replace("consensus_hints: 4", "consensus_hints: 2\n  consensus_rollouts: 64")
    )
    rows = [json.loads(line) for line in (path / "examples.jsonl").read_text().splitlines()]
    for row in rows:
        row["metadata"] = {"hint": "HINT"}
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    probing, other = run_probe(path).engine, ScriptedEngine(planted_table(NUM_EXAMPLES, drift=0.1))
    other.name = "transformers"
    gap = Probe(Study(path), probing, path / "model", lambda: other).run(quiet).hint("mixed")
    assert gap.consensus_gap is not None
    assert gap.consensus_detail is not None
    assert gap.consensus_detail.student.value - gap.student.value == pytest.approx(0.1, abs=0.04)
    assert abs(gap.consensus_gap.value - PLANTED_GAP) < 3 * gap.consensus_gap.stderr
    assert gap.consensus_gap.stderr < 0.02
    assert abs(gap.gap.value - PLANTED_GAP) < 3 * gap.gap.stderr


def test_a_second_probe_generates_nothing_and_concludes_the_same(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    first, second = run_probe(path).run(quiet), run_probe(path).run(quiet)
    assert first.effort.generated_rollouts > 0
    assert second.effort.generated_rollouts == 0
    assert [gap.gap for gap in first.hints] == [gap.gap for gap in second.hints]


def test_more_rollouts_are_added_to_those_already_stored(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", rollouts=2)
    run_probe(path).run(quiet)
    (path / "study.yaml").write_text((path / "study.yaml").read_text().replace("rollouts: 2", "rollouts: 5"))
    result = run_probe(path).run(quiet)
    frame = Study(path).rollouts.read()
    assert result.effort.generated_rollouts == 3 * 6 * NUM_EXAMPLES
    assert frame.groupby(["arm_key", "example_id"])["index"].agg(list).map(sorted).map(tuple).nunique() == 1


def test_an_example_that_changed_is_refused_instead_of_mixed(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    run_probe(path).run(quiet)
    text = (path / "examples.jsonl").read_text()
    (path / "examples.jsonl").write_text(text.replace("question 3?", "question 3? please"))
    with pytest.raises(ValueError, match="prompt is not the one"):
        run_probe(path).run(quiet)


def test_truncated_and_undecided_rollouts_are_counted(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    text = (path / "study.yaml").read_text()
    (path / "study.yaml").write_text(text.replace("max_tokens: 8", "max_tokens: 3"))
    rows = [json.loads(line) for line in (path / "examples.jsonl").read_text().splitlines()]
    del rows[-1]["answer"]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gap = run_probe(path).run(quiet).hint("hint")
    assert gap.truncated == 1.0
    assert gap.undecided == pytest.approx(1 / NUM_EXAMPLES)
    assert gap.teacher.value == 0.0
