"""Simulated laws, fitted and forecast by the same code that users run, and how often the intervals hold the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from predictor.errors import LawError
from predictor.law.lines import Lines
from predictor.law.methods import lines_of
from predictor.law.prior import published_prior
from predictor.law.table import Floats, PointTable
from predictor.records import Estimate, FamilyLaw, LawSpec, derive_seed
from predictor.records.distributions import t_quantile
from predictor.records.law.predict import predict_run

CONFIGS = (3, 4, 6, 12, 24)
GAP_SDS = (0.03, 0.08)
PROBE_STDERRS = (0.016, 0.03)
FAMILIES = (1, 2, 4)
LEVELS = (0.80, 0.95)
# New runs forecast from each simulated law, spread over its families; they share its lines, so more would add little.
NEW_RUNS = 4
_MEAN_GAP = 0.3
_INTERCEPT_SD = 0.02
# Spread of runs around their family's line: hint configs and seeds together.
RUN_SD = 0.03
_NUM_EXAMPLES = 131
_LINEAR = {"form": "linear"}
SPECS = {
    "ols": LawSpec.model_validate({"method": "ols"} | _LINEAR),
    "bayes": LawSpec.model_validate({"method": "bayes"} | _LINEAR),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One situation: hint configs per family, spread and noise of their gaps, how the baseline was measured."""

    num_configs: int
    gap_sd: float
    probe_stderr: float
    remeasured: bool
    num_families: int

    @property
    def new_runs(self) -> int:
        """New runs of each family."""
        return NEW_RUNS // self.num_families


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of new runs inside the intervals of one method, and the mean half-width of the 80 % interval."""

    cell: Cell
    method: str
    coverage80: float
    coverage95: float
    half_width80: float
    num_forecasts: int


def cells() -> Iterator[Cell]:
    """Every combination of the published table."""
    for combination in product(CONFIGS, GAP_SDS, PROBE_STDERRS, (False, True), FAMILIES):
        yield Cell(*combination)


def slope_cells() -> Iterator[Cell]:
    """One family, baseline measured anew: where noise manufactures slope."""
    for num_configs, gap_sd, probe_stderr in product((6, 12, 24), GAP_SDS, PROBE_STDERRS):
        yield Cell(num_configs, gap_sd, probe_stderr, remeasured=True, num_families=1)


def simulate(cell: Cell, rng: np.random.Generator, slope: float | None = None) -> tuple[PointTable, Floats]:
    """Points of every family, fitted ones first and its new ones after; also each family's true slope.

    Student, trained student and self-teacher are measured with independent noise of equal size: gap = T - S and
    improvement = P - S share the student's. It is one draw for each family, or one for each hint config.
    """
    count, families = cell.num_configs + cell.new_runs, cell.num_families
    slopes_F = np.full(families, slope) if slope is not None else rng.normal(*_slopes_between_families(), families)
    gap_FN = rng.normal(_MEAN_GAP, cell.gap_sd, (families, count))
    true_FN = (
        rng.normal(0.0, _INTERCEPT_SD, (families, 1))
        + slopes_F[:, None] * gap_FN
        + rng.normal(0.0, RUN_SD, (families, count))
    )
    arm = cell.probe_stderr / np.sqrt(2.0)
    student_FN = rng.normal(0.0, arm, (families, count if cell.remeasured else 1))
    x_FN = gap_FN + rng.normal(0.0, arm, (families, count)) - student_FN
    y_FN = true_FN + rng.normal(0.0, arm, (families, count)) - student_FN
    return _table(cell, x_FN, y_FN), slopes_F


@lru_cache(maxsize=1)
def _slopes_between_families() -> tuple[float, float]:
    """Centre and spread of the published slopes."""
    prior = published_prior()
    return prior.slope, prior.slope_sd


def _table(cell: Cell, x_FN: Floats, y_FN: Floats) -> PointTable:
    families, count = x_FN.shape
    size = families * count
    numbers = np.arange(size)
    same = np.full(size, cell.probe_stderr**2)
    return PointTable(
        family_names=tuple(f"f{number}" for number in range(families)),
        family_N=numbers // count,
        config_N=numbers,
        baseline_N=numbers if cell.remeasured else numbers // count,
        x_NK=np.column_stack([np.ones(size), x_FN.ravel()]),
        y_N=y_FN.ravel(),
        runs_N=np.ones(size),
        within_N=np.zeros(size),
        x_var_N=same,
        y_var_N=same,
        baseline_var_N=same / 2.0,
        units_N=np.full(size, float(_NUM_EXAMPLES)),
        ceiling_N=np.ones(size),
    )


def cell_coverage(cell: Cell, *, draws: int) -> list[Coverage]:
    """Coverage of every method in one cell; `pooled ols` ignores families, which the package refuses to do."""
    names = (*SPECS, "pooled ols") if cell.num_families > 1 else tuple(SPECS)
    hits: dict[str, list[tuple[bool, bool, float]]] = {name: [] for name in names}
    for draw in range(draws):
        rng = np.random.default_rng(derive_seed("coverage", repr(cell), draw))
        table, _ = simulate(cell, rng)
        is_new = np.arange(len(table)) % (cell.num_configs + cell.new_runs) >= cell.num_configs
        fitted, new = table.take(~is_new), table.take(is_new)
        for name, spec in SPECS.items():
            hits[name] += _hits(lines_of(fitted, spec), new)
        if "pooled ols" in hits:
            lines = lines_of(_as_one_family(fitted), SPECS["ols"])
            hits["pooled ols"] += _hits(lines, _as_one_family(new))
    return [_summary(cell, name, rows) for name, rows in hits.items()]


def _as_one_family(table: PointTable) -> PointTable:
    merged = table.take(np.arange(len(table)))
    return PointTable(
        **{name: getattr(merged, name) for name in PointTable.__slots__}
        | {"family_names": ("f0",), "family_N": np.zeros(len(table), dtype=np.int64)}
    )


def _hits(lines: Lines, new: PointTable) -> list[tuple[bool, bool, float]]:
    """For each new run: inside 80 %, inside 95 %, half-width of the 80 % interval."""
    found = []
    for number, name in enumerate(new.family_names):
        law = lines.of(name)
        assert law is not None, "every family was fitted"
        rows = np.flatnonzero(new.family_N == number)
        found += [_hit(law, float(new.gap_N[row]), float(new.y_N[row]), float(new.x_var_N[row])) for row in rows]
    return found


def _hit(law: FamilyLaw, gap: float, outcome: float, probe_var: float) -> tuple[bool, bool, float]:
    estimate = Estimate(value=gap, stderr=float(np.sqrt(probe_var)), num_units=_NUM_EXAMPLES)
    predictive = predict_run(law, estimate, (), student=None, num_eval_units=_NUM_EXAMPLES).predictive
    miss = abs(outcome - predictive.location) / predictive.scale
    inside80, inside95 = (miss <= _t_quantile(predictive.df, level) for level in LEVELS)
    return inside80, inside95, _t_quantile(predictive.df, LEVELS[0]) * predictive.scale


@lru_cache(maxsize=4096)
def _t_quantile(df: float, level: float) -> float:
    return float(t_quantile(df, 0.5 + level / 2))


def _summary(cell: Cell, method: str, rows: Sequence[tuple[bool, bool, float]]) -> Coverage:
    inside80, inside95, widths = np.array(rows, dtype=np.float64).T
    return Coverage(cell, method, float(inside80.mean()), float(inside95.mean()), float(widths.mean()), len(rows))


@dataclass(frozen=True, slots=True)
class SlopeCoverage:
    """How often a method's 95 % interval of the slope holds a true slope of 0, and the slope it finds on average."""

    cell: Cell
    method: str
    coverage95: float
    median_slope: float
    failed: float
    """Share of draws without a fit or without an interval."""


def slope_coverage(cell: Cell, *, draws: int, slope: float = 0.0) -> list[SlopeCoverage]:
    """Slopes of `ols` and `york` when the truth is known; the baseline is measured as the cell says."""
    found: dict[str, list[tuple[float, bool]]] = {"ols": [], "york": []}
    for draw in range(draws):
        rng = np.random.default_rng(derive_seed("slope", repr(cell), draw))
        table, _ = simulate(cell, rng, slope)
        fitted = table.take(np.arange(len(table)) < cell.num_configs)
        for method, rows in found.items():
            spec = LawSpec.model_validate({"method": method} | _LINEAR)
            try:
                coefficient = lines_of(fitted, spec).families[0].slope
            except LawError:
                continue
            low, high = coefficient.interval(0.95)
            rows.append((coefficient.value, low <= slope <= high))
    return [
        SlopeCoverage(
            cell,
            method,
            float(np.mean([inside for _, inside in rows])),
            float(np.median([value for value, _ in rows])),
            1.0 - len(rows) / draws,
        )
        for method, rows in found.items()
    ]
