"""A plan: what to launch, in which order, at what cost, and why not the rest."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from predictor.records.base import Record
from predictor.records.costs import Budget
from predictor.records.distributions import t_cdf, t_quantile
from predictor.records.estimate import Estimate, finite_or_none
from predictor.records.runs import Cost, RunSpec

Objective = Literal["best", "threshold", "sum"]
RejectionCode = Literal[
    "control",
    "already_ran",
    "running",
    "failed_before",
    "consensus_unmeasured",
    "consensus_gap",
    "no_stderr",
    "below_threshold",
    "over_budget",
    "dominated",
    "max_runs",
]
PlanVerdict = Literal["chosen"] | RejectionCode


class Candidate(Record):
    """One hint config as the planner sees it: a t forecast of what one full run of it truly improves."""

    spec: RunSpec
    """The full run; its seed is replaced by each seed in turn."""
    gap: Estimate
    consensus_gap: Estimate | None = None
    """None when it was not measured."""
    consensus_refused: str = ""
    """Why the stored rollouts gave no consensus gap; empty where there is one or they were not asked."""
    student: float = Field(ge=0.0, le=1.0)
    """Accuracy before training: an improvement lies between -student and 1 - student."""
    mean: float
    """Centre of the forecast."""
    stderr: float
    """Scale of the forecast's t distribution for a new run, without final evaluation noise; NaN when unknown."""
    df: float = Field(gt=0.0)
    """Degrees of freedom; infinity is a normal distribution."""
    seed_sd: float = math.nan
    """Part of `stderr` that another seed draws anew; NaN when unknown, and then more seeds promise nothing."""
    shared: tuple[float, ...] = ()
    """Loadings on independent errors of the law that all candidates share, in the same order."""
    is_control: bool = False
    notes: tuple[str, ...] = ()
    """Doubts about the forecast (its guards); repeated beside the reason for launching it."""

    @model_validator(mode="after")
    def _parts_fit_into_the_whole(self) -> Self:
        if self.stderr < 0.0 or self.seed_sd < 0.0:
            raise ValueError("a standard error is not negative")
        # The parts come out of a division of the whole, so the last digits may disagree.
        if self._parts > self.stderr**2 * (1.0 + 1e-9):
            raise ValueError("`shared` and `seed_sd` together are larger than `stderr`")
        return self

    @property
    def hint(self) -> str:
        """Name of the hint config."""
        return self.spec.hint

    @property
    def own_sd(self) -> float:
        """Scale of the error that this hint config has for itself, whatever the seed."""
        return math.sqrt(max(0.0, self.stderr**2 - self._parts))

    @property
    def _parts(self) -> float:
        # An unknown seed spread stays inside the hint config's own error.
        seed = 0.0 if math.isnan(self.seed_sd) else self.seed_sd
        return seed**2 + math.fsum(loading**2 for loading in self.shared)

    def probability_above(self, threshold: float) -> float:
        """P(true improvement of one run ≥ threshold); NaN when the forecast has no standard error."""
        if self.stderr == 0.0:
            return float(self.mean >= threshold)
        return float(t_cdf(self.df, (self.mean - threshold) / self.stderr))

    def interval(self, level: float) -> tuple[float, float]:
        """Central t interval at `level`, cut to what is possible."""
        half = float(t_quantile(self.df, 0.5 + level / 2)) * self.stderr
        low, high = -self.student, 1.0 - self.student
        return (min(max(self.mean - half, low), high), min(max(self.mean + half, low), high))

    def moved(self, mean: float, stderr: float) -> Candidate:
        """The candidate with another centre and scale; the parts of its error keep their proportions."""
        # What is learned of one hint config says nothing about which part of its error was wrong.
        factor = stderr / self.stderr if self.stderr > 0.0 else 0.0
        parts = {"seed_sd": self.seed_sd * factor, "shared": tuple(part * factor for part in self.shared)}
        return self.model_copy(update={"mean": mean, "stderr": stderr, **parts})


class PilotForecast(Record):
    """What a pilot is expected to measure, said before it runs."""

    hint: str
    num_steps: int
    mean: float
    stderr: float
    interval80: tuple[float, float]
    interval95: tuple[float, float]


class PlannedRun(Record):
    """One run to launch, in the order of `Plan.chosen`."""

    spec: RunSpec
    cost: Cost
    """With its safety margin: what the launcher may let it spend."""
    gain: float
    """Rise of the objective that it is expected to bring, given the runs before it."""
    reason: str
    forecast: PilotForecast | None = None
    """Of a pilot."""

    @property
    def hint(self) -> str:
        """Name of the hint config."""
        return self.spec.hint

    def as_json(self) -> dict[str, Any]:
        """One entry of `chosen` (design, section 12)."""
        return {
            "hint": self.hint,
            "seed": self.spec.seed,
            "key": self.spec.key,
            "cost_gpu_hours": self.cost.gpu_hours,
            "reason": self.reason,
        }


class Rejection(Record):
    """Why a candidate is not launched, in a plain sentence with its numbers."""

    hint: str
    code: RejectionCode
    reason: str


class PlanRow(Record):
    """One candidate in the plan's table and figure."""

    hint: str
    verdict: PlanVerdict
    gap: float
    consensus_gap: float
    """NaN when it was not measured."""
    mean: float
    interval80: tuple[float, float]
    p_pays: float
    cost_gpu_hours: float
    """Of one seed, with its safety margin."""
    outcome: Estimate | None = None
    """Mean measured improvement of its finished runs, with the error of measuring it; None without any."""


class Plan(Record):
    """Chosen runs in launch order and a reason for every candidate left out."""

    status: Literal["ok", "infeasible"]
    reason: str
    """One sentence for the whole plan."""
    objective: Objective
    expected: float
    """The objective's expected value with finished, running and chosen runs: the best improvement (`best`), the
    number of hint configs that pay (`threshold`), or the summed positive improvement (`sum`)."""
    budget: Budget
    num_devices: int
    chosen: tuple[PlannedRun, ...]
    rejected: tuple[Rejection, ...]
    rows: tuple[PlanRow, ...]

    @property
    def planned(self) -> float:
        """Device-seconds of the chosen runs, safety margins included."""
        return math.fsum(run.cost.gpu_hours for run in self.chosen) * 3600.0

    def as_json(self) -> dict[str, Any]:
        """The shape that `gapcast plan --json` prints (design, section 12)."""
        return {
            "status": self.status,
            "reason": self.reason,
            "objective": self.objective,
            "expected": finite_or_none(self.expected),
            "budget": {
                "gpu_hours": finite_or_none(self.budget.device_seconds / 3600.0),
                "charged": self.budget.charged / 3600.0,
                "planned": self.planned / 3600.0,
            },
            "chosen": [run.as_json() for run in self.chosen],
            "rejected": [{"hint": item.hint, "reason": item.reason} for item in self.rejected],
        }
