"""improvement = min(1 - student, line): which points lie below the ceiling and therefore speak about the line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from predictor.errors import LawError
from predictor.law.regression import Prior, solve
from predictor.law.table import PointTable

Mask = NDArray[np.bool_]

# Sets of points tried as starts; each is refined until it no longer changes. Many points leave few local minima.
_MAX_STARTS = 12
_STARTS_FOR_MANY = 3
_MANY = 500
_MAX_REFINEMENTS = 10


def below_ceiling(table: PointTable, prior: Prior) -> PointTable:
    """Points whose fitted improvement stays under 1 - student; the others only say that the line passes the ceiling.

    Least squares of min(ceiling, line): given the points below the ceiling the line is an ordinary fit, so sets below
    a cut-off are tried, refined to consistency, and the one with the smallest squared error over all points wins. All
    points are returned when no bend fits better than the straight line.
    """
    order = np.argsort(table.gap_N / np.maximum(table.ceiling_N, 1e-9), kind="stable")
    num_starts = _STARTS_FOR_MANY if len(table) > _MANY else _MAX_STARTS
    cuts = np.unique(np.linspace(min(2, len(table)), len(table), num_starts).astype(int))[::-1]
    best, smallest = np.ones(len(table), dtype=bool), np.inf
    for cut in cuts:
        keep_N = np.zeros(len(table), dtype=bool)
        keep_N[order[:cut]] = True
        found = _refined(table, prior, keep_N)
        if found is not None and found[1] < smallest - 1e-12:
            best, smallest = found
    return table.take(best)


def _refined(table: PointTable, prior: Prior, keep_N: Mask) -> tuple[Mask, float] | None:
    """Refit and keep what lies under the ceiling until nothing changes; the set and its error over ALL points."""
    line_N = table.ceiling_N
    for _ in range(_MAX_REFINEMENTS):
        try:
            line_N = table.x_NK @ solve(table.x_NK[keep_N], table.y_N[keep_N], prior).coefficients_K
        except LawError:
            return None
        below_N = line_N < table.ceiling_N
        if np.array_equal(below_N, keep_N) or not below_N.any():
            break
        keep_N = below_N
    return keep_N, float(np.sum((table.y_N - np.minimum(line_N, table.ceiling_N)) ** 2))
