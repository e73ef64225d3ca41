"""Stored rollouts by arm, as estimates need them: behind a gate the bare resample stands where there was no job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from predictor.errors import DataError
from predictor.probe.arms import Arm
from predictor.stats import Accuracies, accuracies
from predictor.store import judged

PLACE = ["example_id", "index"]
"""What pairs a teacher's rollout with the student's rollout that it answers to."""


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
        return frame_accuracies(rows[rows["split"] == split])

    def truncated(self, arm: Arm, split: str = "eval") -> float:
        """Share of the arm's rollouts with finish reason `length`."""
        rows = self.frame(arm)
        return float((rows[rows["split"] == split]["finish_reason"] == "length").mean())

    def gated(self, arm: Arm, bare: Arm, student: Arm, window: Window) -> pd.DataFrame:
        """What an arm amounts to under `failed` gating: its rollouts where the student failed, else bare resamples.

        DataError when a failed rollout was not answered, as after regrading with another checker.
        """
        base, resampled = self.frame(student), window.of(self.frame(bare))
        failed = pd.MultiIndex.from_frame(base[judged_wrong(base["correct"])][PLACE])
        rows = window.of(self.frames.get(arm.key, resampled.iloc[:0]))
        is_failed = pd.MultiIndex.from_frame(resampled[PLACE]).isin(failed)
        kept = rows[pd.MultiIndex.from_frame(rows[PLACE]).isin(failed)]
        if len(kept) < int(is_failed.sum()):
            raise DataError(
                f"arm `{arm.name}` lacks answers to {int(is_failed.sum()) - len(kept)} failed rollouts",
                where="rollouts/",
                fix="run `gapcast probe`: by the present verdicts other rollouts failed than when it ran",
            )
        return pd.concat([kept, resampled[~is_failed]], ignore_index=True)


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a probe that a hint config took part in; everything for a fixed design."""

    examples: frozenset[str] | None = None
    """None means all held-out examples."""
    rollouts: int | None = None
    """None means all rollouts of an example."""

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The held-out rollouts of a frame that lie in the window."""
        inside = frame["split"] == "eval"
        if self.examples is not None:
            inside &= frame["example_id"].isin(self.examples)
        if self.rollouts is not None:
            inside &= frame["index"] < self.rollouts
        return frame[inside]


def frame_accuracies(frame: pd.DataFrame) -> Accuracies:
    """Accuracy of each example of a frame of rollouts."""
    return accuracies(zip(frame["example_id"], map(judged, frame["correct"]), strict=True), units_of(frame))


def judged_wrong(correct: pd.Series) -> pd.Series:
    """Where a verdict is `wrong`; an undecided one is not."""
    return correct.notna() & (correct != 1)


def units_of(frame: pd.DataFrame) -> dict[str, str]:
    """The independent unit of each example of a frame."""
    return dict(zip(frame["example_id"], frame["unit"], strict=True))
