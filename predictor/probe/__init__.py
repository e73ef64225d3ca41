"""The probe: measure the initial gap of every hint config and its controls; resumable, nothing counted twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from predictor.checkers import build_checker
from predictor.engines.base import ConsensusEngine, Engine, ScoreRequest
from predictor.probe.adaptive import Stages, still_open
from predictor.probe.arms import Arm, ArmFactory, Job
from predictor.probe.diagnostics import Diagnoser
from predictor.probe.instrument import NOT_JUDGED, Instrument, OnProgress, preflight
from predictor.probe.material import Material
from predictor.probe.reweight.collect import collect_scores, proposal_arms, score_progress, score_tasks
from predictor.probe.summary import Effort, ProbeResult, arm_keys, estimate_study, hint_arms, needs_ensemble
from predictor.records import Example, HintConfig, Record
from predictor.records.diagnostics import HintDiagnostics
from predictor.store import Study
from predictor.tasks import TaskData, load_examples

__all__ = [
    "NOT_JUDGED",
    "Arm",
    "ArmFactory",
    "ConsensusEngine",
    "Effort",
    "Instrument",
    "OnProgress",
    "Pace",
    "Probe",
    "ProbeResult",
    "estimate_study",
]


_CANARY_EXAMPLES = 8
_ENOUGH_ROLLOUTS = 64
"""Fewer say more about start-up than about pace."""


class Pace(Record):
    """pace.json: measured seconds of one rollout on the probing engine."""

    seconds_per_rollout: float
    num_rollouts: int
    """Rollouts that it was measured on."""


class Probe:
    """Measures one study with one engine; every step can be killed and started again."""

    def __init__(
        self,
        study: Study,
        engine: Engine,
        model_dir: Path,
        open_consensus: Callable[[], ConsensusEngine],
    ) -> None:
        self.study = study
        self.model_dir = model_dir
        self.config = study.config
        self.engine = engine
        self._open_consensus = open_consensus
        self.data: TaskData = load_examples(self.config.task, study.path)
        self.factory = ArmFactory(self.config, self.data.train, engine.tokenizer, self.data.eval)
        self.instrument = Instrument(
            engine,
            build_checker(self.config.task.checker),
            self.config.sampling,
            study.rollouts,
            shard_rollouts=self.config.probe.shard_rollouts,
            baseline=self.factory.student().key,
        )
        self.instrument.started_with(model_dir)
        self.material = Material(self.factory, self.instrument, self.config.sampling)

    @cached_property
    def canary(self) -> tuple[ScoreRequest, ...]:
        """The student's first stored rollout of a few examples; trained weights must give it other scores."""
        student = self.factory.student()
        frame = self.study.rollouts.read({student.key})
        first = frame[frame["index"] == 0]
        stored = dict(zip(first["example_id"], first["completion_ids"], strict=True))
        jobs = self.factory.jobs(student, self.remeasured[:_CANARY_EXAMPLES], 1, {})
        known = ((job.prompts[0].ids, stored.get(job.example.example_id)) for job in jobs)
        return tuple(ScoreRequest(prompt, tuple(map(int, ids))) for prompt, ids in known if ids is not None)

    @cached_property
    def initial_scores(self) -> list[tuple[float, ...]]:
        """The canary under the study's own weights, which the engine then serves."""
        self.instrument.serve(self.model_dir)
        return self.engine.score(self.canary)

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
        self.instrument.serve(self.model_dir)
        generated = self.instrument.collect(student_jobs, stage="student", on_progress=on_progress)
        generated += self.material.collect(self.config.hints, self.data.eval, self.engine, on_progress)
        generated += self._collect_stages(on_progress) if self.config.probe.adaptive else self._collect_all(on_progress)
        self._keep_pace(generated, time.monotonic() - started)
        if self.config.probe.consensus_estimator != "reweight":
            generated += self._collect_consensus(on_progress)
        if self.config.probe.consensus_estimator != "ensemble":
            self._score_consensus(on_progress)
        return estimate_study(self.study, self.data, self.engine, Effort(generated, time.monotonic() - started))

    def diagnose(self, on_progress: OnProgress) -> list[HintDiagnostics]:
        """Token diagnostics and leak audit of every hint config of a probed study; generates nothing."""
        examples = self.data.eval[: self.config.probe.consensus_examples]
        attempts = self.material.attempts(self.config.hints)
        return Diagnoser(self.study, self.factory, examples, attempts, self._open_consensus).run(on_progress)

    def _keep_pace(self, generated: int, seconds: float) -> None:
        """Remember what a rollout costs on this engine, where enough was generated to tell."""
        if generated >= _ENOUGH_ROLLOUTS:
            self.study.write("pace", Pace(seconds_per_rollout=seconds / generated, num_rollouts=generated))

    def hint_jobs(
        self, hints: Sequence[HintConfig], examples: Sequence[Example], rollouts: int, *, with_controls: bool = True
    ) -> list[Job]:
        """Jobs of the hint configs' teacher and control arms, all arms of an example adjacent: they share a prefix."""
        known = self.material.attempts(hints)
        jobs: dict[str, Job] = {}
        for arm in hint_arms(hints, self.factory, with_controls=with_controls):
            attempts = {} if arm.hint is None else known.get(arm.hint.name, {})
            for job in self.factory.jobs(arm, examples, rollouts, attempts):
                jobs[job.request_id] = job
        order = {example.example_id: i for i, example in enumerate(examples)}
        return sorted(jobs.values(), key=lambda job: order[job.example.example_id])

    def _collect_all(self, on_progress: OnProgress) -> int:
        jobs = self.hint_jobs(self.config.hints, self.data.eval, self.config.probe.rollouts)
        return self._collect_jobs(jobs, "hints", on_progress)

    def _collect_stages(self, on_progress: OnProgress) -> int:
        """Stage after stage, those hint configs that are still open; then all rollouts of what remains open."""
        stages = Stages(self.config, self.factory, self.data.eval)
        first, generated = stages.rule.first_rollouts, 0
        waiting = self._still_open(stages)
        for number, end in enumerate(stages.ends, start=1):
            if not waiting:
                return generated
            jobs = self.hint_jobs(waiting, stages.examples[:end], first)
            generated += self._collect_jobs(jobs, f"hints, stage {number} of at most {len(stages.ends)}", on_progress)
            waiting = self._still_open(stages)
        if waiting and first < stages.rule.rollouts:
            # More rollouts sharpen the decision; the controls have answered every example by now.
            jobs = self.hint_jobs(waiting, stages.examples, stages.rule.rollouts, with_controls=False)
            generated += self._collect_jobs(jobs, "hints, last stage", on_progress)
        return generated

    def _still_open(self, stages: Stages) -> list[HintConfig]:
        return still_open(stages, self.config.hints, self.study.rollouts.read(arm_keys(self.config, self.factory)))

    def _collect_jobs(self, jobs: Sequence[Job], stage: str, on_progress: OnProgress) -> int:
        preflight(jobs, self.engine, self.config.sampling)
        return self.instrument.collect(jobs, stage=stage, on_progress=on_progress)

    def _collect_consensus(self, on_progress: OnProgress) -> int:
        hints = [hint for hint in self.config.hints if needs_ensemble(hint)]
        if not hints:
            return 0
        examples = self.data.eval[: self.config.probe.consensus_examples]
        rollouts = self.config.probe.consensus_rollouts
        mean = self.config.training.resolved.consensus_mean
        attempts = self.material.attempts(hints)
        jobs: list[Job] = []
        for hint in hints:
            arm = self.factory.consensus(hint, mean)
            jobs += self.factory.consensus_jobs(arm, examples, rollouts, attempts[hint.name])
        if self.engine.name == "transformers" and not self.instrument.missing(jobs):
            return 0
        engine = self._open_consensus()
        preflight(jobs, engine, self.config.sampling)
        generated = self._collect_consensus_student(engine, examples, on_progress)
        return generated + self.instrument.collect_consensus(jobs, engine, stage="consensus", on_progress=on_progress)

    def _score_consensus(self, on_progress: OnProgress) -> None:
        """Score the stored rollouts under every consensus policy; nothing is generated."""
        examples = self.data.eval[: self.config.probe.consensus_examples]
        hints = [hint for hint in self.config.hints if needs_ensemble(hint)]
        known = self.material.attempts(hints)
        tasks = []
        for hint in hints:
            attempts = known[hint.name]
            arm = self.factory.consensus(hint, self.config.training.resolved.consensus_mean)
            arms = proposal_arms(self.factory, hint)
            rollouts = self.config.probe.rollouts
            sampled = [job for a in arms for job in self.factory.jobs(a, examples, rollouts, attempts)]
            jobs = self.factory.consensus_jobs(arm, examples, 1, attempts)
            tasks += score_tasks(jobs, sampled, self.study.rollouts.read({a.key for a in arms}))
        if tasks:
            scores = collect_scores(tasks, self._open_consensus(), self.config.sampling, self.study.scores)
            score_progress(on_progress, scores, len(tasks))

    def _collect_consensus_student(
        self, engine: ConsensusEngine, examples: Sequence[Example], on_progress: OnProgress
    ) -> int:
        """The student by the consensus engine, where the probe's engine is another one."""
        if engine.name == self.engine.name:
            return 0
        arm = self.factory.consensus_student(engine.name)
        jobs = self.factory.jobs(arm, examples, self.config.probe.rollouts, {})
        return self.instrument.with_engine(engine).collect(jobs, stage="consensus student", on_progress=on_progress)
