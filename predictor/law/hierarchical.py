"""Family intercepts and slopes, partially pooled: a mixed model fitted by restricted maximum likelihood.

y = X(b + u_f) + e with u_f ~ N(0, diag(spread²)) over families and e ~ N(0, s²). Equal to statsmodels' MixedLM with
independent random intercept and slope. It needs several families; with few, the spread between them is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predictor.errors import LawError
from predictor.law.lines import Lines, family_law
from predictor.law.regression import Solution, flat_prior
from predictor.law.table import Floats, PointTable

# Starting ratios of between-family to residual standard deviation; REML can have more than one hill.
_STARTS = ((1.0, 1.0), (0.1, 5.0), (5.0, 0.1))
# Only the intercept and the gap's slope differ between families; extra terms are shared.
_NUM_RANDOM = 2


@dataclass(frozen=True, slots=True)
class MixedFit:
    """REML estimates: pooled coefficients, their covariance, spread between families, and every family's own line."""

    coefficients_K: Floats
    covariance_KK: Floats
    spread_var_K: Floats
    """Variance of a coefficient between families."""
    residual_var: float
    family_lines: tuple[tuple[Floats, Floats], ...]
    """Coefficients of each family and their prediction error covariance."""


@dataclass(frozen=True, slots=True)
class _Grams:
    """Sums over the points of each family, all that the likelihood needs; F families, K terms."""

    xx_FKK: Floats
    xy_FK: Floats
    yy_F: Floats
    num_points: int

    @property
    def num_terms(self) -> int:
        return len(self.xy_FK[0])

    def shrunk(self, sd_K: Floats) -> tuple[Floats, Floats, float, float]:
        """X'V⁻¹X, X'V⁻¹y, y'V⁻¹y summed over families, and log|V|, for V = I + X diag(sd²) X' (Woodbury)."""
        scaled_FKK = self.xx_FKK * sd_K[:, None]
        inner_FKK = np.eye(self.num_terms) + scaled_FKK * sd_K
        rhs = np.concatenate([scaled_FKK, (self.xy_FK * sd_K)[:, :, None]], axis=2)
        solved = np.linalg.solve(inner_FKK, rhs)
        left_FKK = np.swapaxes(scaled_FKK, 1, 2)
        gram = (self.xx_FKK - left_FKK @ solved[:, :, :-1]).sum(axis=0)
        cross = (self.xy_FK - (left_FKK @ solved[:, :, -1:])[:, :, 0]).sum(axis=0)
        square = float(self.yy_F.sum() - np.sum(self.xy_FK * sd_K * solved[:, :, -1]))
        return gram, cross, square, float(np.linalg.slogdet(inner_FKK)[1].sum())


def mixed_fit(table: PointTable) -> MixedFit:
    """Fit every family together; the random terms are the intercept and the gap's slope."""
    from scipy.optimize import minimize

    members = [table.of_family(family) for family in table.families]
    grams = _Grams(
        xx_FKK=np.array([part.x_NK.T @ part.x_NK for part in members]),
        xy_FK=np.array([part.x_NK.T @ part.y_N for part in members]),
        yy_F=np.array([part.y_N @ part.y_N for part in members]),
        num_points=len(table),
    )
    options = {"ftol": 1e-14, "gtol": 1e-8}
    bounds = [(0.0, None)] * _NUM_RANDOM
    fits = [
        minimize(_reml, np.array(start), args=(grams,), method="L-BFGS-B", bounds=bounds, options=options)
        for start in _STARTS
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    return _estimates(members, grams, _padded(best.x, grams.num_terms))


def _padded(sd: Floats, num_terms: int) -> Floats:
    sd_K = np.zeros(num_terms)
    sd_K[:_NUM_RANDOM] = sd
    return sd_K


def _reml(sd: Floats, grams: _Grams) -> float:
    """-2 · restricted log-likelihood up to a constant, with the residual variance profiled out."""
    gram, cross, square, logdet = grams.shrunk(_padded(sd, grams.num_terms))
    residual = max(square - float(cross @ np.linalg.solve(gram, cross)), 1e-300)
    df = grams.num_points - grams.num_terms
    return float(df * np.log(residual / df) + logdet + np.linalg.slogdet(gram)[1])


def _estimates(members: list[PointTable], grams: _Grams, sd_K: Floats) -> MixedFit:
    gram, cross, square, _ = grams.shrunk(sd_K)
    pooled_KK = np.linalg.inv(gram).astype(np.float64)
    coefficients = pooled_KK @ cross
    df = grams.num_points - grams.num_terms
    residual_var = max(square - float(cross @ coefficients), 0.0) / df
    spread = np.diag(sd_K**2)
    lines = []
    for part in members:
        covariance = np.eye(len(part)) + part.x_NK @ spread @ part.x_NK.T
        gain = np.linalg.solve(covariance, part.x_NK @ spread).T
        kept = np.eye(grams.num_terms) - gain @ part.x_NK
        line = coefficients + gain @ (part.y_N - part.x_NK @ coefficients)
        lines.append((line, residual_var * (kept @ spread + kept @ pooled_KK @ kept.T)))
    return MixedFit(coefficients, residual_var * pooled_KK, residual_var * sd_K**2, residual_var, tuple(lines))


def hierarchical_lines(table: PointTable) -> Lines:
    """A partially pooled line for each family, and the pooled law with the spread between families for unseen ones."""
    names, num_terms = table.families, table.x_NK.shape[1]
    df = len(table) - num_terms - len(names)
    if len(names) < 2 or df < 1:
        raise LawError(
            "a hierarchical law needs several families",
            found=f"{len(names)} families, {len(table)} hint configs",
            expected=f"at least 2 families and {num_terms + len(names) + 1} hint configs",
            fix="use method `bayes`, whose prior says how families differ",
        )
    fit = mixed_fit(table)
    flat = flat_prior(num_terms)
    families = tuple(
        family_law(name, table.of_family(name), Solution(line, covariance, float(df), fit.residual_var), flat)
        for name, (line, covariance) in zip(names, fit.family_lines, strict=True)
    )
    # An unseen family's line differs by the spread between families, which is known from few of them.
    unseen = fit.covariance_KK + np.diag(fit.spread_var_K)
    pooled = Solution(fit.coefficients_K, unseen, float(len(names) - 1), fit.residual_var)
    return Lines(families, family_law("(pooled)", table, pooled, flat))
