"""What a probe concludes, rebuilt from the stored rollouts by one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from predictor.config import StudyConfig
from predictor.engines.base import Engine
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.estimates import Estimator, Measured
from predictor.probe.reweight import Reweighter
from predictor.records import Estimate, GapEstimate, HintConfig, current_provenance, finite_or_none
from predictor.store import Study
from predictor.tasks import TaskData


@dataclass(frozen=True, slots=True)
class Effort:
    """What one call of the probe took."""

    generated_rollouts: int = 0
    """Rollouts that had to be generated; 0 when everything was stored already."""
    seconds: float = 0.0


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
    effort: Effort

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
            "seconds": round(self.effort.seconds, 3),
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
        "reweighted": _reweighted(gap, level),
        "num_rollouts": gap.num_rollouts,
    }


def _reweighted(gap: GapEstimate, level: float) -> dict[str, Any] | None:
    """The consensus gap from stored rollouts as `--json` prints it; None where it was not asked for."""
    found = None if gap.consensus_detail is None else gap.consensus_detail.reweighted
    if found is None:
        return None
    return {
        "consensus_gap": None if found.gap is None else found.gap.as_json(level),
        "effective_rollouts": found.effective_rollouts,
        "covered": found.covered.as_json(level),
        "stderr_hints": finite_or_none(found.stderr_hints),
        "refused": found.refused or None,
    }


def estimate_study(study: Study, data: TaskData, engine: Engine | None, effort: Effort) -> ProbeResult:
    """Gap estimates of all hint configs and controls from what is stored; gaps.jsonl is written anew.

    `engine` is named in the provenance; None when nothing was generated.
    """
    config = study.config
    factory = ArmFactory(config, data.train, None)
    frame = study.rollouts.read(_arm_keys(config, factory))
    provenance = current_provenance(
        config_key=config.key,
        engine="" if engine is None else engine.name,
        engine_version="" if engine is None else engine.version,
    )
    measured = Measured.from_frame(frame)
    estimator = Estimator(config, factory, measured, consensus_engine=CONSENSUS_ENGINE, provenance=provenance)
    reweighter = Reweighter(config, factory, measured, study.scores.read())
    gaps: list[GapEstimate] = []
    for hint in config.hints:
        gaps.append(reweighter.added(estimator.hint(hint), hint))
        gaps += [estimator.control(hint, control) for control in hint.control_kinds]
    study.replace("gaps", gaps)
    return ProbeResult(
        model=config.model.path,
        task=config.task.key,
        student=gaps[0].student,
        baseline_id=gaps[0].baseline_id,
        hints=tuple(gaps),
        num_rollouts=len(frame),
        num_tokens=int(frame["completion_ids"].map(len).sum()),
        effort=effort,
    )


CONSENSUS_ENGINE = "transformers"
"""The engine that decodes consensus policies."""


def hint_arms(config: StudyConfig, factory: ArmFactory) -> list[Arm]:
    """Teacher and control arms in the study's order; the bare resample is always among them."""
    arms = [factory.control(config.hints[0], "none")]
    for hint in config.hints:
        arms.append(factory.teacher(hint))
        arms += [factory.control(hint, control) for control in hint.control_kinds]
    return arms


def needs_ensemble(hint: HintConfig) -> bool:
    """Whether the consensus policy differs from the teacher, so that it must be decoded."""
    return hint.kind not in ("none", "static")


def _arm_keys(config: StudyConfig, factory: ArmFactory) -> set[str]:
    mean = config.training.resolved.consensus_mean
    arms = [factory.student(), factory.consensus_student(CONSENSUS_ENGINE), *hint_arms(config, factory)]
    arms += [factory.consensus(hint, mean) for hint in config.hints]
    return {arm.key for arm in arms}
