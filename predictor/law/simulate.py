"""Run records from a law that is known: the planted truth of tests, benchmarks and the coverage report."""

from __future__ import annotations

import math
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
    """Whether the improvement stays within what is possible: -student to 1 - student."""
    family: str = "planted"

    def records(
        self, gaps: Sequence[float], *, seeds: int = 1, seed: int = 0, remeasured: bool = False
    ) -> list[RunRecord]:
        """One record for each true gap and training seed; the gap is measured once for each hint config.

        Gap = T - S and improvement = P - S; the student's error S is drawn once, or `remeasured` for each hint config.
        """
        rng = np.random.default_rng(derive_seed("planted", self.family, seed))
        student, teacher, trained = self.arm_stderrs
        shared = student * rng.standard_normal()
        found: list[RunRecord] = []
        for index, gap in enumerate(gaps):
            true = self.intercept + self.slope * gap + self.config_sd * rng.standard_normal()
            error = student * rng.standard_normal() if remeasured else shared
            measured = gap + teacher * rng.standard_normal() - error
            for run in range(seeds):
                outcome = true + self.seed_sd * rng.standard_normal() + trained * rng.standard_normal() - error
                if self.saturating:
                    outcome = max(min(outcome, 1.0 - self.student), -self.student)
                found.append(self.record(f"hint{index:05d}", float(measured), float(outcome), seed=run))
        return found

    @property
    def arm_stderrs(self) -> tuple[float, float, float]:
        """Standard errors of student, self-teacher and trained student that give those of gap and improvement."""
        student = min(self.probe_stderr / math.sqrt(2.0), self.eval_stderr)
        teacher = math.sqrt(self.probe_stderr**2 - student**2)
        return student, teacher, math.sqrt(self.eval_stderr**2 - student**2)

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
        student = self._share(self.student, self.arm_stderrs[0])
        return RunRecord(
            spec=spec,
            state="finished",
            gap=self.gap(hint, gap),
            before=student,
            after=self._share(self.student + improvement, self.arm_stderrs[2]),
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
            student=self._share(self.student, self.arm_stderrs[0]),
            teacher=self._share(self.student + gap, self.arm_stderrs[1]),
            gap=self._difference(gap, self.probe_stderr),
            consensus_gap=None if consensus_gap is None else self._difference(consensus_gap, self.probe_stderr),
            num_rollouts=8 * self.num_units,
            baseline_id=f"{self.family}-baseline",
            decoding="planted",
            provenance=_PROVENANCE,
        )

    def _share(self, value: float, stderr: float) -> Estimate:
        return Estimate(value=value, stderr=stderr, num_units=self.num_units, kind="share")

    def _difference(self, value: float, stderr: float) -> Estimate:
        return Estimate(value=value, stderr=stderr, num_units=self.num_units, kind="difference")
