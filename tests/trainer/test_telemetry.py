"""One line a step, none twice, and alarms before a collapse is complete."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from predictor.errors import StoreError
from trainer.telemetry import MetricsLog, Progress, StepMetrics, alarms


def metrics(step: int, **changes: Any) -> StepMetrics:
    values: dict[str, Any] = dict.fromkeys(StepMetrics.model_fields, 0.5)
    counts = {"num_rollouts": 4, "num_tokens": 20, "num_live_tokens": 20, "mean_length": 5.0, "alarms": ()}
    return StepMetrics.model_validate(values | counts | {"step": step} | changes)


def write(path: Path, num_steps: int) -> None:
    with MetricsLog(path, num_steps=0) as log:
        for step in range(1, num_steps + 1):
            log.append(metrics(step))


def test_lines_after_the_checkpoint_are_dropped_and_written_again_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 5)
    before = path.read_bytes()
    with MetricsLog(path, num_steps=3) as log:
        assert [m.step for m in log.steps] == [1, 2, 3]
        assert path.read_bytes() == b"".join(before.splitlines(keepends=True)[:3])
        log.append(metrics(4))
        log.append(metrics(5))
        log.sync()
    assert path.read_bytes() == before


def test_a_line_torn_by_a_kill_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 3)
    path.write_bytes(path.read_bytes()[:-20])
    with MetricsLog(path, num_steps=2):
        pass
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:1],
        lambda lines: [lines[0], "{not json}\n"],
        lambda lines: [lines[0], lines[0]],
        lambda lines: [lines[0], lines[1].rstrip("\n")],
    ],
    ids=["missing", "malformed", "doubled", "torn"],
)
def test_lines_that_do_not_match_the_checkpoint_are_an_error(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 2)
    path.write_text("".join(damage(path.read_text().splitlines(keepends=True))))
    with pytest.raises(StoreError, match="does not match the checkpoint"):
        MetricsLog(path, num_steps=2)


def test_unknown_numbers_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, num_steps=0) as log:
        log.append(metrics(1, reverse_kl=math.nan, alarms=("length_halved",)))
    with MetricsLog(path, num_steps=1) as again:
        assert math.isnan(again.steps[0].reverse_kl)
        assert again.steps[0].alarms == ("length_halved",)


def test_alarms_compare_with_the_mean_of_the_first_five_steps() -> None:
    earlier = [metrics(step, mean_length=length) for step, length in enumerate((4, 6, 5, 5, 5, 90), start=1)]
    assert alarms(earlier, 2.51, 0.5) == ()
    assert alarms(earlier, 2.49, 0.5) == ("length_halved",)
    assert alarms(earlier, 5.0, 1.01) == ("entropy_doubled",)
    assert alarms(earlier, 1.0, 9.0) == ("length_halved", "entropy_doubled")
    assert alarms(earlier[:4], 1.0, 9.0) == ()
    assert alarms(earlier, 5.0, math.nan) == ()


def test_entropy_near_zero_may_double() -> None:
    earlier = [metrics(step, student_entropy=0.001) for step in range(1, 6)]
    assert alarms(earlier, 5.0, 0.19) == ()
    assert alarms(earlier, 5.0, 0.21) == ("entropy_doubled",)


def test_an_alarm_is_printed_when_it_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(num_steps=9)
    for step in (1, 2, 3):
        progress.show(metrics(step, alarms=("length_halved",) if step > 1 else ()))
    progress.show(metrics(9))
    lines = capsys.readouterr().err.splitlines()
    assert sum("length halved" in line for line in lines) == 1
    assert [line.split()[1] for line in lines if line.startswith("step ")] == ["1/9", "9/9"]
