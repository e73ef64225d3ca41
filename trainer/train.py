"""On-policy self-distillation: the student learns on its own rollouts what the same model says when it sees the hint.

`take_step` is the method (arXiv 2601.20802, 2601.18734), read from top to bottom; `train` repeats it and survives
being killed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch

from predictor.checkers import build_checker
from predictor.engines.model_files import load_tokenizer
from predictor.engines.transformers import TransformersEngine
from predictor.errors import RunError, StudyError
from predictor.records import EmaTeacher, RunConfig, TrainResult, current_provenance
from predictor.tasks import load_examples
from trainer.batching import Row, micro_batches, pad
from trainer.checkpoint import (
    ResumeState,
    copy_into,
    export_model,
    fingerprint,
    load_state,
    remove_states,
    save_state,
)
from trainer.config import RunFiles, load_run
from trainer.files import exclusive, write_atomically
from trainer.losses import Objective, Side, TokenSums, distillation_loss
from trainer.memory import check_memory, within_memory
from trainer.model import LanguageModel, has_bfloat16, load_model
from trainer.optimizer import Optimizer, learning_rate
from trainer.rollouts import Sampler, StepRollouts
from trainer.stop import StopRequest
from trainer.teacher import follow, make_teacher
from trainer.telemetry import MetricsLog, Progress, StepMetrics, alarms, warn


@dataclass(frozen=True)
class Learner:
    """Everything that a step reads or changes."""

    config: RunConfig
    student: LanguageModel
    teacher: LanguageModel
    optimizer: Optimizer
    sampler: Sampler
    base_fingerprint: str

    @property
    def objective(self) -> Objective:
        """The configured divergence, at the temperature that the rollouts are sampled at."""
        training = self.config.training
        return Objective(training.divergence, training.support, self.config.sampling.temperature)

    def precision(self) -> AbstractContextManager[object]:
        """Autocast as configured, where the hardware has it; weights, gradients and optimiser state stay float32."""
        device = self.student.device
        enabled = self.config.training.autocast == "bfloat16" and has_bfloat16(device)
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def load_learner(config: RunConfig, root: Path) -> Learner:
    """Student, teacher, optimiser and sampler as they are before the first step; relative paths start at `root`."""
    model_dir = root / config.model_dir
    train = load_examples(config.task, root / config.task_dir).train
    student = load_model(model_dir)
    check_memory(config, student)
    # The engine holds the student itself, so every step samples from the weights as they are then.
    engine = TransformersEngine.from_model(student.network, load_tokenizer(model_dir))
    return Learner(
        config=config,
        student=student,
        teacher=make_teacher(student),
        optimizer=Optimizer(student, config.training.optimizer),
        sampler=Sampler(config, train, engine, build_checker(config.task.checker)),
        base_fingerprint=fingerprint(student),
    )


@within_memory()
def take_step(learner: Learner, step: int, earlier: list[StepMetrics]) -> StepMetrics:
    """One update of the student; RunError, with nothing updated, when the loss or its gradient is not finite."""
    started = time.monotonic()
    training, num_steps = learner.config.training, learner.config.spec.num_steps

    # 1. Sample on-policy: the student answers without the hint.
    with learner.precision():
        rollouts = learner.sampler.sample(step)

    # 2. Score the same tokens after both prompts; 3. their divergence, a mean over the whole batch's live tokens.
    loss, sums = 0.0, TokenSums()
    for rows in micro_batches(rollouts.rows, training.micro_batch):
        micro_loss, micro_sums = score_and_compare(learner, rows, rollouts.num_live_tokens)
        micro_loss.backward()
        loss, sums = loss + micro_loss.item(), sums + micro_sums

    # 4. Step, unless no rollout had a hint: momentum alone must not move the weights.
    grad_norm, lr = 0.0, learning_rate(step, num_steps, training.optimizer)
    if rollouts.num_live_tokens:
        grad_norm = learner.optimizer.clip()
        _refuse_infinite(step, loss, grad_norm)
        learner.optimizer.step(lr)

        # 5. The teacher follows.
        follow(learner.teacher, learner.student, training.teacher)

    measured = {"loss": loss, "grad_norm": grad_norm, "lr": lr, "seconds": time.monotonic() - started}
    return _metrics(step, rollouts, sums, measured, earlier)


def score_and_compare(learner: Learner, rows: list[Row], num_tokens: int) -> tuple[torch.Tensor, TokenSums]:
    """The rows' part of the loss: divergence of student and teacher at every completion token, over `num_tokens`."""
    completions, device = [row.completion_ids for row in rows], learner.student.device
    with learner.precision():
        with torch.no_grad():
            teacher_NH = learner.teacher.hidden(pad([row.teacher_ids for row in rows], completions, device))
        student_NH = learner.student.hidden(pad([row.student_ids for row in rows], completions, device))
        student, teacher = Side(learner.student, student_NH), Side(learner.teacher, teacher_NH)
        return distillation_loss(student, teacher, learner.objective, num_tokens)


def train(root: Path, stop: StopRequest | None = None) -> TrainResult:
    """Train the run in directory `root` to its last step, going on from its newest checkpoint.

    A finished run is left as it is. A kill at any instant loses the steps since the last checkpoint, and the run
    that goes on repeats them: on a CPU it ends with the same weights, bit by bit. RunStopped after SIGINT or SIGTERM.
    """
    files = RunFiles(root)
    config = load_run(root)
    with exclusive(files.lock):
        if files.result.exists():
            remove_states(files.state)
            return TrainResult.model_validate_json(files.result.read_text(encoding="utf-8"))
        with stop or StopRequest() as request:
            return _Run(files, config).finish(request)


class _Run:
    """One process's part of a run: what it started from, what it has measured, how it saves."""

    def __init__(self, files: RunFiles, config: RunConfig) -> None:
        self._started = time.monotonic()
        self._files, self._config = files, config
        self._learner = load_learner(config, files.root)
        if config.training.autocast != "none" and not has_bfloat16(self._learner.student.device):
            warn("this device computes no bfloat16; forward passes run in float32")
        self._seconds_before, first = self._restore()
        self._log = MetricsLog(files.metrics, num_steps=first)

    def finish(self, stop: StopRequest) -> TrainResult:
        """Take the remaining steps, then write checkpoint and result."""
        num_steps, every = self._config.spec.num_steps, self._config.training.checkpoint_every
        progress = Progress(num_steps)
        with self._log as log:
            for step in range(len(log.steps), num_steps):
                stop.raise_if_asked(step)
                metrics = take_step(self._learner, step, log.steps)
                log.append(metrics)
                progress.show(metrics)
                if stop.asked or (step + 1) % every == 0 or step + 1 == num_steps:
                    self._save()
        export_model(self._files.checkpoint, self._learner.student, self._files.root / self._config.model_dir)
        # Last of all files, because its presence is what makes a run finished.
        result = self._result()
        write_atomically(self._files.result, result.model_dump_json(indent=2) + "\n")
        remove_states(self._files.state)
        return result

    def _restore(self) -> tuple[float, int]:
        """Seconds and steps that earlier processes saved, with their weights; (0, 0) for a fresh run."""
        learner, where = self._learner, str(self._files.state)
        found = load_state(self._files.state, learner.student.device)
        if found is None:
            return 0.0, 0
        state, tensors = found
        _check_same_run(state, self._identity(), where)
        copy_into(learner.student.parameters, tensors.get("student", {}), where)
        if "teacher" in tensors:
            copy_into(learner.teacher.parameters, tensors["teacher"], where)
        learner.optimizer.restore(tensors.get("optimizer", {}))
        return state.seconds, state.step

    def _save(self) -> None:
        learner = self._learner
        tensors: dict[str, Mapping[str, torch.Tensor]] = {
            "student": learner.student.parameters,
            "optimizer": learner.optimizer.tensors(),
        }
        if isinstance(self._config.training.teacher, EmaTeacher):
            tensors["teacher"] = learner.teacher.parameters
        identity = {"step": len(self._log.steps), "seconds": self._seconds(), **self._identity()}
        # Lines first: a checkpoint must not count on lines that a power failure could still take.
        self._log.sync()
        save_state(self._files.state, ResumeState.model_validate(identity), tensors)

    def _identity(self) -> dict[str, str]:
        return {"run_hash": self._config.content_hash(), "base_fingerprint": self._learner.base_fingerprint}

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _result(self) -> TrainResult:
        steps, config = self._log.steps, self._config
        num_rollouts = sum(metrics.num_rollouts for metrics in steps)
        return TrainResult(
            key=config.spec.key,
            num_steps=len(steps),
            seconds=self._seconds(),
            num_tokens=sum(metrics.num_tokens for metrics in steps),
            checkpoint=self._files.checkpoint.name,
            final_loss=steps[-1].loss,
            truncated=sum(metrics.truncated * metrics.num_rollouts for metrics in steps) / num_rollouts,
            coverage=sum(metrics.coverage * metrics.num_rollouts for metrics in steps) / num_rollouts,
            provenance=current_provenance(config_key=config.spec.config_key, engine="transformers"),
        )


def _metrics(
    step: int, rollouts: StepRollouts, sums: TokenSums, measured: dict[str, float], earlier: list[StepMetrics]
) -> StepMetrics:
    num_live = rollouts.num_live_tokens
    means = sums.means(num_live)
    mean_length = rollouts.num_tokens / rollouts.num_rollouts
    return StepMetrics(
        step=step + 1,
        mean_length=mean_length,
        truncated=rollouts.num_truncated / rollouts.num_rollouts,
        coverage=len(rollouts.rows) / rollouts.num_rollouts,
        num_rollouts=rollouts.num_rollouts,
        num_tokens=rollouts.num_tokens,
        num_live_tokens=num_live,
        alarms=alarms(earlier, mean_length, means["student_entropy"]),
        **means,
        **measured,
    )


def _refuse_infinite(step: int, loss: float, grad_norm: float) -> None:
    if math.isfinite(loss) and math.isfinite(grad_norm):
        return
    raise RunError(
        "training diverged: the loss or its gradient is not finite",
        where=f"step {step + 1}",
        found=f"loss {loss}, gradient norm {grad_norm}",
        fix="lower training.overrides.optimizer.lr; nothing was updated in this step",
    )


def _check_same_run(state: ResumeState, identity: dict[str, str], where: str) -> None:
    changed = [name for name, value in identity.items() if getattr(state, name) != value]
    if not changed:
        return
    what = {"run_hash": "run.json", "base_fingerprint": "the initial model"}
    raise StudyError(
        f"{what[changed[0]]} has changed since this run's last checkpoint",
        where=where,
        fix="restore it, train in a new directory, or remove `state` to start this run over",
    )
