"""From a fitted line to the distribution of one new run, with every source of its variance named."""

from __future__ import annotations

import math
from dataclasses import dataclass

from predictor.errors import LawError
from predictor.records.estimate import Estimate
from predictor.records.law.line import FamilyLaw, Prediction, VarianceShares
from predictor.records.predictive import Predictive


def predict_run(
    law: FamilyLaw, gap: Estimate, extra: tuple[float, ...], *, student: float | None, num_eval_units: int
) -> Prediction:
    """Distribution of a new run's measured improvement; an unknown student (None or NaN) leaves it in [-1, 1].

    variance = x'Cx + residual_var + seed_var + slope²·(Var(gap) - probe_var) + (Var(evaluation) - eval_var): the
    residuals already hold the fitted points' average noise, so only the difference is added.
    """
    if not math.isfinite(gap.value) or math.isnan(gap.stderr):
        raise LawError(
            "a forecast needs a gap and its standard error",
            found=f"gap {gap.value}, standard error {gap.stderr}",
            fix="probe at least two examples; a missing standard error is not 0",
        )
    x = (1.0, gap.value, *extra)
    law_var = math.fsum(
        a * b * c for a, row in zip(x, law.covariance, strict=True) for b, c in zip(x, row, strict=True)
    )
    probe_var = law.coefficients[1] ** 2 * max(gap.stderr**2 - law.shared_var, 0.0)
    eval_var = _evaluation_variance(law, gap, num_eval_units)
    spread = _spread(law, law_var, probe_var, eval_var)
    low, high = (-1.0, 1.0) if student is None or math.isnan(student) else (-student, 1.0 - student)
    return Prediction(
        predictive=Predictive(
            location=math.fsum(a * b for a, b in zip(x, law.coefficients, strict=True)),
            scale=math.sqrt(spread.total),
            df=_combined_df(law, spread),
            noise=_noise_at_bounds(law),
            low=low,
            high=high,
        ),
        shares=_shares(law_var, probe_var, eval_var, spread.total),
        extrapolation=_extrapolation(law, gap.value),
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """Variance of a new run: `estimated` is known only as well as the residuals' degrees of freedom allow."""

    estimated: float
    inside: float
    total: float


def _spread(law: FamilyLaw, law_var: float, probe_var: float, eval_var: float) -> _Spread:
    beyond = probe_var - law.coefficients[1] ** 2 * law.probe_var
    if math.isnan(law.eval_scale):
        estimated = law_var + law.residual_var
        beyond += eval_var - law.eval_var
    else:
        estimated = law_var + law.eval_scale * eval_var
    inside = estimated + law.seed_var
    # A gap measured better than the fitted ones may narrow the forecast, but never below its own noise.
    floor = min(inside, law_var + probe_var + eval_var)
    total = inside + beyond if beyond >= 0.0 else max(inside + beyond, floor)
    return _Spread(estimated, inside, total)


def _evaluation_variance(law: FamilyLaw, gap: Estimate, num_eval_units: int) -> float:
    """Variance of a measured improvement on `num_eval_units` examples.

    Without fitted runs one example's paired gap stands in for its paired improvement: both are differences of two
    accuracies of the same example.
    """
    unit_var = gap.stderr**2 * gap.num_units if math.isnan(law.unit_var) else law.unit_var
    return unit_var / max(num_eval_units, 1)


def _noise_at_bounds(law: FamilyLaw) -> float:
    """How far runs stray from a bound that their line passes: measured at the ceiling, else as around the line."""
    around = law.residual_var + law.seed_var
    return math.sqrt(around if math.isnan(law.ceiling_var) else law.ceiling_var)


def _combined_df(law: FamilyLaw, spread: _Spread) -> float:
    """Satterthwaite's degrees of freedom: known measurement noise adds variance without adding doubt about it."""
    if not math.isfinite(law.df) or math.isnan(spread.total):
        return law.df
    seed_term = law.seed_var**2 / law.seed_df if law.seed_df > 0.0 else 0.0
    doubt = spread.estimated**2 / law.df + seed_term
    return max(law.df, max(spread.total, spread.inside) ** 2 / doubt) if doubt > 0.0 else law.df


def _shares(law_var: float, probe_var: float, eval_var: float, total: float) -> VarianceShares:
    """Each known part of the total; what they leave is between runs. Rescaled where they exceed the total."""
    between = max(0.0, total - law_var - probe_var - eval_var)
    whole = law_var + probe_var + eval_var + between
    if not whole > 0.0:
        return VarianceShares(law=math.nan, between_runs=math.nan, probe=math.nan, evaluation=math.nan)
    return VarianceShares(
        law=law_var / whole,
        between_runs=between / whole,
        probe=probe_var / whole,
        evaluation=eval_var / whole,
    )


def _extrapolation(law: FamilyLaw, gap: float) -> float:
    low, high = law.gap_range
    if math.isnan(low):
        return math.nan
    outside = max(low - gap, gap - high, 0.0)
    return outside / (high - low) if high > low else (math.inf if outside > 0.0 else 0.0)
