"""An uncertain number with its standard error, and the interval it implies."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from predictor.records.base import Record
from predictor.records.distributions import beta_quantile, normal_quantile, t_quantile

_ROUNDING = 1e-12
"""Standard errors up to this are what rounding leaves of identical units."""
_SAME = 1e-6
"""Relative difference of numbers that only rounding tells apart."""
_MOST_UNITS = 10.0
_BOUND_DEGREES = 1.0
_SIDE_BOUND_DEGREES = 2.0
"""Effective units a unit that are believed at most, and the degrees of freedom that this bound counts for: in a share's
own interval wherever its standard error is an estimate; in a difference for a side with fewer degrees than units, in
proportion. All three were chosen on planted studies (reports/probe_coverage.md) and tried on others
(notebooks/LOG.md)."""
_LEAST_OF_T = 0.3
"""Least share of the t interval's half-width: two or three units can imply a correlation of 1."""


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
        for less), less what estimating it from few units costs (Korn and Graubard 1998); where a sample without an
        event would not be rejected, only the other tail can miss, and it gets the whole error. A difference whose
        sides are known: the square-and-add combination of their Jeffreys intervals (MOVER-J: Zou and Donner 2008,
        Laud 2017), which is skewed where shares near 0 or 1 are. Anything else: t.
        Identical units never give a share or a difference an interval of width 0, but the bound that 0 events among
        `num_units` leave open.
        """
        if math.isnan(self.value) or math.isnan(self.stderr) or self.num_units < 2:
            return (math.nan, math.nan)
        if self.kind == "share":
            return _share_interval(self, level)
        below = above = float(t_quantile(_degrees(self), 0.5 + level / 2)) * self.stderr
        if self.kind == "mean":
            return (self.value - below, self.value + above)
        if self.stderr <= _ROUNDING:
            below = above = wilson_interval(0.0, self.num_units, level)[1]
        elif self.sides is not None and all(_is_measured(side) for side in self.sides):
            least = _LEAST_OF_T * below
            below, above = (max(least, reach) for reach in _square_and_add(self, *self.sides, level))
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


def _is_measured(side: Estimate) -> bool:
    return math.isfinite(side.stderr) and side.num_units >= 2


def _share_interval(share: Estimate, level: float) -> tuple[float, float]:
    known = _known_units(share)
    if known is not None:
        return wilson_interval(share.value, known, level)
    units = _effective_units(share, level, weight=_BOUND_DEGREES)
    low, high = wilson_interval(share.value, units, level)
    one_sided = 2.0 * level - 1.0
    if one_sided > 0.0:
        tails = _effective_units(share, one_sided, weight=_BOUND_DEGREES)
        lowest, highest = wilson_interval(share.value, tails, one_sided)
        # Up to this share, a sample without an event is too likely to be rejected.
        empty = min(0.5, 1.0 - (0.5 - level / 2) ** (1.0 / units))
        low, high = max(low, min(lowest, empty)), min(high, max(highest, 1.0 - empty))
    return (low, high)


def _known_units(share: Estimate) -> float | None:
    """Units of a share whose standard error needs no estimate: all agree, or as if each were one trial; else None."""
    spread, most = share.value * (1.0 - share.value), share.num_units
    if spread <= 0.0 or share.stderr <= _ROUNDING:
        return float(most)
    units = spread / share.stderr**2
    # Between the two lies the binomial standard error, with either of its denominators.
    return units if (most - 1) * (1 - _SAME) <= units <= most * (1 + _SAME) else None


def _effective_units(share: Estimate, level: float, *, weight: float, degrees: float = math.inf) -> float:
    """Units of a simple random sample with the same standard error, times (z / t)² because it is estimated.

    The standard error is moderated (Smyth 2004) towards the one of `_MOST_UNITS` effective units a unit, which counts
    as `weight` degrees of freedom: few units that agree by chance would promise too much. `degrees` limits t's.
    """
    spread, own = share.value * (1.0 - share.value), _degrees(share)
    bound = spread / (_MOST_UNITS * share.num_units)
    variance = (own * share.stderr**2 + weight * bound) / (own + weight)
    tail = 0.5 + level / 2
    scale = normal_quantile(tail) / float(t_quantile(min(own + weight, share.num_units - 1.0, degrees), tail))
    return max(1.0, spread / variance * scale**2)


def _square_and_add(difference: Estimate, first: Estimate, second: Estimate, level: float) -> tuple[float, float]:
    """How far the interval of first - second reaches down and up.

    The correlation is what the three standard errors imply. Where few units differ, the difference's own degrees of
    freedom are fewer than its sides', and limit them.
    """
    correlation = 0.0
    if min(first.stderr, second.stderr) > _ROUNDING:
        squares = first.stderr**2 + second.stderr**2
        correlation = (squares - difference.stderr**2) / (2.0 * first.stderr * second.stderr)
        correlation = max(-1.0, min(1.0, correlation))

    def joined(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2.0 * correlation * one * other + other**2))

    def limits(side: Estimate) -> tuple[float, float]:
        if side.value in (0.0, 1.0) or side.stderr <= _ROUNDING:
            return jeffreys_interval(side.value, side.num_units, level)
        weight = _SIDE_BOUND_DEGREES * (1.0 - _degrees(side) / (side.num_units - 1.0))
        units = _effective_units(side, level, weight=weight, degrees=_degrees(difference) + 1.0)
        return jeffreys_interval(side.value, units, level)

    (low, high), (other_low, other_high) = limits(first), limits(second)
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
