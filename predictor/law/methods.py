"""The methods by name: each turns points into lines, and says which question it answers.

`ols` is the published fit. `bayes` adds the published prior and is the default for forecasts. `wls` weighs every hint
config by how precisely its improvement was measured. `york` finds the slope without measurement noise. `theil_sen`
ignores single odd runs. `hierarchical` lets families share what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from predictor.errors import LawError
from predictor.law.hierarchical import hierarchical_lines
from predictor.law.lines import Lines, SolutionOf, checked_solution, family_law, family_lines, prior_line
from predictor.law.prior import prior_of
from predictor.law.regression import Prior, Solution, clustered, solve
from predictor.law.robust import theil_sen_solution
from predictor.law.saturating import below_ceiling
from predictor.law.table import Floats, PointTable
from predictor.law.york import york_solution
from predictor.records import FamilyLaw, LawMethod, LawSpec

POOLED: frozenset[LawMethod] = frozenset({"hierarchical"})
"""Methods whose line for one family depends on the runs of the others."""
TWO_TERMS: frozenset[LawMethod] = frozenset({"york", "theil_sen"})
"""Methods that know an intercept and a slope, and no extra terms."""


def lines_of(table: PointTable, spec: LawSpec) -> Lines:
    """The lines of a specification whose form is resolved; raises LawError when nothing can be fitted."""
    if not len(table) and (spec.method != "bayes" or spec.prior == "none" or spec.extra):
        raise LawError(
            "there is no finished run with a measured gap to fit the law on",
            fix="train and record runs first, or use method `bayes` with the published prior and no extra terms",
        )
    if spec.extra and spec.method in TWO_TERMS:
        raise LawError(
            f"method `{spec.method}` fits an intercept and a slope only",
            found=spec.formula,
            fix="drop the extra terms, or use `ols`, `wls`, `bayes` or `hierarchical`",
        )
    if spec.covariance == "clustered" and spec.method not in _WEIGHTS:
        raise LawError(
            f"method `{spec.method}` has no clustered covariance",
            expected="`ols` or `wls`",
            fix="use one of them, or covariance `classical` with one point for each hint config",
        )
    if spec.method == "hierarchical":
        return hierarchical_lines(table)
    prior = prior_of(spec)
    new_family = prior_line(prior) if prior.df > 0.0 and not spec.extra else None
    return family_lines(table, partial(_law, spec=spec, prior=prior), new_family)


def _law(family: str, table: PointTable, *, spec: LawSpec, prior: Prior) -> FamilyLaw:
    below = below_ceiling(table, prior) if spec.form == "saturating" else None
    fitted_on = table if below is None else below
    solution = checked_solution(family, fitted_on, prior, _SOLUTIONS[spec.method])
    if spec.covariance == "clustered":
        data, weights_N = (fitted_on.x_NK, fitted_on.y_N), _WEIGHTS[spec.method](fitted_on)
        solution = clustered(solution, data, fitted_on.config_N, weights_N)
    law = family_law(family, table, solution, prior, below=below)
    return _weighted(law) if spec.method == "wls" else law


def _weighted(law: FamilyLaw) -> FamilyLaw:
    """With weights the residual variance is a multiple of the measured one, and a new run scales it by its own."""
    return law.model_copy(
        update={
            "eval_scale": law.residual_var,
            "residual_var": law.residual_var * law.eval_var,
            "seed_var": 0.0,
            "seed_df": 0.0,
        }
    )


def _conjugate(table: PointTable, prior: Prior) -> Solution:
    """Least squares with the prior's extra rows; a flat prior makes it `ols`."""
    return solve(table.x_NK, table.y_N, prior)


def _weighted_squares(table: PointTable, prior: Prior) -> Solution:
    return solve(table.x_NK, table.y_N, prior, _precisions(table))


def _precisions(table: PointTable) -> Floats:
    """Inverse measurement variance of every point's improvement."""
    variance_N = (table.y_var_N - table.shared_var) / table.runs_N
    if not np.all(variance_N > 0.0):
        raise LawError(
            "weighted least squares needs the standard error of every improvement",
            found=f"{int(np.count_nonzero(~(variance_N > 0.0)))} of {len(table)} without one",
            expected="standard errors above 0",
            fix="measure the improvements on more than one example, or use method `ols`",
        )
    return 1.0 / variance_N


_WEIGHTS: Mapping[LawMethod, Callable[[PointTable], Floats | None]] = {"ols": lambda _: None, "wls": _precisions}
"""Weights of the methods that can have a clustered covariance."""

_SOLUTIONS: Mapping[LawMethod, SolutionOf] = {
    "ols": _conjugate,
    "bayes": _conjugate,
    "wls": _weighted_squares,
    "york": lambda table, _: york_solution(table),
    "theil_sen": lambda table, _: theil_sen_solution(table),
}
