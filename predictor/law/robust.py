"""The line that single odd runs cannot move: Theil-Sen, with Sen's interval for the slope (Sen 1968)."""

from __future__ import annotations

import math

import numpy as np

from predictor.errors import LawError
from predictor.law.regression import Solution
from predictor.law.table import PointTable

# Standard deviation of a normal over its median absolute deviation.
_MAD_TO_SD = 1.4826
# Variance of a median over that of a mean, for normal data.
_MEDIAN_COST = math.pi / 2.0
_LEVEL = 0.68268949
MIN_POINTS = 5


def theil_sen_solution(table: PointTable) -> Solution:
    """Median slope over all pairs of points and median intercept; needs at least 5 points for Sen's interval.

    The slope's standard error is half of Sen's 68 % interval; residual spread is the scaled median absolute deviation.
    """
    if len(table) < MIN_POINTS:
        raise LawError(
            "Theil-Sen gives no interval on so few points",
            found=f"{len(table)} hint configs",
            expected=f"at least {MIN_POINTS}",
            fix="use method `ols` or `bayes`",
        )
    from scipy.stats import theilslopes

    x_N, y_N = table.gap_N, table.y_N
    found = theilslopes(y_N, x_N, alpha=_LEVEL)
    slope, slope_var = float(found.slope), ((float(found.high_slope) - float(found.low_slope)) / 2.0) ** 2
    # scipy's default intercept goes through the medians of x and y; the median residual is the robust one.
    intercept = float(np.median(y_N - slope * x_N))
    df = float(len(table) - 2)
    spread = _MAD_TO_SD * float(np.median(np.abs(y_N - intercept - slope * x_N)))
    residual_var = spread**2 * len(table) / df
    centre = float(np.median(x_N))
    covariance = np.array([[centre**2, -centre], [-centre, 1.0]]) * slope_var
    covariance[0, 0] += _MEDIAN_COST * residual_var / len(table)
    return Solution(np.array([intercept, slope]), covariance, df, residual_var)
