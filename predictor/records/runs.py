"""One training run: its identity, what the trainer reads, and what came out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from predictor.records.base import Provenance, Record
from predictor.records.data import SamplingConfig
from predictor.records.estimate import Estimate
from predictor.records.hints import HintConfig
from predictor.records.measure import GapEstimate
from predictor.records.settings import ModelConfig, TaskConfig
from predictor.records.training import TrainingConfig

RunState = Literal["proposed", "running", "finished", "failed", "cancelled"]
Fidelity = Literal["full", "pilot"]


class RunSpec(Record):
    """Identity of one training of one model with one hint config, seed and preset."""

    model: str
    family: str
    task: str
    """Key of the task."""
    hint: str
    preset: str
    num_steps: int
    seed: int
    fidelity: Fidelity = "full"
    config_key: str
    """Hash of hint config, sampling and resolved training settings: a change of any of them is another run."""

    @property
    def key(self) -> str:
        """Short, stable name of the run; also the name of its directory."""
        return self.content_hash()[:12]


class RunConfig(Record):
    """run.json: everything `gapcast-train` needs, resolved; nothing is read from anywhere else but data files."""

    spec: RunSpec
    model: ModelConfig
    model_dir: str
    """Directory the model is loaded from."""
    task: TaskConfig
    task_dir: str
    """Directory that the task's relative paths start from."""
    hint: HintConfig
    sampling: SamplingConfig
    training: TrainingConfig


class TrainResult(Record):
    """result.json: what the trainer says about a finished run; it holds no accuracy on purpose (design, rule 2)."""

    key: str
    num_steps: int
    seconds: float
    """Wall-clock seconds of training, summed over resumed processes."""
    num_tokens: int
    """Sampled tokens."""
    checkpoint: str
    """Directory of the final weights, relative to the run directory."""
    final_loss: float
    truncated: float
    """Share of training rollouts with finish reason `length`."""
    coverage: float
    """Share of training rollouts whose hint could be built; the others carry no loss."""
    provenance: Provenance


class Cost(Record):
    """Measured device-seconds of one run: everything that is charged to the budget."""

    train_seconds: float
    eval_seconds: float
    num_devices: int = 1

    @property
    def gpu_hours(self) -> float:
        """Device-hours (on a CPU: process-hours)."""
        return (self.train_seconds + self.eval_seconds) * self.num_devices / 3600.0


class LedgerEntry(Record):
    """One line of ledger.jsonl: device-seconds that were spent and are charged to the budget."""

    kind: Literal["probe", "calibration", "pilot", "train", "record"]
    key: str = ""
    """Run key, where the time was spent on one run."""
    seconds: float
    time_utc: str


class RunRecord(Record):
    """One finished or failed run, measured by the probe's own instrument at the final step."""

    spec: RunSpec
    state: RunState
    gap: GapEstimate | None = None
    before: Estimate | None = None
    """Student accuracy on held-out examples before training."""
    after: Estimate | None = None
    improvement: Estimate | None = None
    """After minus before, paired over held-out examples."""
    train_before: Estimate | None = None
    train_after: Estimate | None = None
    train_improvement: Estimate | None = None
    """The same on training examples, where the published law was fitted; never mixed with the held-out one."""
    baseline_id: str = ""
    decoding: str = ""
    training_key: str = ""
    """Hash of the resolved training settings; a preset's overrides change it. Empty in outside and older records."""
    checkpoint_rule: Literal["final", "best"] = "final"
    truncated: float = 0.0
    undecided: float = 0.0
    cost: Cost | None = None
    started_at: str = ""
    """When training began, ISO 8601 with microseconds, UTC; a forecast must be older to be scored against it."""
    reason: str = ""
    """Why a failed or cancelled run ended."""
    source: str = "gapcast"
    """`gapcast`, or the kind of log that the row was imported from."""
    provenance: Provenance

    @property
    def measured_improvement(self) -> Estimate | None:
        """The improvement of a finished run; None when it is not finished or was not measured."""
        known = self.state == "finished" and self.improvement is not None and math.isfinite(self.improvement.value)
        return self.improvement if known else None


def latest(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """One record of each run: the last one, because a run is written again when its state changes."""
    return list({run.spec: run for run in runs}.values())
