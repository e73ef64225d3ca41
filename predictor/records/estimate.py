"""An uncertain number with its standard error, and the interval it implies."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from predictor.records.base import Record
from predictor.records.student_t import normal_quantile, t_quantile

_ROUNDING = 1e-12
"""Standard errors up to this are what rounding leaves of identical units."""
_SAME = 1e-6
"""Relative difference of numbers that only rounding tells apart."""


class Estimate(Record):
    """Value, standard error and the number of independent units; an unknown standard error is NaN, never 0."""

    value: float
    stderr: float
    """Standard error over the independent units (examples or clusters)."""
    num_units: int
    kind: Literal["share", "difference", "mean"] = "mean"
    """`share` lies in [0, 1] and `difference` in [-1, 1]; both get honest intervals at their ends."""
    # Left out of JSON where it says nothing, so that records from before it existed keep their hashes.
    degrees: float | None = Field(default=None, ge=1.0, exclude_if=lambda degrees: degrees is None)
    """Degrees of freedom of the standard error, below `num_units` - 1 where few units carry it; None: all of them."""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided interval at `level`: Wilson for a share, t otherwise; NaN where the standard error is unknown.

        A share's Wilson interval uses the effective number of units that its standard error implies (clustered
        rollouts count for less), less what estimating it from few units costs (Korn and Graubard 1998). Identical
        units never give a share or a difference an interval of width 0, but the bound that 0 events among `num_units`
        leave open.
        """
        if math.isnan(self.value) or math.isnan(self.stderr) or self.num_units < 2:
            return (math.nan, math.nan)
        if self.kind == "share":
            return wilson_interval(self.value, _effective_units(self, level), level)
        half = float(t_quantile(_degrees(self), 0.5 + level / 2)) * self.stderr
        if self.kind == "difference":
            if self.stderr <= _ROUNDING:
                half = wilson_interval(0.0, self.num_units, level)[1]
            return (max(-1.0, self.value - half), min(1.0, self.value + half))
        return (self.value - half, self.value + half)

    def as_json(self, level: float = 0.95) -> dict[str, Any]:
        """The shape that `--json` prints for an estimate (design, section 12); unknown numbers become null."""
        low, high = self.interval(level)
        return {
            "value": finite_or_none(self.value),
            "stderr": finite_or_none(self.stderr),
            "num_units": self.num_units,
            "interval": [finite_or_none(low), finite_or_none(high)],
            "level": level,
        }


def finite_or_none(value: float) -> float | None:
    """The number itself, or None where JSON would have to say NaN."""
    return value if math.isfinite(value) else None


def _degrees(estimate: Estimate) -> float:
    return estimate.num_units - 1.0 if estimate.degrees is None else estimate.degrees


def _effective_units(estimate: Estimate, level: float) -> float:
    """Units of a simple random sample with the same standard error; all of them at 0 % and 100 %.

    Units that are one trial each need no estimated standard error; any other number is multiplied by (z / t)².
    """
    spread = estimate.value * (1.0 - estimate.value)
    if spread <= 0.0 or estimate.stderr <= _ROUNDING:
        return float(estimate.num_units)
    units, most = spread / estimate.stderr**2, estimate.num_units
    # Between the two lies the binomial standard error, with either of its denominators.
    if (most - 1) * (1 - _SAME) <= units <= most * (1 + _SAME):
        return units
    tail = 0.5 + level / 2
    return max(1.0, units * (normal_quantile(tail) / float(t_quantile(_degrees(estimate), tail))) ** 2)


def wilson_interval(share: float, units: float, level: float) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of `units` independent trials."""
    z = normal_quantile(0.5 + level / 2)
    centre = (share + z * z / (2 * units)) / (1 + z * z / units)
    half = z / (1 + z * z / units) * math.sqrt(share * (1 - share) / units + z * z / (4 * units * units))
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return (low, high)
