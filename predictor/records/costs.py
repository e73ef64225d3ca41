"""What runs cost, measured, and the budget that everything is charged to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from predictor.records.base import Record
from predictor.records.distributions import t_quantile
from predictor.records.runs import Cost, LedgerEntry

PRIOR_SPREAD = 0.15
"""Spread of log cost between runs before enough runs are seen: shared machines vary by about a seventh."""
PRIOR_SPREAD_DF = 4
"""Runs that the prior spread counts for."""


class Budget(Record):
    """A hard cap in device-seconds, and all that was charged to it: probe, calibration, pilots, training, recording."""

    device_seconds: float = Field(ge=0.0, allow_inf_nan=False)
    charges: tuple[LedgerEntry, ...] = ()

    @property
    def charged(self) -> float:
        """Device-seconds spent."""
        return math.fsum(charge.seconds for charge in self.charges)

    @property
    def remaining(self) -> float:
        """Device-seconds left; 0 when the cap is reached, never negative."""
        return max(0.0, self.device_seconds - self.charged)

    def charged_to(self, key: str) -> float:
        """Device-seconds charged for one run or pilot so far, training and recording."""
        return math.fsum(charge.seconds for charge in self.charges if charge.key == key)

    def with_charges(self, charges: Sequence[LedgerEntry]) -> Budget:
        """The budget after more lines of the ledger."""
        return self.model_copy(update={"charges": (*self.charges, *charges)})


class CostObservation(Record):
    """What one finished run or pilot really took, start-up included."""

    hint: str
    num_steps: int = Field(ge=1)
    train_seconds: float = Field(gt=0.0, allow_inf_nan=False)
    num_eval_rollouts: int = Field(0, ge=0)
    eval_seconds: float = Field(0.0, ge=0.0, allow_inf_nan=False)
    """0 when the evaluation was not timed."""


class CostModel(Record):
    """Seconds of a run as calibrated, corrected by what finished runs took; every number is a measurement."""

    startup_seconds: float = Field(ge=0.0, allow_inf_nan=False)
    """From the start of the training process to its first step."""
    seconds_per_step: float = Field(gt=0.0, allow_inf_nan=False)
    """Of the calibration (`gapcast-train check --calibrate`)."""
    eval_startup_seconds: float = Field(ge=0.0, allow_inf_nan=False)
    """Loading a checkpoint into the engine."""
    seconds_per_eval_rollout: float = Field(gt=0.0, allow_inf_nan=False)
    """Of the probe: seconds over rollouts."""
    num_devices: int = Field(1, ge=1)
    level: float = Field(0.9, ge=0.5, lt=1.0)
    """Probability that a run costs at most what is planned for it: the safety margin."""
    observations: tuple[CostObservation, ...] = ()

    def updated(self, observations: Sequence[CostObservation]) -> CostModel:
        """The model after more finished runs; the calibration stays as their unit of comparison only."""
        return self.model_copy(update={"observations": (*self.observations, *observations)})

    def cost_of(self, hint: str, num_steps: int, num_eval_rollouts: int, *, level: float | None = None) -> Cost:
        """Seconds that a run stays under with probability `level` (0.5 is the median), training and evaluation.

        A run is the calibrated time times a factor. The factor is the geometric mean of measured over calibrated
        times of the closest runs there are (same hint config and steps, else same steps, else all; 1 without any),
        times the t quantile of a new run's spread in log time.
        """
        quantile = self.level if level is None else level
        closest = self._closest(hint, num_steps)
        train = _upper([self._train_ratio(o) for o in closest], self._train_ratios, quantile)
        # A run whose evaluation was not timed still prices training.
        timed = [self._eval_ratio(o) for o in closest if o.eval_seconds > 0.0]
        evaluate = _upper(timed or self._eval_ratios, self._eval_ratios, quantile)
        return Cost(
            train_seconds=self._calibrated_train(num_steps) * train,
            eval_seconds=self._calibrated_eval(num_eval_rollouts) * evaluate,
            num_devices=self.num_devices,
        )

    def _closest(self, hint: str, num_steps: int) -> list[CostObservation]:
        # Hint configs differ in prompt length, and in a short run the start-up weighs more than the steps.
        same_steps = [o for o in self.observations if o.num_steps == num_steps]
        same_hint = [o for o in same_steps if o.hint == hint]
        return same_hint or same_steps or list(self.observations)

    def _calibrated_train(self, num_steps: int) -> float:
        return self.startup_seconds + num_steps * self.seconds_per_step

    def _calibrated_eval(self, num_rollouts: int) -> float:
        return self.eval_startup_seconds + num_rollouts * self.seconds_per_eval_rollout if num_rollouts else 0.0

    def _train_ratio(self, run: CostObservation) -> float:
        return math.log(run.train_seconds / self._calibrated_train(run.num_steps))

    def _eval_ratio(self, run: CostObservation) -> float:
        return math.log(run.eval_seconds / self._calibrated_eval(max(1, run.num_eval_rollouts)))

    @property
    def _train_ratios(self) -> list[float]:
        return [self._train_ratio(run) for run in self.observations]

    @property
    def _eval_ratios(self) -> list[float]:
        return [self._eval_ratio(run) for run in self.observations if run.eval_seconds > 0.0]


def _upper(closest: list[float], every: list[float], level: float) -> float:
    """Quantile of a new run's measured-over-calibrated time, from log ratios; the spread is shrunk to its prior."""
    # Until a run has finished, the calibration counts as one that took exactly its own time.
    if not closest:
        closest = every = [0.0]
    centre = math.fsum(closest) / len(closest)
    overall = math.fsum(every) / len(every)
    # Pooled over all runs: one hint config alone rarely has enough of them to show a spread.
    squares = math.fsum((ratio - overall) ** 2 for ratio in every)
    df = PRIOR_SPREAD_DF + len(every) - 1
    spread = math.sqrt((PRIOR_SPREAD_DF * PRIOR_SPREAD**2 + squares) / df)
    return math.exp(centre + float(t_quantile(df, level)) * spread * math.sqrt(1.0 + 1.0 / len(closest)))
