"""One line per family from its points, and the record that a forecast is made from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from predictor.errors import LawError
from predictor.law.regression import Prior, Solution
from predictor.law.table import SAME_GAP, Floats, PointTable
from predictor.records import FamilyLaw

MIN_GAPS = 3

SolutionOf = Callable[[PointTable, Prior], Solution]
LawOf = Callable[[str, PointTable], FamilyLaw]


@dataclass(frozen=True, slots=True)
class Lines:
    """Fitted lines, the line for unseen families, and the families that could not be fitted, with the reason."""

    families: tuple[FamilyLaw, ...]
    new_family: FamilyLaw | None = None
    skipped: dict[str, str] = field(default_factory=dict)

    def of(self, family: str) -> FamilyLaw | None:
        """The family's line, else the one for unseen families, else None."""
        return next((law for law in self.families if law.family == family), self.new_family)


def family_lines(table: PointTable, law_of: LawOf, new_family: FamilyLaw | None) -> Lines:
    """One line for each family apart; raises LawError when not one family can be fitted."""
    families: list[FamilyLaw] = []
    skipped: dict[str, LawError] = {}
    for family in table.families:
        try:
            families.append(law_of(family, table.of_family(family)))
        except LawError as error:
            skipped[family] = error
    if skipped and not families:
        raise next(iter(skipped.values()))
    return Lines(tuple(families), new_family, {family: error.what for family, error in skipped.items()})


def checked_solution(family: str, table: PointTable, prior: Prior, solution_of: SolutionOf) -> Solution:
    """The solution, without a spread where fewer than three gaps differ; two points without a prior are an error."""
    if len(table) == 2 and prior.df == 0.0:
        raise LawError(
            f"two hint configs give family `{family}` a line through both points and no error at all",
            found="n = 2",
            expected="at least 3 distinct gaps",
            fix="train more hint configs, or use method `bayes` with the published prior",
        )
    solution = solution_of(table, prior)
    if prior.df == 0.0 and table.num_gaps < MIN_GAPS:
        unknown = np.full_like(solution.covariance_KK, math.nan)
        return Solution(solution.coefficients_K, unknown, solution.df, math.nan)
    return solution


def family_law(
    family: str, table: PointTable, solution: Solution, prior: Prior, *, below: PointTable | None = None
) -> FamilyLaw:
    """A family's record: the solution plus the average noise of its points, weighed with the prior's.

    `below` are the points under the ceiling that a saturating line was fitted on; seeds at the ceiling hardly differ,
    and would make those below it look surer than they are.
    """
    seed_var, seed_df = seed_variance(table if below is None else below)
    shared = table.shared_var
    y_var_N = np.maximum(table.y_var_N - shared, 0.0)
    return FamilyLaw(
        family=family,
        num_runs=int(table.runs_N.sum()),
        num_configs=int(np.count_nonzero(np.bincount(table.config_N))),
        num_gaps=table.num_gaps,
        coefficients=tuple(solution.coefficients_K.tolist()),
        covariance=tuple(tuple(row) for row in solution.covariance_KK.tolist()),
        df=solution.df,
        residual_var=solution.residual_var,
        seed_var=seed_var,
        seed_df=seed_df,
        shared_var=shared,
        probe_var=_mean_with_prior(np.maximum(table.x_var_N - shared, 0.0), prior.df, prior.probe_var),
        eval_var=_mean_with_prior(y_var_N, prior.df, prior.eval_var),
        unit_var=float(np.mean(y_var_N * table.units_N)),
        ceiling_var=math.nan if below is None else ceiling_variance(table, solution),
        gap_range=(float(table.gap_N.min()), float(table.gap_N.max())),
        r2=r_squared(table, solution.coefficients_K, saturating=below is not None),
    )


def seed_variance(table: PointTable) -> tuple[float, float]:
    """Variance of a single seed beyond what a point's mean over seeds shows, and its degrees of freedom.

    Pooled within-config variance · (1 - mean(1/seeds)); 0 where no hint config has two seeds, because the residuals
    around the line then hold all of it.
    """
    df = float(np.sum(table.runs_N - 1.0))
    if df == 0.0:
        return 0.0, 0.0
    share = 1.0 - float(np.mean(1.0 / table.runs_N))
    return float(np.sum(table.within_N)) / df * share, df


def ceiling_variance(table: PointTable, solution: Solution) -> float:
    """Mean square by which points at the ceiling fall short of it, shrunk by one guess of the residual variance."""
    above = table.take(table.x_NK @ solution.coefficients_K >= table.ceiling_N)
    shortfall = float(np.sum((above.ceiling_N - above.y_N) ** 2))
    return (shortfall + solution.residual_var) / (len(above) + 1.0)


def r_squared(table: PointTable, coefficients_K: Floats, *, saturating: bool = False) -> float:
    """Share of variance explained in sample; NaN when the improvement is constant."""
    total = float(np.sum((table.y_N - table.y_N.mean()) ** 2))
    if total <= SAME_GAP**2 * len(table):
        return math.nan
    line_N = table.x_NK @ coefficients_K
    if saturating:
        line_N = np.minimum(line_N, table.ceiling_N)
    return 1.0 - float(np.sum((table.y_N - line_N) ** 2)) / total


def _mean_with_prior(values: Floats, weight: float, prior_value: float) -> float:
    return (float(values.sum()) + weight * prior_value) / (len(values) + weight)


def prior_line(prior: Prior) -> FamilyLaw:
    """What the prior alone says: the line of a family without runs."""
    variances = prior.variance / np.asarray(prior.precisions)
    return FamilyLaw(
        family="(prior)",
        num_runs=0,
        num_configs=0,
        num_gaps=0,
        coefficients=prior.means,
        covariance=tuple(tuple(row) for row in np.diag(variances).tolist()),
        df=prior.df,
        residual_var=prior.variance,
        probe_var=prior.probe_var,
        eval_var=prior.eval_var,
    )
