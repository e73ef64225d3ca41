"""Token diagnostics and leak audit of every hint config, from stored rollouts and one scoring pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.engines.base import ConsensusEngine
from predictor.probe.arms import ArmFactory, Attempts, Job
from predictor.probe.diagnostics.collect import by_rollout, collect_contrasts, contrast_tasks
from predictor.probe.diagnostics.leaks import Shown, audit
from predictor.probe.diagnostics.summarise import ScoredRollout, summarise
from predictor.probe.instrument import OnProgress
from predictor.records import Example, HintConfig, current_provenance
from predictor.records.diagnostics import HintDiagnostics, LeakAudit, TokenDiagnostics
from predictor.store import Study, judged

__all__ = ["Diagnoser"]

_FLOATS = (
    "forward_kl",
    "reverse_kl",
    "disagrees",
    "student_logprob",
    "teacher_logprob",
    "student_entropy",
    "teacher_entropy",
)


@dataclass(frozen=True)
class Diagnoser:
    """Diagnoses one probed study; held-out examples up to `probe.consensus_examples` are scored."""

    study: Study
    factory: ArmFactory
    examples: Sequence[Example]
    attempts: Mapping[str, Attempts]
    """The student's judged rollouts as each hint config needs them, by its name."""
    open_engine: Callable[[], ConsensusEngine]

    def run(self, on_progress: OnProgress) -> list[HintDiagnostics]:
        """Score what is missing and write diagnostics.jsonl; hint configs of kind `none` have nothing to compare."""
        config = self.study.config
        engine = self.open_engine()
        found = []
        for hint in (hint for hint in config.hints if hint.kind != "none"):
            tokens, leaks = self._hint(hint, engine, on_progress)
            provenance = current_provenance(config_key=config.key, engine=engine.name, engine_version=engine.version)
            found.append(HintDiagnostics(hint=hint.name, tokens=tokens, leaks=leaks, provenance=provenance))
        self.study.replace("diagnostics", found)
        return found

    def _hint(
        self, hint: HintConfig, engine: ConsensusEngine, on_progress: OnProgress
    ) -> tuple[TokenDiagnostics | None, LeakAudit]:
        config = self.study.config
        student, teacher = self.factory.student(), self.factory.teacher(hint)
        plain, hinted = (
            self.factory.jobs(arm, self.examples, config.probe.rollouts, self.attempts[hint.name])
            for arm in (student, teacher)
        )
        frame = self._rollouts(student.key)
        tasks = contrast_tasks(plain, hinted, frame)
        stage = f"diagnostics {hint.name}"
        on_progress(stage, 0, len(tasks))
        for done in collect_contrasts(tasks, engine, config.sampling.temperature, self.study.contrasts):
            on_progress(stage, done, len(tasks))
        on_progress(stage, len(tasks), len(tasks))
        stored = self.study.contrasts.read()
        scored = _scored(stored[stored["arm_key"] == teacher.key], frame)
        return summarise(scored), _leaks(hinted, frame, self._rollouts(teacher.key))

    def _rollouts(self, arm_key: str) -> pd.DataFrame:
        frame = self.study.rollouts.read({arm_key})
        return frame[frame["example_id"].isin({example.example_id for example in self.examples})]


def _scored(stored: pd.DataFrame, frame: pd.DataFrame) -> list[ScoredRollout]:
    """Stored contrasts with the present verdicts of their rollouts."""
    columns = (frame[name] for name in ("example_id", "index", "unit", "correct"))
    verdicts = {(name, int(index)): (unit, correct) for name, index, unit, correct in zip(*columns, strict=True)}
    found = []
    for row in stored.to_dict("records"):
        key = (row["example_id"], int(row["index"]))
        if key in verdicts:
            unit, correct = verdicts[key]
            floats = {name: np.asarray(row[name], dtype=np.float64) for name in _FLOATS}
            found.append(ScoredRollout(key[0], unit, judged(correct), np.asarray(row["token_kind"]), floats))
    return found


def _leaks(hinted: Sequence[Job], student: pd.DataFrame, teacher: pd.DataFrame) -> LeakAudit:
    """Teacher and student rollouts beside the hint that belongs to them."""
    shown = {place: job.shown for place, job in by_rollout(hinted).items() if job.shown}
    answers = {job.example.example_id: job for job in hinted if job.shown and job.example.answer is not None}
    held = [(Shown(name, job.example.unit, job.shown, ""), str(job.example.answer)) for name, job in answers.items()]
    return audit(_beside(teacher, shown), _beside(student, shown), held)


def _beside(frame: pd.DataFrame, shown: Mapping[tuple[str, int], str]) -> list[Shown]:
    columns = (frame[name] for name in ("example_id", "index", "unit", "text"))
    rows = zip(*columns, strict=True)
    return [Shown(n, unit, shown[n, int(i)], text) for n, i, unit, text in rows if (n, int(i)) in shown]
