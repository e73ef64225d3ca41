"""Closed-form linear regression with a normal-inverse-gamma prior; a flat prior makes it ordinary least squares.

Model: y = Xb + e, e ~ N(0, s²), b | s² ~ N(m, s² diag(1/p)), s² ~ scaled inverse chi²(df, variance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.errors import LawError

Floats = NDArray[np.float64]

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
