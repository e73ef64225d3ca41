"""From stored rollouts to gap estimates; rebuilt from the raw truth by one call, generating nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from predictor.config import StudyConfig
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.measured import Measured, Window, frame_accuracies
from predictor.probe.shares import (
    conditional,
    macro_share,
    net_recovery,
    pooled_share,
    repeated_share,
    same_output,
)
from predictor.records import (
    ConsensusDetail,
    ControlKind,
    Estimands,
    Estimate,
    GapEstimate,
    HintConfig,
    Mean,
    Provenance,
)
from predictor.stats import Accuracies, difference, harm, pooled_difference, recovery

__all__ = ["Estimator", "Measured", "Window"]


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
        windows: Mapping[str, Window] | None = None,
        control_windows: Mapping[str, Window] | None = None,
    ) -> None:
        self._config = config
        self._factory = factory
        self._measured = measured
        self._consensus_engine = consensus_engine
        self._provenance = provenance
        self._windows = windows or {}
        self._control_windows = control_windows or {}
        self._student_arm = factory.student()
        self._student_rows = Window().of(measured.frame(self._student_arm))
        self._student = frame_accuracies(self._student_rows)

    def hint(self, hint: HintConfig) -> GapEstimate:
        """Everything the probe knows about one hint config, paired over held-out examples."""
        arm = self._factory.teacher(hint)
        rows = self._rows(arm, hint)
        teacher = frame_accuracies(rows)
        gap = difference(teacher, self._student)
        consensus = self._consensus(hint, teacher)
        named = {
            "net_gap": self._net_gap(hint, teacher),
            "transferable_gap": self._transferable_gap(hint, gap),
            "consensus_gap": None if consensus is None else consensus[0],
        }
        base = self._common(hint, arm, rows, named)
        return base.model_copy(update={**named, "consensus_detail": None if consensus is None else consensus[1]})

    def control(self, hint: HintConfig, control: ControlKind) -> GapEstimate | None:
        """Gap of one control arm; None where it was not measured (an earlier version had no such control)."""
        arm = self._factory.control(hint, control)
        if not arm.is_gated and not self._measured.has(arm):
            return None
        rows = self._rows(arm, hint)
        net = self._net_gap(hint, frame_accuracies(rows))
        base = self._common(hint, arm, rows, {"net_gap": net})
        name = f"{hint.name}/{control}"
        return base.model_copy(update={"hint": name, "is_control": True, "control_of": hint.name, "net_gap": net})

    def _rows(self, arm: Arm, hint: HintConfig) -> pd.DataFrame:
        """The held-out rollouts that an arm amounts to, bare resamples behind a gate included."""
        windows = self._control_windows if arm.role == "control" else self._windows
        window = windows.get(hint.name, Window())
        if arm.is_gated:
            return self._measured.gated(arm, self._factory.bare(), self._student_arm, window)
        return window.of(self._measured.frame(arm))

    def _common(
        self, hint: HintConfig, arm: Arm, rows: pd.DataFrame, named: Mapping[str, Estimate | None]
    ) -> GapEstimate:
        teacher = frame_accuracies(rows)
        estimands = self._estimands(arm, rows, named)
        return GapEstimate(
            model=self._config.model.path,
            family=self._config.model.law_family,
            task=self._config.task.key,
            hint=hint.name,
            kind=hint.kind,
            student=self._student.estimate(),
            teacher=teacher.estimate(),
            gap=difference(teacher, self._student),
            recovery=estimands.recovery_pooled or recovery(teacher, self._student),
            harm=estimands.harm_pooled or harm(teacher, self._student),
            copy_rate=estimands.copy_rate_macro,
            coverage=_value(estimands.coverage_pooled),
            truncated=_value(estimands.truncated_pooled),
            undecided=_value(estimands.undecided_pooled),
            estimands=estimands,
            gating=hint.gating,
            num_rollouts=len(rows),
            baseline_id=self._student_arm.key,
            decoding=self._config.sampling.content_hash()[:16],
            provenance=self._provenance,
        )

    def _estimands(self, arm: Arm, rows: pd.DataFrame, named: Mapping[str, Estimate | None]) -> Estimands:
        teacher = frame_accuracies(rows)
        paired: dict[str, Any] = {"by_rollout": arm.is_by_rollout}
        recovered = conditional(rows, self._student_rows, given=False, **paired)
        kept = conditional(rows, self._student_rows, given=True, **paired)
        bare = self._factory.bare()
        net = None
        if self._measured.has(bare):
            net = net_recovery(rows, Window().of(self._measured.frame(bare)), self._student_rows, **paired)
        return Estimands(
            gap_macro=difference(teacher, self._student),
            gap_pooled=pooled_difference(teacher, self._student),
            **{f"{name}_macro": estimate for name, estimate in named.items()},
            recovery_pooled=recovered["pooled"],
            recovery_macro=recovered["macro"],
            net_recovery_pooled=net,
            harm_pooled=_complement(kept["pooled"]),
            harm_macro=_complement(kept["macro"]),
            coverage_pooled=pooled_share(rows, rows["has_context"]),
            copy_rate_macro=macro_share(rows, rows["copied"]),
            same_output_pooled=same_output(rows, self._student_rows),
            truncated_pooled=pooled_share(rows, rows["finish_reason"] == "length"),
            undecided_pooled=pooled_share(rows, rows["correct"].isna()),
            repeated_pooled=repeated_share(rows) if self._config.sampling.temperature > 0.0 else None,
        )

    def _net_gap(self, hint: HintConfig, teacher: Accuracies) -> Estimate | None:
        arm = self._factory.control(hint, "none")
        if not self._measured.has(arm):
            return None
        return difference(teacher, frame_accuracies(Window().of(self._measured.frame(arm))))

    def _transferable_gap(self, hint: HintConfig, gap: Estimate) -> Estimate | None:
        if hint.kind in ("none", "static"):
            # Another example's hint is the same text, so the arm would measure the teacher again.
            return gap
        arm = self._factory.control(hint, "other_example")
        if "other_example" not in hint.control_kinds or (not arm.is_gated and not self._measured.has(arm)):
            return None
        return difference(frame_accuracies(self._rows(arm, hint)), self._student)

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
        arm = self._factory.consensus_student(self._consensus_engine)
        return self._measured.accuracies(arm) if self._measured.has(arm) else self._student


def _value(share: Estimate | None) -> float:
    return 0.0 if share is None else share.value


def _complement(share: Estimate | None) -> Estimate | None:
    """The share that is left; its standard error is the same."""
    return None if share is None else share.model_copy(update={"value": 1.0 - share.value})
