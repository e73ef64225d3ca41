"""From stored rollouts to gap estimates; rebuilt from the raw truth by one call, generating nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from predictor.config import StudyConfig
from predictor.errors import DataError
from predictor.probe.arms import Arm, ArmFactory
from predictor.records import (
    ConsensusDetail,
    ControlKind,
    Estimate,
    GapEstimate,
    HintConfig,
    Mean,
    Provenance,
)
from predictor.stats import Accuracies, accuracies, difference, harm, recovery


@dataclass(frozen=True)
class Measured:
    """All rollouts of a probe, by arm."""

    frames: Mapping[str, pd.DataFrame]

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Measured:
        """Group stored rollouts by the key of their arm."""
        return cls({str(key): group for key, group in frame.groupby("arm_key", sort=False)})

    def has(self, arm: Arm) -> bool:
        """Whether any rollout of the arm is stored."""
        return arm.key in self.frames

    def frame(self, arm: Arm) -> pd.DataFrame:
        """The arm's rollouts; DataError when it was not measured."""
        if arm.key not in self.frames:
            raise DataError(
                f"arm `{arm.name}` has not been measured", where="rollouts/", fix="run `gapcast probe` first"
            )
        return self.frames[arm.key]

    def accuracies(self, arm: Arm, split: str = "eval") -> Accuracies:
        """Accuracy of each example of one split."""
        rows = self.frame(arm)
        rows = rows[rows["split"] == split]
        outcomes = [
            (e, None if pd.isna(c) else bool(c)) for e, c in zip(rows["example_id"], rows["correct"], strict=True)
        ]
        return accuracies(outcomes, dict(zip(rows["example_id"], rows["unit"], strict=True)))

    def share(self, arm: Arm, column: str) -> float:
        """Share of the arm's held-out rollouts for which a yes/no column holds."""
        rows = self.frame(arm)
        rows = rows[rows["split"] == "eval"]
        return float(rows[column].mean())

    def truncated(self, arm: Arm, split: str = "eval") -> float:
        """Share of the arm's rollouts with finish reason `length`."""
        rows = self.frame(arm)
        return float((rows[rows["split"] == split]["finish_reason"] == "length").mean())


class Estimator:
    """Turns measured arms into the gap estimates of hint configs and their controls."""

    def __init__(
        self,
        config: StudyConfig,
        factory: ArmFactory,
        measured: Measured,
        *,
        consensus_engine: str,
        provenance: Provenance,
    ) -> None:
        self._config = config
        self._factory = factory
        self._measured = measured
        self._consensus_engine = consensus_engine
        self._provenance = provenance
        self._student_arm = factory.student()
        self._student = measured.accuracies(self._student_arm)

    def hint(self, hint: HintConfig) -> GapEstimate:
        """Everything the probe knows about one hint config, paired over held-out examples."""
        arm = self._factory.teacher(hint)
        teacher = self._measured.accuracies(arm)
        gap = difference(teacher, self._student)
        consensus = self._consensus(hint, teacher)
        base = self._common(hint, arm, teacher)
        return base.model_copy(
            update={
                "net_gap": self._net_gap(hint, teacher),
                "transferable_gap": self._transferable_gap(hint, gap),
                "consensus_gap": None if consensus is None else consensus[0],
                "consensus_detail": None if consensus is None else consensus[1],
            }
        )

    def control(self, hint: HintConfig, control: ControlKind) -> GapEstimate:
        """Gap of one control arm."""
        arm = self._factory.control(hint, control)
        base = self._common(hint, arm, self._measured.accuracies(arm))
        name = f"{hint.name}/{control}"
        return base.model_copy(update={"hint": name, "is_control": True, "control_of": hint.name})

    def _common(self, hint: HintConfig, arm: Arm, teacher: Accuracies) -> GapEstimate:
        frame = self._measured.frame(arm)
        copied = teacher_copy_rate(frame)
        return GapEstimate(
            model=self._config.model.path,
            family=self._config.model.law_family,
            task=self._config.task.key,
            hint=hint.name,
            kind=hint.kind,
            student=self._student.estimate(),
            teacher=teacher.estimate(),
            gap=difference(teacher, self._student),
            recovery=recovery(teacher, self._student),
            harm=harm(teacher, self._student),
            copy_rate=copied,
            coverage=self._measured.share(arm, "has_context"),
            truncated=self._measured.truncated(arm),
            undecided=teacher.undecided,
            num_rollouts=len(frame),
            baseline_id=self._student_arm.key,
            decoding=self._config.sampling.content_hash()[:16],
            provenance=self._provenance,
        )

    def _net_gap(self, hint: HintConfig, teacher: Accuracies) -> Estimate | None:
        arm = self._factory.control(hint, "none")
        return difference(teacher, self._measured.accuracies(arm)) if self._measured.has(arm) else None

    def _transferable_gap(self, hint: HintConfig, gap: Estimate) -> Estimate | None:
        if hint.kind in ("none", "static"):
            # Another example's hint is the same text, so the arm would measure the teacher again.
            return gap
        arm = self._factory.control(hint, "other_example")
        if not self._measured.has(arm):
            return None
        return difference(self._measured.accuracies(arm), self._student)

    def _consensus(self, hint: HintConfig, teacher: Accuracies) -> tuple[Estimate, ConsensusDetail] | None:
        mean: Mean = self._config.training.resolved.consensus_mean
        num_hints = self._config.probe.consensus_hints
        if hint.kind in ("none", "static"):
            detail = ConsensusDetail(
                mean=mean,
                num_hints=1,
                estimator="identical",
                student=self._student.estimate(),
                consensus=teacher.estimate(),
            )
            return difference(teacher, self._student), detail
        consensus_arm = self._factory.consensus(hint, mean)
        if not self._measured.has(consensus_arm):
            return None
        student = self._consensus_student()
        policy = self._measured.accuracies(consensus_arm)
        detail = ConsensusDetail(
            mean=mean,
            num_hints=num_hints,
            estimator="ensemble",
            student=student.estimate(),
            consensus=policy.estimate(),
        )
        return difference(policy, student), detail

    def _consensus_student(self) -> Accuracies:
        """The student by the engine that decoded the consensus: engines are never mixed within one contrast."""
        arm = self._factory.consensus_student(self._consensus_engine)
        return self._measured.accuracies(arm) if self._measured.has(arm) else self._student


def teacher_copy_rate(frame: pd.DataFrame) -> Estimate:
    """Share of rollouts whose whole text stands verbatim in the hint, macro-averaged over examples."""
    rows = frame[frame["split"] == "eval"]
    outcomes = [(e, bool(c)) for e, c in zip(rows["example_id"], rows["copied"], strict=True)]
    return accuracies(outcomes, dict(zip(rows["example_id"], rows["unit"], strict=True))).estimate()
