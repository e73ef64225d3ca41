"""A straight line when both variables are measured with error (York et al. 2004, Am. J. Phys. 72, 367).

It answers what the slope would be without measurement noise. For a forecast at an equally noisy gap, least squares is
the right predictor: the flattening that `york` removes is then part of the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from predictor.errors import LawError
from predictor.law.regression import Solution
from predictor.law.table import Floats, PointTable

_TOLERANCE = 1e-14
# The intrinsic variance is itself an estimate; searching for it needs no better line than this.
_SEARCH_TOLERANCE = 1e-6
_MAX_ITERATIONS = 500
# The intrinsic spread is looked for between nothing and this multiple of the improvements' own spread.
_WIDEST = 2.0


@dataclass(frozen=True, slots=True)
class YorkLine:
    """Intercept and slope with their standard errors and covariance, and the goodness of fit S (chi², n - 2)."""

    intercept: float
    slope: float
    intercept_stderr: float
    slope_stderr: float
    covariance: float
    chi2: float


@dataclass(frozen=True, slots=True)
class Errors:
    """Variances of every point's two errors, and their covariance."""

    x_var_N: Floats
    y_var_N: Floats
    cov_N: Floats

    def widened(self, variance: float) -> Errors:
        """The same with further variance in y."""
        return Errors(self.x_var_N, self.y_var_N + variance, self.cov_N)

    def weights(self, slope: float) -> Floats:
        """Inverse variance of y - slope·x at every point."""
        return 1.0 / (self.y_var_N + slope**2 * self.x_var_N - 2.0 * slope * self.cov_N)


def york_line(x_N: Floats, y_N: Floats, errors: Errors, *, tolerance: float = _TOLERANCE) -> YorkLine:
    """York's unified equations (13a-13e), iterated until the slope moves by less than `tolerance`."""
    centred_N = x_N - x_N.mean()
    slope = float(centred_N @ y_N / (centred_N @ centred_N))
    for _ in range(_MAX_ITERATIONS):
        weight_N = errors.weights(slope)
        total = float(weight_N.sum())
        means = (float(weight_N @ x_N) / total, float(weight_N @ y_N) / total)
        u_N, v_N = x_N - means[0], y_N - means[1]
        # Equation 13: W·(U/ω(Y) + bV/ω(X) - (bU + V)·r/α), with 1/ω a variance and r/α the covariance.
        beta_N = weight_N * (u_N * errors.y_var_N + slope * v_N * errors.x_var_N - (slope * u_N + v_N) * errors.cov_N)
        pull_N = weight_N * beta_N
        previous, slope = slope, float(pull_N @ v_N / (pull_N @ u_N))
        if abs(slope - previous) <= tolerance * (1.0 + abs(slope)):
            return _york_result(slope, means, (x_N, y_N), weight_N, beta_N)
    raise LawError(
        "the fit with errors in both variables does not converge",
        found=f"slope still moving after {_MAX_ITERATIONS} iterations",
        fix="measure the gaps more precisely, or use method `ols`",
    )


def _york_result(
    slope: float, means: tuple[float, float], data: tuple[Floats, Floats], weight_N: Floats, beta_N: Floats
) -> YorkLine:
    intercept = means[1] - slope * means[0]
    adjusted_N = means[0] + beta_N
    centre = float(weight_N @ adjusted_N / weight_N.sum())
    slope_var = 1.0 / float(weight_N @ (adjusted_N - centre) ** 2)
    return YorkLine(
        intercept=intercept,
        slope=slope,
        intercept_stderr=math.sqrt(1.0 / float(weight_N.sum()) + centre**2 * slope_var),
        slope_stderr=math.sqrt(slope_var),
        covariance=-centre * slope_var,
        chi2=float(weight_N @ (data[1] - intercept - slope * data[0]) ** 2),
    )


def york_solution(table: PointTable) -> Solution:
    """The line without measurement noise, with the spread of hint configs around it that the errors leave unexplained.

    A baseline shared by all points shifts them together and leaves the slope alone: its noise is taken out of both
    sides and given back to the intercept. A baseline measured anew puts the same error in gap and improvement.
    """
    x_N, y_N = table.gap_N, table.y_N
    x_var_N, y_var_N = table.x_var_N, table.y_var_N / table.runs_N
    baseline_N = np.minimum(table.baseline_var_N, np.minimum(x_var_N, y_var_N))
    shared = bool(np.all(table.baseline_N == table.baseline_N[0]))
    errors = Errors(x_var_N, y_var_N, baseline_N)
    if shared:
        errors = Errors(x_var_N - baseline_N, y_var_N - baseline_N, np.zeros_like(x_N))
    tau2 = _intrinsic_variance(x_N, y_N, errors)
    errors = errors.widened(tau2)
    line = york_line(x_N, y_N, errors)
    weight_N = errors.weights(line.slope)
    slope_var = _slope_variance(line, (x_N, y_N), errors)
    centre = float(weight_N @ x_N / weight_N.sum())
    shift = (line.slope - 1.0) ** 2 * float(baseline_N.mean()) if shared else 0.0
    level_var = 1.0 / float(weight_N.sum()) + shift
    covariance = [
        [level_var + centre**2 * slope_var, -centre * slope_var],
        [-centre * slope_var, slope_var],
    ]
    return Solution(np.array([line.intercept, line.slope]), np.array(covariance), float(len(table) - 2), tau2)


def _slope_variance(line: YorkLine, data: tuple[Floats, Floats], errors: Errors) -> float:
    """(m_xx·s_vv + s_uv²) / ((n - 1)·s_xx²) with s_xx the variance of the TRUE gaps (Fuller 1987, section 1.3).

    York's own standard error takes the estimated true gaps for exact; where probe noise is as large as the spread of
    the gaps its 95 % intervals cover 72 to 87 % (simulated, n = 12 and 24), these 96 to 99 %.
    """
    (x_N, y_N), weight_N = data, errors.weights(line.slope)
    count, share_N = len(weight_N), weight_N / weight_N.mean()
    centre = float(share_N @ x_N) / count
    spread = float(share_N @ (x_N - centre) ** 2) / (count - 1)
    true_spread = spread - float(share_N @ errors.x_var_N) / count
    if true_spread <= 0.0:
        raise LawError(
            "the gaps differ no more than their measurement noise, so the slope without noise is unknown",
            found=f"variance of the gaps {spread:.2e}, of their noise {spread - true_spread:.2e}",
            fix="probe more examples, add hint configs with other gaps, or use method `ols` to forecast",
        )
    residual_N = y_N - line.intercept - line.slope * x_N
    residual_var = float(share_N @ residual_N**2) / (count - 2)
    shared = float(share_N @ (errors.cov_N - line.slope * errors.x_var_N)) / count
    return (spread * residual_var + shared**2) / ((count - 1) * true_spread**2)


def _intrinsic_variance(x_N: Floats, y_N: Floats, errors: Errors) -> float:
    """Variance added to every improvement so that chi² equals its degrees of freedom (Mandel-Paule)."""
    df = len(x_N) - 2

    def excess(tau2: float) -> float:
        return york_line(x_N, y_N, errors.widened(tau2), tolerance=_SEARCH_TOLERANCE).chi2 - df

    # With exact improvements and gaps the weights are infinite; an offset far below any measurement keeps them finite.
    tiny = 1e-12 * float(np.var(y_N)) + 1e-300
    high = _WIDEST * float(np.var(y_N)) + tiny
    if excess(tiny) <= 0.0:
        return tiny
    from scipy.optimize import brentq

    return float(brentq(excess, tiny, high, xtol=1e-9, rtol=1e-4)) if excess(high) < 0.0 else high
