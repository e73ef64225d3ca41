"""Forecasts, how they are frozen before training, and how they are scored after it."""

from __future__ import annotations

from typing import Any

from predictor.records.base import Provenance, Record, content_hash
from predictor.records.estimate import Estimate, finite_or_none
from predictor.records.law import GapName, HeldOutErrors, LawGuard, VarianceShares
from predictor.records.predictive import Predictive
from predictor.records.runs import Fidelity


class ImprovementForecast(Record):
    """The forecast improvement of one new run, inside what its student accuracy allows."""

    value: float
    """Mean of the clipped distribution."""
    stderr: float
    """Its standard deviation: the uncertainty of ONE run's measured improvement."""
    df: float
    interval80: tuple[float, float]
    interval95: tuple[float, float]
    clipped_below: float
    """Mass that lay below minus the student's accuracy."""
    clipped_above: float
    """Mass that lay above one minus the student's accuracy."""

    @classmethod
    def of(cls, predictive: Predictive) -> ImprovementForecast:
        """The numbers that a distribution implies."""
        return cls(
            value=predictive.mean,
            stderr=predictive.stdev,
            df=predictive.df,
            interval80=predictive.interval(0.80),
            interval95=predictive.interval(0.95),
            clipped_below=predictive.clipped_below,
            clipped_above=predictive.clipped_above,
        )

    def as_json(self) -> dict[str, Any]:
        """Value, spread and intervals; unknown numbers become null."""
        return {
            "value": finite_or_none(self.value),
            "stderr": finite_or_none(self.stderr),
            "interval80": [finite_or_none(bound) for bound in self.interval80],
            "interval95": [finite_or_none(bound) for bound in self.interval95],
        }


class PilotEvidence(Record):
    """What a short run added to a forecast."""

    key: str
    """The pilot's run."""
    num_steps: int
    improvement: Estimate
    ratio: float
    """Full improvement expected for one unit of pilot improvement: 1 / rho."""
    ratio_stderr: float
    num_pairs: int
    """Own pairs of pilot and full run behind the ratio; 0 is the default guess alone."""
    weight: float
    """Share of the law's variance that the pilot took away; 1 where the law gave no interval."""


class Forecast(Record):
    """What the law says about one hint config before it is trained."""

    hint: str
    family: str
    model: str
    task: str
    gap: Estimate
    """The raw gap, whatever predictor the law uses."""
    student: Estimate
    predictor: GapName
    """The gap that was really used."""
    predictor_value: Estimate
    predictive: Predictive
    improvement: ImprovementForecast
    shares: VarianceShares
    fidelity: Fidelity = "full"
    threshold: float
    p_pays: float
    """P(improvement ≥ threshold)."""
    extrapolation: float
    """Distance outside the fitted gaps, in widths of their range; NaN without own runs."""
    num_own_runs: int
    """Runs of this family behind the line."""
    guards: tuple[LawGuard, ...] = ()
    pilot: PilotEvidence | None = None

    def as_json(self) -> dict[str, Any]:
        """One entry of `gapcast forecast --json` (design, section 12), without the freeze."""
        return {
            "hint": self.hint,
            "gap": self.gap.as_json(),
            "predictor": self.predictor,
            "predictor_value": self.predictor_value.as_json(),
            "improvement": self.improvement.as_json(),
            "p_pays": finite_or_none(self.p_pays),
            "extrapolation": finite_or_none(self.extrapolation),
            "shares": {name: finite_or_none(value) for name, value in self.shares.model_dump().items()},
            "guards": [{"name": guard.name, "message": guard.message} for guard in self.guards],
        }


class FrozenForecast(Record):
    """Forecasts with their time, commit and hashes, written before any of their runs starts."""

    forecasts: tuple[Forecast, ...]
    frozen_at: str
    """ISO 8601 in UTC with microseconds."""
    inputs: dict[str, str]
    """Content hash of everything the forecasts were made from, by name."""
    provenance: Provenance
    frozen_hash: str
    """Hash of all the other fields."""

    def expected_hash(self) -> str:
        """The hash that the content implies; differs from `frozen_hash` when the file was changed."""
        return content_hash(self.model_dump(mode="json", exclude={"frozen_hash"}))

    @property
    def is_intact(self) -> bool:
        """Whether nothing was changed since the freeze."""
        return self.expected_hash() == self.frozen_hash

    def as_json(self) -> list[dict[str, Any]]:
        """What `gapcast forecast --json` prints (design, section 12)."""
        frozen = {"frozen_at": self.frozen_at, "content_hash": self.frozen_hash}
        return [forecast.as_json() | frozen for forecast in self.forecasts]


class ScoredForecast(Record):
    """One frozen forecast beside the run that came of it."""

    key: str
    hint: str
    forecast: float
    outcome: float
    error: float
    """Outcome minus forecast."""
    interval80: tuple[float, float]
    inside80: bool
    crps: float
    frozen_at: str
    frozen_hash: str
    num_own_runs: int = 0
    """Runs that the law was fitted on when it made this forecast."""


class RefusedScore(Record):
    """A run that no frozen forecast may be scored against, and why."""

    key: str
    hint: str
    reason: str


class ForecastScore(Record):
    """How frozen forecasts did."""

    scored: tuple[ScoredForecast, ...]
    refused: tuple[RefusedScore, ...]
    errors: HeldOutErrors | None
    """None when nothing could be scored."""

    def as_json(self) -> dict[str, Any]:
        """Errors, then every scored and every refused run."""
        return {
            "errors": self.errors.as_json() if self.errors else None,
            "scored": [row.model_dump(mode="json") for row in self.scored],
            "refused": [row.model_dump(mode="json") for row in self.refused],
        }
