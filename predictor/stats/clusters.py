"""The one place where independent units are decided: standard errors, degrees of freedom and bootstrap all use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from predictor.errors import DataError
from predictor.records import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EstimateKind = Literal["share", "difference", "mean"]

_ROUNDING = 1e-12
"""Standard errors up to this are what rounding leaves of identical units."""


def unit_index(units_E: Sequence[str] | None, num_examples: int) -> tuple[Ints, int]:
    """Number each example's independent unit from 0, and count the units; without `units_E` every example is one."""
    if units_E is None:
        return np.arange(num_examples), num_examples
    if len(units_E) != num_examples:
        raise DataError(
            "examples and their units do not match", found=f"{len(units_E)} units", expected=f"{num_examples}"
        )
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(unit, len(numbers)) for unit in units_E], dtype=np.int64)
    return index, len(numbers)


def unit_totals(values_E: Floats, units_E: Sequence[str] | None) -> Floats:
    """Sum of the values within each independent unit; shape (units,)."""
    index, num_units = unit_index(units_E, len(values_E))
    return np.bincount(index, weights=values_E, minlength=num_units).astype(np.float64)


def cluster_mean(
    values_E: Sequence[float] | Floats,
    units_E: Sequence[str] | None = None,
    *,
    weights_E: Sequence[float] | Floats | None = None,
    kind: EstimateKind = "mean",
) -> Estimate:
    """Weighted mean over examples with the cluster-robust (CR1) standard error of a ratio of means.

    stderr² = U/(U-1) · Σ_u (Σ_{e in u} w_e (v_e - mean))² / (Σ w)², with U independent units. Equal to the sample
    standard error when every example is its own unit. Fewer than two units leave it NaN.
    """
    values = _finite(values_E)
    weights = np.ones(len(values)) if weights_E is None else _finite(weights_E)
    total = float(weights.sum())
    if len(values) == 0 or total <= 0.0:
        return Estimate(value=math.nan, stderr=math.nan, num_units=0, kind=kind)
    mean = float(weights @ values) / total
    moments = unit_totals(weights * (values - mean), units_E)
    num_units = int(np.count_nonzero(unit_totals(weights, units_E)))
    return moments_estimate(mean, moments / total, num_units, kind)


def moments_estimate(value: float, moments_U: Floats, num_units: int, kind: EstimateKind) -> Estimate:
    """An estimate from each unit's contribution to its error (they sum to 0): CR1 and its degrees of freedom.

    The degrees of freedom match the first two moments of the estimated variance (Satterthwaite 1946) at the kurtosis
    k of the contributions: 2 U / (k - (U-3)/(U-1)), which is U - 1 for k = 3. Where all but a few units agree, k is
    near U over their number, and t with U - 1 degrees would promise more than those few can tell.
    """
    if num_units < 2:
        return Estimate(value=value, stderr=math.nan, num_units=num_units, kind=kind)
    squares = moments_U**2
    spread = float(squares.sum())
    stderr = math.sqrt(num_units / (num_units - 1) * spread)
    degrees = None
    if stderr > _ROUNDING:
        kurtosis = num_units * float((squares / spread) @ (squares / spread))
        matched = 2 * num_units / (kurtosis - (num_units - 3) / (num_units - 1))
        degrees = matched if matched < num_units - 1 else None
    return Estimate(value=value, stderr=stderr, num_units=num_units, kind=kind, degrees=degrees)


def _finite(values: Sequence[float] | Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise DataError(
            "a mean over examples met a value that is not a number",
            found=f"{int(np.count_nonzero(~np.isfinite(array)))} of {array.size} values",
            fix="leave those examples out and report how many",
        )
    return array
