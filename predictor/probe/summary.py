"""What a probe concludes, rebuilt from the stored rollouts by one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from predictor.config import StudyConfig
from predictor.engines.base import Engine
from predictor.probe.adaptive import Stages, Standing
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.estimates import Estimator, Measured
from predictor.probe.reweight import Reweighter
from predictor.records import (
    Estimands,
    Estimate,
    GapEstimate,
    HintConfig,
    Stopping,
    current_provenance,
    finite_or_none,
)
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
        "gating": gap.gating,
        "estimands": None if gap.estimands is None else _named(gap.estimands, level),
        "stopping": None if gap.stopping is None else _stopping(gap.stopping),
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
        "engine_difference": finite_or_none(found.engine_difference),
        "engine_difference_p99": finite_or_none(found.engine_difference_p99),
        "refused": found.refused or None,
    }


def _stopping(stopping: Stopping) -> dict[str, Any]:
    bounds = {"low": finite_or_none(stopping.low), "high": finite_or_none(stopping.high)}
    return stopping.model_dump(mode="json") | bounds


def _named(estimands: Estimands, level: float) -> dict[str, Any]:
    values = {name: getattr(estimands, name) for name in type(estimands).model_fields}
    return {name: None if value is None else value.as_json(level) for name, value in values.items()}


def estimate_study(study: Study, data: TaskData, engine: Engine | None, effort: Effort) -> ProbeResult:
    """Gap estimates of all hint configs and controls from what is stored; gaps.jsonl is written anew.

    `engine` is named in the provenance; None when nothing was generated.
    """
    config = study.config
    factory = ArmFactory(config, data.train, None)
    frame = study.rollouts.read(arm_keys(config, factory))
    provenance = current_provenance(
        config_key=config.key,
        engine="" if engine is None else engine.name,
        engine_version="" if engine is None else engine.version,
    )
    measured = Measured.from_frame(frame)
    standings = _standings(config, factory, data, measured)
    estimator = Estimator(
        config,
        factory,
        measured,
        consensus_engine=CONSENSUS_ENGINE,
        provenance=provenance,
        windows={name: standing.window for name, standing in standings.items()},
        control_windows={name: standing.control_window for name, standing in standings.items()},
    )
    reweighter = Reweighter(config, factory, measured, study.scores.read())
    gaps: list[GapEstimate] = []
    for hint in config.hints:
        stopping = standings[hint.name].stopping if hint.name in standings else None
        gaps.append(reweighter.added(estimator.hint(hint), hint).model_copy(update={"stopping": stopping}))
        controls = (estimator.control(hint, control) for control in hint.control_kinds)
        gaps += [gap for gap in controls if gap is not None]
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


def _standings(config: StudyConfig, factory: ArmFactory, data: TaskData, measured: Measured) -> dict[str, Standing]:
    """How far each hint config of an adaptive probe came; empty for a fixed design."""
    if not config.probe.adaptive:
        return {}
    stages = Stages(config, factory, data.eval)
    # Kind `none` goes along with the others, so it has what is stored of it and no rule of its own.
    return {hint.name: stages.standing(hint, measured) for hint in config.hints if hint.kind != "none"}


CONSENSUS_ENGINE = "transformers"
"""The engine that decodes consensus policies."""


def hint_arms(hints: Sequence[HintConfig], factory: ArmFactory, *, with_controls: bool = True) -> list[Arm]:
    """Teacher and control arms in the study's order; the bare resample is always among them."""
    arms = [factory.bare()]
    for hint in hints:
        arms.append(factory.teacher(hint))
        arms += [factory.control(hint, control) for control in hint.control_kinds if with_controls]
    return arms


def needs_ensemble(hint: HintConfig) -> bool:
    """Whether the consensus policy differs from the teacher, so that it must be decoded."""
    return hint.kind not in ("none", "static")


def arm_keys(config: StudyConfig, factory: ArmFactory) -> set[str]:
    """Keys of every arm that the study's estimates read."""
    mean = config.training.resolved.consensus_mean
    arms = [factory.student(), factory.consensus_student(CONSENSUS_ENGINE), *hint_arms(config.hints, factory)]
    arms += [factory.consensus(hint, mean) for hint in config.hints]
    return {arm.key for arm in arms}
