"""Closed-form linear regression with a normal-inverse-gamma prior; a flat prior makes it ordinary least squares.

Model: y = Xb + e, e ~ N(0, s²), b | s² ~ N(m, s² diag(1/p)), s² ~ scaled inverse chi²(df, variance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.errors import LawError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Relative size of the smallest singular value below which the terms say the same thing.
_SINGULAR = 1e-10


@dataclass(frozen=True, slots=True)
class Prior:
    """Independent priors of the coefficients, in units of the residual variance; precision 0 is flat."""

    means: tuple[float, ...]
    precisions: tuple[float, ...]
    df: float
    """Weight of the prior residual variance, in points; 0 is none."""
    variance: float
    """Prior residual variance."""
    probe_var: float = 0.0
    eval_var: float = 0.0
    """Measurement variance of gap and improvement that the prior residual variance contains."""

    @property
    def num_flat(self) -> int:
        """Terms about which the prior says nothing; each costs one degree of freedom."""
        return sum(precision == 0.0 for precision in self.precisions)


def flat_prior(num_terms: int) -> Prior:
    """No prior knowledge: posterior intervals equal those of least squares."""
    return Prior(means=(0.0,) * num_terms, precisions=(0.0,) * num_terms, df=0.0, variance=0.0)


@dataclass(frozen=True, slots=True)
class Solution:
    """Joint t distribution of the coefficients and the residual variance."""

    coefficients_K: Floats
    covariance_KK: Floats
    df: float
    residual_var: float


def solve(x_NK: Floats, y_N: Floats, prior: Prior, weights_N: Floats | None = None) -> Solution:
    """Posterior of (weighted) linear regression; raises LawError when the terms cannot be told apart.

    The prior enters as one extra row for each informed term, so both problems are one least-squares solve.
    """
    rows, targets = x_NK, y_N
    if weights_N is not None:
        root_N = np.sqrt(weights_N)
        rows, targets = x_NK * root_N[:, None], y_N * root_N
    if prior.num_flat < len(prior.precisions):
        root_K = np.sqrt(np.asarray(prior.precisions))
        informed = root_K > 0.0
        rows = np.vstack([rows, np.diag(root_K)[informed]])
        targets = np.concatenate([targets, (root_K * np.asarray(prior.means))[informed]])
    df = prior.df + len(y_N) - prior.num_flat
    if df <= 0:
        raise LawError(
            "too few points for the terms of the law",
            found=f"{len(y_N)} points, {prior.num_flat} terms without a prior",
            expected=f"at least {prior.num_flat + 1} hint configs",
            fix="train more hint configs, drop terms, or use method `bayes` with the published prior",
        )
    q, r = np.linalg.qr(rows)
    diagonal = np.abs(np.diag(r))
    if diagonal.min() <= _SINGULAR * diagonal.max():
        raise LawError(
            "the terms of the law cannot be told apart on these records",
            found=f"{len(np.unique(x_NK[:, 1]))} distinct gaps over {len(y_N)} points",
            expected="gaps that differ",
            fix="train hint configs with other gaps, or use method `bayes` with the published prior",
        )
    inverse = np.linalg.inv(r)
    coefficients = inverse @ (q.T @ targets)
    residuals = targets - rows @ coefficients
    variance = (prior.df * prior.variance + float(residuals @ residuals)) / df
    return Solution(coefficients, variance * (inverse @ inverse.T), float(df), variance)


def clustered(
    solution: Solution, data: tuple[Floats, Floats], clusters_N: Ints, weights_N: Floats | None = None
) -> Solution:
    """The same coefficients with the cluster-robust covariance CR1 and clusters - 1 degrees of freedom.

    (X'WX)⁻¹ (Σ_g X_g'W r_g r_g'W X_g) (X'WX)⁻¹ · G/(G-1) · (N-1)/(N-K), as statsmodels' `cov_type="cluster"` with
    `use_t=True`. With few clusters it is too small: simulated 95 % intervals cover 91 % with 4 and 92 % with 6 to 12.
    """
    x_NK, y_N = data
    num_points, num_terms = x_NK.shape
    num_clusters = int(np.count_nonzero(np.bincount(clusters_N)))
    if num_clusters < 2:
        raise LawError("a clustered covariance needs at least two hint configs", found=f"{num_clusters}")
    weighted_NK = x_NK if weights_N is None else x_NK * weights_N[:, None]
    bread_KK = np.linalg.inv(weighted_NK.T @ x_NK)
    scores_NK = weighted_NK * (y_N - x_NK @ solution.coefficients_K)[:, None]
    sums_GK = np.column_stack([np.bincount(clusters_N, column) for column in scores_NK.T])
    correction = num_clusters / (num_clusters - 1) * (num_points - 1) / (num_points - num_terms)
    covariance = correction * (bread_KK @ (sums_GK.T @ sums_GK) @ bread_KK)
    return Solution(solution.coefficients_K, covariance, float(num_clusters - 1), solution.residual_var)
