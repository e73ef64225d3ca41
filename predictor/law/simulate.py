"""Run records from a law that is known: the planted truth of tests, benchmarks and the coverage report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from predictor.records import (
    Estimate,
    GapEstimate,
    Provenance,
    RunRecord,
    RunSpec,
    derive_seed,
)

_PROVENANCE = Provenance(time_utc="2026-01-01T00:00:00.000000+00:00", engine="simulated")


@dataclass(frozen=True, slots=True)
class PlantedLaw:
    """improvement = intercept + slope·gap + config + seed, clipped at the ceiling; both sides measured with noise."""

    slope: float = 1.0
    intercept: float = 0.0
    student: float = 0.2
    config_sd: float = 0.02
    """Departure of a hint config from the line, shared by its seeds."""
    seed_sd: float = 0.01
    probe_stderr: float = 0.0
    """Standard error of every measured gap."""
    eval_stderr: float = 0.0
    """Standard error of every measured improvement."""
    num_units: int = 128
    saturating: bool = False
    """Whether the true improvement stops at 1 - student."""
    family: str = "planted"

    def records(
        self, gaps: Sequence[float], *, seeds: int = 1, seed: int = 0, remeasured: bool = False
    ) -> list[RunRecord]:
        """One record for each true gap and training seed; the gap is measured once for each hint config.

        With `remeasured` each hint config's baseline is measured anew: half of its probe variance is the student's,
        and the same error enters gap and improvement.
        """
        rng = np.random.default_rng(derive_seed("planted", self.family, seed))
        found: list[RunRecord] = []
        for index, gap in enumerate(gaps):
            true = self.intercept + self.slope * gap + self.config_sd * rng.standard_normal()
            error = self.probe_stderr * rng.standard_normal(2) / np.sqrt(2.0)
            measured = (
                gap + error[0] + (error[1] if remeasured else self.probe_stderr * rng.standard_normal() / np.sqrt(2.0))
            )
            for run in range(seeds):
                outcome = true + self.seed_sd * rng.standard_normal()
                outcome += self.eval_stderr * rng.standard_normal() + (error[1] if remeasured else 0.0)
                if self.saturating:
                    outcome = min(outcome, 1.0 - self.student)
                found.append(self.record(f"hint{index:05d}", float(measured), float(outcome), seed=run))
        return found

    def record(self, hint: str, gap: float, improvement: float, *, seed: int = 0) -> RunRecord:
        """A finished run with these measured numbers."""
        spec = RunSpec(
            model=f"{self.family}/model",
            family=self.family,
            task="planted-task",
            hint=hint,
            preset="miniature",
            num_steps=50,
            seed=seed,
            config_key=hint,
        )
        student = self._share(self.student)
        return RunRecord(
            spec=spec,
            state="finished",
            gap=self.gap(hint, gap),
            before=student,
            after=self._share(self.student + improvement),
            improvement=self._difference(improvement, self.eval_stderr),
            baseline_id=f"{self.family}-baseline",
            decoding="planted",
            started_at="2026-01-02T00:00:00.000000+00:00",
            provenance=_PROVENANCE,
        )

    def gap(self, hint: str, gap: float, *, consensus_gap: float | None = None) -> GapEstimate:
        """A measured gap of this law's model."""
        return GapEstimate(
            model=f"{self.family}/model",
            family=self.family,
            task="planted-task",
            hint=hint,
            kind="static",
            student=self._share(self.student),
            teacher=self._share(self.student + gap),
            gap=self._difference(gap, self.probe_stderr),
            consensus_gap=None if consensus_gap is None else self._difference(consensus_gap, self.probe_stderr),
            num_rollouts=8 * self.num_units,
            baseline_id=f"{self.family}-baseline",
            decoding="planted",
            provenance=_PROVENANCE,
        )

    def _share(self, value: float) -> Estimate:
        return Estimate(value=value, stderr=0.0, num_units=self.num_units, kind="share")

    def _difference(self, value: float, stderr: float) -> Estimate:
        return Estimate(value=value, stderr=stderr, num_units=self.num_units, kind="difference")
