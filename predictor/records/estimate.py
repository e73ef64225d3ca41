"""An uncertain number with its standard error, and the interval it implies."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from predictor.records.base import Record
from predictor.records.student_t import beta_quantile, normal_quantile, t_quantile

_ROUNDING = 1e-12
"""Standard errors up to this are what rounding leaves of identical units."""
_SAME = 1e-6
"""Relative difference of numbers that only rounding tells apart."""
_MOST_UNITS = 10.0
_BOUND_DEGREES = 0.5
"""Both chosen on planted studies (reports/probe_coverage.md); more than ten effective units a unit are not believed."""


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
    sides: tuple[Estimate, Estimate] | None = Field(default=None, exclude_if=lambda sides: sides is None)
    """Of a difference: the two shares, first minus second, over the same units; None where they are not known."""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided interval at `level`; NaN where the standard error is unknown.

        A share: Wilson with the effective number of units that its standard error implies (clustered rollouts count
        for less), less what estimating it from few units costs (Korn and Graubard 1998). A difference whose sides are
        known: the square-and-add combination of their Jeffreys intervals (MOVER-J, Laud 2017, with the correlation of
        Newcombe 1998), which is skewed where shares near 0 or 1 are. Anything else: t.
        Identical units never give a share or a difference an interval of width 0, but the bound that 0 events among
        `num_units` leave open.
        """
        if math.isnan(self.value) or math.isnan(self.stderr) or self.num_units < 2:
            return (math.nan, math.nan)
        if self.kind == "share":
            return wilson_interval(self.value, _effective_units(self, level), level)
        below = above = float(t_quantile(_degrees(self), 0.5 + level / 2)) * self.stderr
        if self.kind == "mean":
            return (self.value - below, self.value + above)
        if self.stderr <= _ROUNDING:
            below = above = wilson_interval(0.0, self.num_units, level)[1]
        elif self.sides is not None:
            below, above = _square_and_add(*self.sides, self.stderr**2, level)
        return (max(-1.0, self.value - below), min(1.0, self.value + above))

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


def _effective_units(share: Estimate, level: float) -> float:
    """Units of a simple random sample with the same standard error; all of them at 0 % and 100 %.

    Units that are one trial each need no estimated standard error; any other number is multiplied by (z / t)². A
    standard error that implies many times more units than there are is moderated by that bound, which counts as half
    a degree of freedom (Smyth 2004): few units that agree by chance would promise too much.
    """
    spread = share.value * (1.0 - share.value)
    if spread <= 0.0 or share.stderr <= _ROUNDING:
        return float(share.num_units)
    units, most = spread / share.stderr**2, share.num_units
    # Between the two lies the binomial standard error, with either of its denominators.
    if (most - 1) * (1 - _SAME) <= units <= most * (1 + _SAME):
        return units
    tail, degrees = 0.5 + level / 2, _degrees(share)
    variance = spread / units
    bound = spread / (_MOST_UNITS * most)
    variance = max(variance, (degrees * variance + _BOUND_DEGREES * bound) / (degrees + _BOUND_DEGREES))
    return max(1.0, spread / variance * (normal_quantile(tail) / float(t_quantile(degrees, tail))) ** 2)


def _square_and_add(first: Estimate, second: Estimate, variance: float, level: float) -> tuple[float, float]:
    """How far the interval of first - second reaches down and up; `variance` is that of the difference."""
    product = first.stderr * second.stderr
    correlation = (first.stderr**2 + second.stderr**2 - variance) / (2.0 * product) if product > 0.0 else 0.0
    correlation = max(-1.0, min(1.0, correlation))

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2.0 * correlation * one * other + other**2))

    (low, high), (other_low, other_high) = (
        jeffreys_interval(side.value, _effective_units(side, level), level) for side in (first, second)
    )
    down = joined(first.value - low, other_high - second.value)
    return down, joined(high - first.value, second.value - other_low)


def jeffreys_interval(share: float, units: float, level: float) -> tuple[float, float]:
    """Jeffreys' interval for a share of `units` independent trials; holds the share, also at 0 and 1."""
    tail = (1.0 - level) / 2
    right, wrong = share * units + 0.5, (1.0 - share) * units + 0.5
    low = 0.0 if share == 0.0 else min(share, beta_quantile(right, wrong, tail))
    high = 1.0 if share == 1.0 else max(share, beta_quantile(right, wrong, 1.0 - tail))
    return (low, high)


def wilson_interval(share: float, units: float, level: float) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of `units` independent trials."""
    z = normal_quantile(0.5 + level / 2)
    centre = (share + z * z / (2 * units)) / (1 + z * z / units)
    half = z / (1 + z * z / units) * math.sqrt(share * (1 - share) / units + z * z / (4 * units * units))
    low = 0.0 if share == 0.0 else max(0.0, centre - half)
    high = 1.0 if share == 1.0 else min(1.0, centre + half)
    return (low, high)
