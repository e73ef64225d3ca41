"""metrics.jsonl: one line for each finished step, truncated to the checkpoint when a run is resumed; and alarms."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from predictor.errors import StoreError
from predictor.records import Record
from trainer.files import disk_errors

# The first steps' mean is what later steps are compared with: one step of few rollouts is too noisy.
_BASELINE_STEPS = 5
# Below this a doubled entropy is still a nearly deterministic policy.
_SMALL_ENTROPY = 0.1
_PROGRESS_SECONDS = 5.0


class StepMetrics(Record):
    """One line of metrics.jsonl. KLs and entropies are means over live tokens, in nats, at the sampling temperature."""

    step: int
    """Finished steps, from 1."""
    loss: float
    forward_kl: float
    """KL(teacher‖student) per token over the full vocabulary; NaN when no token carried loss."""
    reverse_kl: float
    student_entropy: float
    teacher_entropy: float
    student_mass: float
    """Student probability on the loss's support."""
    teacher_mass: float
    """Teacher probability on the loss's support."""
    grad_norm: float
    """Global norm before clipping."""
    lr: float
    mean_length: float
    """Tokens in a rollout, stop token included."""
    truncated: float
    """Share of rollouts with finish reason `length`."""
    coverage: float
    """Share of rollouts whose hint could be built; the others carry no loss."""
    num_rollouts: int
    num_tokens: int
    """Sampled tokens."""
    num_live_tokens: int
    """Tokens that carried loss."""
    seconds: float
    alarms: tuple[str, ...] = ()


def alarms(earlier: Sequence[StepMetrics], mean_length: float, entropy: float) -> tuple[str, ...]:
    """Signs of collapse against the mean of the first five steps: rollouts half as long, entropy twice as high."""
    first = earlier[:_BASELINE_STEPS]
    if len(first) < _BASELINE_STEPS:
        return ()
    found = []
    usual_length = sum(metrics.mean_length for metrics in first) / len(first)
    if mean_length < 0.5 * usual_length:
        found.append("length_halved")
    usual_entropy = sum(metrics.student_entropy for metrics in first) / len(first)
    if entropy > 2.0 * max(usual_entropy, _SMALL_ENTROPY):
        found.append("entropy_doubled")
    return tuple(found)


class MetricsLog:
    """The steps of one run, in memory and on disk."""

    def __init__(self, path: Path, *, num_steps: int) -> None:
        """Keep the first `num_steps` lines, drop what a killed process wrote after its last checkpoint."""
        self.path = path
        with disk_errors(path):
            lines = path.read_bytes().splitlines(keepends=True)[:num_steps] if path.exists() else []
        self.steps = [_parse(line, number, path) for number, line in enumerate(lines, start=1)]
        if len(self.steps) < num_steps:
            raise _damaged(path, f"{len(self.steps)} lines", f"at least {num_steps}: the checkpoint's steps")
        with disk_errors(path):
            self._file = path.open("ab")
            self._file.truncate(sum(map(len, lines)))

    def __enter__(self) -> Self:
        """The log itself, open for lines."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def append(self, metrics: StepMetrics) -> None:
        """Add one finished step; it is on disk for other processes at once, for power failures after `sync`."""
        self.steps.append(metrics)
        with disk_errors(self.path):
            self._file.write(f"{metrics.to_json()}\n".encode())
            self._file.flush()

    def sync(self) -> None:
        """Put all lines on disk, before the checkpoint that counts on them."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())


def _parse(line: bytes, number: int, path: Path) -> StepMetrics:
    try:
        metrics = StepMetrics.model_validate_json(line)
    except ValidationError as error:
        raise _damaged(path, f"line {number}: {error.errors()[0]['msg']}", "lines written by gapcast-train") from None
    if metrics.step != number or not line.endswith(b"\n"):
        raise _damaged(path, f"line {number} holds step {metrics.step}", "each step once, in order")
    return metrics


def _damaged(path: Path, found: str, expected: str) -> StoreError:
    return StoreError(
        "metrics.jsonl does not match the checkpoint",
        where=str(path),
        found=found,
        expected=expected,
        fix="restore the file, or remove the run's `state` directory to train it from the start",
    )


def warn(text: str) -> None:
    """One line to stderr about something that the run goes on without."""
    sys.stderr.write(f"warning: {text}\n")


class Progress:
    """Prints a line to stderr now and then, and every new alarm."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps
        self._last = -math.inf
        self._alarms: set[str] = set()

    def show(self, metrics: StepMetrics) -> None:
        """Print the step when the last line is old, when it is the final one, or when it raises a new alarm."""
        new = set(metrics.alarms) - self._alarms
        self._alarms |= new
        for alarm in sorted(new):
            warn(f"step {metrics.step}: {alarm.replace('_', ' ')}, a sign of collapse")
        if metrics.step < self._num_steps and time.monotonic() - self._last < _PROGRESS_SECONDS:
            return
        self._last = time.monotonic()
        sys.stderr.write(
            f"step {metrics.step}/{self._num_steps}  loss {metrics.loss:.4f}  reverse KL {metrics.reverse_kl:.4f}"
            f"  length {metrics.mean_length:.1f}  {metrics.seconds:.2f} s\n"
        )
        sys.stderr.flush()
