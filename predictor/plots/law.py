"""The law: runs with both error bars, every family's line, its bands for a new run, and forecasts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from predictor.plots.style import (
    BAND_ALPHA,
    BLUE,
    FONT_SIZE,
    GREEN,
    GREY,
    MUTED,
    ORANGE,
    RED,
    SMALL,
    Mark,
    axes_for,
    draw_interval,
    literal,
    tidy,
)
from predictor.records import Estimate, FamilyLaw, Forecast, LawFit, LawPoint
from predictor.records.law.predict import predict_run

Floats = NDArray[np.float64]

FAMILIES = (Mark(BLUE, "o"), Mark(RED, "s"), Mark(GREEN, "^"), Mark(ORANGE, "v"), Mark(GREY, "P"))
FORECAST = Mark(ORANGE, "D", filled=False, size=5.0)
LEVELS = (0.95, 0.80)
_HEIGHT = 4.2
_STEPS = 61
# More labels than this cover the points they belong to.
_MAX_LABELS = 30


def plot_law(fit: LawFit, *, forecasts: Sequence[Forecast] = (), ax: Axes | None = None) -> Axes:
    """Improvement against the gap predictor, both in shares of 1.

    Points are hint configs (mean over seeds; small dots are runs) with bars of one standard error; bands hold 80 and
    95 % of new runs measured like the fitted ones; dashed grey is the prior's line and 80 % band; open diamonds are
    forecasts with 80 % intervals; the dotted line is the ceiling, 1 - student.
    """
    ax = axes_for(ax, _HEIGHT)
    gaps = _gap_grid(fit, forecasts)
    student = _mean_student(fit, forecasts)
    if fit.new_family is not None:
        _draw_prior(ax, _Curve.of(fit.new_family, fit.points, gaps, student))
    for number, law in enumerate(fit.families):
        mark = FAMILIES[number % len(FAMILIES)]
        members = _members(fit, law)
        _draw_band(ax, _Curve.of(law, members, gaps, student), mark)
        _draw_points(ax, members, mark, label=f"{literal(law.family)} ({law.num_runs} runs)")
    _draw_labels(ax, fit.points)
    _draw_forecasts(ax, forecasts)
    _draw_ceiling(ax, student)
    ax.axhline(0.0, color=MUTED, linewidth=0.6, zorder=1)
    tidy(
        ax,
        xlabel=f"{fit.spec.predictor.replace('_', ' ')} before training (share of 1), bars ± 1 SE",
        ylabel="improvement after training (share of 1)",
    )
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")
    return ax


def plot_residuals(fit: LawFit, *, ax: Axes | None = None) -> Axes:
    """Improvement minus the fitted line against the gap, one marker for each hint config, with the residual SD dashed.

    A bend, a fan or one far point is a reason to doubt the straight line.
    """
    ax = axes_for(ax, _HEIGHT * 0.7)
    for number, law in enumerate(fit.families):
        mark = FAMILIES[number % len(FAMILIES)]
        members = _members(fit, law)
        residuals = [_residual(law, point, fit) for point in members]
        ax.plot([point.x for point in members], residuals, **_marker(mark), label=literal(law.family))
        for sign in (-1.0, 1.0):
            ax.axhline(sign * law.residual_sd, color=mark.colour, linewidth=0.8, linestyle="--")
    ax.axhline(0.0, color=MUTED, linewidth=0.8)
    tidy(
        ax,
        xlabel=f"{fit.spec.predictor.replace('_', ' ')} (share of 1)",
        ylabel="improvement minus line (share of 1)",
    )
    ax.legend(fontsize=SMALL, frameon=False)
    return ax


@dataclass(frozen=True, slots=True)
class _Curve:
    """A line and its bands on a grid of gaps."""

    gaps: Floats
    centre: Floats
    bands: dict[float, tuple[Floats, Floats]]

    @classmethod
    def of(cls, law: FamilyLaw, members: Sequence[LawPoint], gaps: Floats, student: float) -> _Curve:
        """Forecasts of new runs whose gap is measured as well as the fitted ones; extra terms at their mean."""
        extra = tuple(np.mean([point.xs[1:] for point in members], axis=0).tolist()) if members else ()
        own = float(np.mean([point.student for point in members])) if members else student
        units = max(members[0].y_units if members else 0, 2)
        found = []
        for gap in gaps:
            estimate = Estimate(value=float(gap), stderr=math.sqrt(law.probe_var), num_units=units)
            prediction = predict_run(law, estimate, extra, student=own, num_eval_units=units)
            found.append(prediction.predictive)
        bands = {level: np.array([p.interval(level) for p in found]).T for level in LEVELS}
        middle = [p.quantile(0.5) if math.isfinite(p.scale) else p.location for p in found]
        return cls(gaps, np.array(middle), {level: (low, high) for level, (low, high) in bands.items()})


def _members(fit: LawFit, law: FamilyLaw) -> list[LawPoint]:
    return [point for point in fit.points if point.family == law.family]


def _gap_grid(fit: LawFit, forecasts: Sequence[Forecast]) -> Floats:
    values = [point.x for point in fit.points] + [forecast.predictor_value.value for forecast in forecasts]
    low, high = (min(values), max(values)) if values else (0.0, 0.8)
    margin = 0.06 * max(high - low, 0.1)
    return np.linspace(low - margin, high + margin, _STEPS)


def _draw_band(ax: Axes, curve: _Curve, mark: Mark) -> None:
    for low, high in curve.bands.values():
        ax.fill_between(curve.gaps, low, high, color=mark.colour, alpha=BAND_ALPHA, linewidth=0, zorder=1)
    ax.plot(curve.gaps, curve.centre, color=mark.colour, linewidth=1.4, zorder=2)


def _draw_prior(ax: Axes, curve: _Curve) -> None:
    ax.plot(curve.gaps, curve.centre, color=MUTED, linewidth=1.0, linestyle="--", label="prior, 80 % band", zorder=1)
    for bound in curve.bands[0.80]:
        ax.plot(curve.gaps, bound, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)


def _draw_points(ax: Axes, members: Sequence[LawPoint], mark: Mark, *, label: str) -> None:
    x, y = [point.x for point in members], [point.y for point in members]
    ax.errorbar(
        x,
        y,
        xerr=[point.x_stderr for point in members],
        yerr=[point.y_stderr for point in members],
        linestyle="none",
        ecolor=mark.colour,
        elinewidth=0.9,
        zorder=3,
    )
    ax.plot(x, y, **_marker(mark), label=label, zorder=4)
    runs = [(point.x, value) for point in members if len(point.ys) > 1 for value in point.ys]
    if runs:
        ax.plot(*zip(*runs, strict=True), linestyle="none", marker=".", markersize=2.5, color=mark.colour, zorder=3)


def _draw_labels(ax: Axes, points: Sequence[LawPoint]) -> None:
    if len(points) > _MAX_LABELS:
        return
    for point in points:
        ax.annotate(
            literal(point.label),
            (point.x, point.y),
            (5, -9),
            textcoords="offset points",
            fontsize=SMALL - 1,
            color=MUTED,
        )


def _draw_forecasts(ax: Axes, forecasts: Sequence[Forecast]) -> None:
    for forecast in forecasts:
        improvement, place = forecast.improvement, forecast.predictor_value.value
        draw_interval(ax, improvement.value, improvement.interval80, place, FORECAST, vertical=True)
    if forecasts:
        ax.plot([], [], **_marker(FORECAST), label="forecast, 80 % interval")


def _mean_student(fit: LawFit, forecasts: Sequence[Forecast]) -> float:
    """Mean student accuracy of the points, else of the forecasts; NaN when unknown."""
    students = [point.student for point in fit.points] or [forecast.student.value for forecast in forecasts]
    return float(np.mean(students)) if students else math.nan


def _draw_ceiling(ax: Axes, student: float) -> None:
    if math.isnan(student):
        return
    ceiling = 1.0 - student
    ax.axhline(ceiling, color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
    ax.annotate(
        "ceiling",
        (1.0, ceiling),
        (-2, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        fontsize=FONT_SIZE - 1,
        color=MUTED,
    )


def _residual(law: FamilyLaw, point: LawPoint, fit: LawFit) -> float:
    line = math.fsum(value * x for value, x in zip(law.coefficients, (1.0, *point.xs), strict=True))
    return point.y - (min(line, 1.0 - point.student) if fit.form == "saturating" else line)


def _marker(mark: Mark) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": mark.marker,
        "markersize": mark.size,
        "markerfacecolor": mark.face,
        "markeredgecolor": mark.colour,
    }
