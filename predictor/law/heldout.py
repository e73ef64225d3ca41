"""Errors of forecasts for hint configs or families that were held out of the fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from predictor.errors import LawError
from predictor.law.lines import Lines
from predictor.law.table import Ints, PointTable, tabulate
from predictor.records import Estimate, HeldOutErrors, LawPoint, Predictive
from predictor.records.law.predict import predict_run

FitLines = Callable[[PointTable], Lines]

# With more hint configs than this, evenly spread ones are held out, several at a time: the same answer in less time.
_MAX_HELD_OUT = 200
_NUM_FOLDS = 10


def held_out_errors(
    points: Sequence[LawPoint],
    fit_lines: FitLines,
    *,
    hold_out: Literal["config", "family"] = "config",
    pooled: bool = False,
    table: PointTable | None = None,
) -> HeldOutErrors | None:
    """Refit without each hint config (or family) in turn and score the forecasts of its runs.

    A `pooled` law is refitted on every family, others only on those they forecast. Above 200 hint configs, 200 evenly
    spread ones are held out in 10 folds. `table` is that of the
    points, where the caller has it. None when no fold leaves enough points for the law.
    """
    if not points:
        return None
    table = tabulate(points, 1 + len(points[0].xs)) if table is None else table
    label_N = table.config_N if hold_out == "config" else table.family_N
    pairs: list[tuple[Predictive, float]] = []
    num_folds = 0
    for fold in _folds(int(label_N.max()) + 1):
        held_N = np.isin(label_N, fold)
        rest_N = ~held_N if pooled else ~held_N & np.isin(table.family_N, table.family_N[held_N])
        found = _fold([points[row] for row in np.flatnonzero(held_N)], table.take(rest_N), fit_lines)
        pairs += found
        num_folds += bool(found)
    return errors_of(pairs, num_folds) if pairs else None


def _folds(num_groups: int) -> list[Ints]:
    """Numbers of the groups that each refit leaves out."""
    if num_groups <= _MAX_HELD_OUT:
        return [np.array([group]) for group in range(num_groups)]
    chosen = np.linspace(0, num_groups - 1, _MAX_HELD_OUT).astype(np.int64)
    return [chosen[start::_NUM_FOLDS] for start in range(_NUM_FOLDS)]


def _fold(held_out: Sequence[LawPoint], rest: PointTable, fit_lines: FitLines) -> list[tuple[Predictive, float]]:
    try:
        lines = fit_lines(rest)
    except LawError:
        return []
    pairs = []
    for point in held_out:
        law = lines.of(point.family)
        if law is None or math.isnan(law.residual_var):
            continue
        gap = Estimate(value=point.x, stderr=point.x_stderr, num_units=point.y_units)
        prediction = predict_run(law, gap, point.xs[1:], student=point.student, num_eval_units=point.y_units).predictive
        pairs += [(prediction, y) for y in point.ys]
    return pairs


def errors_of(pairs: Iterable[tuple[Predictive, float]], num_folds: int) -> HeldOutErrors:
    """Errors and interval coverage of forecast distributions beside their outcomes."""
    rows = list(pairs)
    errors = np.array([outcome - predictive.mean for predictive, outcome in rows])
    return HeldOutErrors(
        num_runs=len(rows),
        num_folds=num_folds,
        mae=float(np.mean(np.abs(errors))),
        rmse=float(np.sqrt(np.mean(errors**2))),
        coverage50=_coverage(rows, 0.50),
        coverage80=_coverage(rows, 0.80),
        coverage95=_coverage(rows, 0.95),
        crps=float(np.mean([predictive.crps(outcome) for predictive, outcome in rows])),
    )


def _coverage(rows: Sequence[tuple[Predictive, float]], level: float) -> float:
    inside = [covers(predictive, outcome, level) for predictive, outcome in rows]
    return float(np.mean(inside))


def covers(predictive: Predictive, outcome: float, level: float) -> bool:
    """Whether the central interval at `level` holds the outcome; bounds belong to the interval."""
    low, high = predictive.interval(level)
    return bool(low <= outcome <= high)
