"""The probe: measure the initial gap of every hint config and its controls; resumable, nothing counted twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from predictor.checkers import build_checker
from predictor.engines.base import Engine
from predictor.probe.arms import Arm, ArmFactory, Job
from predictor.probe.estimates import Estimator, Measured
from predictor.probe.instrument import ConsensusEngine, Instrument, OnProgress, preflight
from predictor.records import Estimate, Example, GapEstimate, HintConfig, current_provenance
from predictor.store import Study
from predictor.tasks import TaskData, load_examples

__all__ = ["Arm", "ArmFactory", "ConsensusEngine", "Instrument", "OnProgress", "Probe", "ProbeResult"]


@dataclass(frozen=True)
class ProbeResult:
    """What one probe concluded, and what it took."""

    model: str
    task: str
    student: Estimate
    baseline_id: str
    hints: tuple[GapEstimate, ...]
    """Hint configs in the study's order, each followed by its controls."""
    num_rollouts: int
    num_tokens: int
    generated_rollouts: int
    """Rollouts that this call had to generate; 0 when everything was stored already."""
    seconds: float

    def hint(self, name: str) -> GapEstimate:
        """The estimate of one hint config or control."""
        return next(gap for gap in self.hints if gap.hint == name)

    def as_json(self, level: float = 0.95) -> dict[str, Any]:
        """The shape that `gapcast probe --json` prints (design, section 12)."""
        return {
            "model": self.model,
            "task": self.task,
            "student": self.student.as_json(level),
            "baseline_id": self.baseline_id,
            "hints": [gap_json(gap, level) for gap in self.hints],
            "num_rollouts": self.num_rollouts,
            "num_tokens": self.num_tokens,
            "seconds": round(self.seconds, 3),
        }


def gap_json(gap: GapEstimate, level: float) -> dict[str, Any]:
    """One hint config as `--json` prints it."""
    names = (
        "teacher",
        "gap",
        "net_gap",
        "transferable_gap",
        "consensus_gap",
        "recovery",
        "harm",
        "copy_rate",
    )
    estimates = {name: getattr(gap, name) for name in names}
    return {
        "hint": gap.hint,
        "kind": gap.kind,
        "is_control": gap.is_control,
        **{name: None if value is None else value.as_json(level) for name, value in estimates.items()},
        "coverage": gap.coverage,
        "truncated": gap.truncated,
        "undecided": gap.undecided,
        "num_rollouts": gap.num_rollouts,
    }


class Probe:
    """Measures one study with one engine; every step can be killed and started again."""

    def __init__(self, study: Study, engine: Engine, open_consensus: Callable[[], ConsensusEngine]) -> None:
        self.study = study
        self.config = study.config
        self.engine = engine
        self._open_consensus = open_consensus
        self.data: TaskData = load_examples(self.config.task, study.path)
        self.factory = ArmFactory(self.config, self.data.train, engine.tokenizer)
        self.instrument = Instrument(
            engine,
            build_checker(self.config.task.checker),
            self.config.sampling,
            study.rollouts,
            shard_rollouts=self.config.probe.shard_rollouts,
        )

    @property
    def remeasured(self) -> tuple[Example, ...]:
        """Held-out examples, and as many training examples, measured before and after training."""
        return self.data.eval + self.data.train[: len(self.data.eval)]

    def run(self, on_progress: OnProgress) -> ProbeResult:
        """Measure what is missing, then estimate; gaps.jsonl holds the result."""
        started = time.monotonic()
        student = self.factory.student()
        rollouts = self.config.probe.rollouts
        student_jobs = self.factory.jobs(student, self.remeasured, rollouts, {})
        preflight(student_jobs, self.engine, self.config.sampling)
        generated = self.instrument.collect(student_jobs, stage="student", on_progress=on_progress)
        jobs = self.hint_jobs()
        preflight(jobs, self.engine, self.config.sampling)
        generated += self.instrument.collect(jobs, stage="hints", on_progress=on_progress)
        generated += self._collect_consensus(on_progress)
        result = self.estimate(seconds=time.monotonic() - started, generated=generated)
        self.study.replace("gaps", list(result.hints))
        return result

    def hint_jobs(self) -> list[Job]:
        """Jobs of every teacher and control arm, all arms of an example adjacent so that they share their prefix."""
        attempts = self.instrument.attempts(self.factory.student().key)
        jobs: dict[str, Job] = {}
        for arm in self.hint_arms():
            for job in self.factory.jobs(arm, self.data.eval, self.config.probe.rollouts, attempts):
                jobs[job.request_id] = job
        order = {example.example_id: i for i, example in enumerate(self.data.eval)}
        return sorted(jobs.values(), key=lambda job: order[job.example.example_id])

    def hint_arms(self) -> list[Arm]:
        """Teacher and control arms in the study's order; the bare resample is always among them."""
        arms = [self.factory.control(self.config.hints[0], "none")]
        for hint in self.config.hints:
            arms.append(self.factory.teacher(hint))
            arms += [self.factory.control(hint, control) for control in hint.control_kinds]
        return arms

    def estimate(self, *, seconds: float = 0.0, generated: int = 0) -> ProbeResult:
        """Gap estimates from what is stored."""
        frame = self.study.rollouts.read(self._all_keys())
        provenance = current_provenance(
            config_key=self.config.key, engine=self.engine.name, engine_version=self.engine.version
        )
        measured = Measured.from_frame(frame)
        estimator = Estimator(
            self.config, self.factory, measured, consensus_engine="transformers", provenance=provenance
        )
        gaps: list[GapEstimate] = []
        for hint in self.config.hints:
            gaps.append(estimator.hint(hint))
            gaps += [estimator.control(hint, control) for control in hint.control_kinds]
        return ProbeResult(
            model=self.config.model.path,
            task=self.config.task.key,
            student=gaps[0].student,
            baseline_id=gaps[0].baseline_id,
            hints=tuple(gaps),
            num_rollouts=len(frame),
            num_tokens=int(frame["completion_ids"].map(len).sum()),
            generated_rollouts=generated,
            seconds=seconds,
        )

    def _collect_consensus(self, on_progress: OnProgress) -> int:
        hints = [hint for hint in self.config.hints if needs_ensemble(hint)]
        if not hints:
            return 0
        examples = self.data.eval[: self.config.probe.consensus_examples]
        rollouts = self.config.probe.consensus_rollouts
        mean = self.config.training.resolved.consensus_mean
        attempts = self.instrument.attempts(self.factory.student().key)
        jobs: list[Job] = []
        for hint in hints:
            arm = self.factory.consensus(hint, mean)
            jobs += self.factory.consensus_jobs(arm, examples, rollouts, attempts)
        if self.engine.name == "transformers" and not self.instrument.missing(jobs):
            return 0
        engine = self._open_consensus()
        preflight(jobs, engine, self.config.sampling)
        generated = self._collect_consensus_student(engine, examples, on_progress)
        return generated + self.instrument.collect_consensus(jobs, engine, stage="consensus", on_progress=on_progress)

    def _collect_consensus_student(
        self, engine: ConsensusEngine, examples: Sequence[Example], on_progress: OnProgress
    ) -> int:
        """The student by the consensus engine, where the probe's engine is another one."""
        if engine.name == self.engine.name:
            return 0
        arm = self.factory.consensus_student(engine.name)
        jobs = self.factory.jobs(arm, examples, self.config.probe.rollouts, {})
        return self.instrument.with_engine(engine).collect(jobs, stage="consensus student", on_progress=on_progress)

    def _all_keys(self) -> set[str]:
        mean = self.config.training.resolved.consensus_mean
        arms = [self.factory.student(), self.factory.consensus_student("transformers"), *self.hint_arms()]
        arms += [self.factory.consensus(hint, mean) for hint in self.config.hints]
        return {arm.key for arm in arms}


def needs_ensemble(hint: HintConfig) -> bool:
    """Whether the consensus policy differs from the teacher, so that it must be decoded."""
    return hint.kind not in ("none", "static")
