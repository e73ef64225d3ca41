"""Whether forecasts keep their word, and what own runs add to the published prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from predictor.plots.style import BLUE, GREY, MUTED, ORANGE, SMALL, Mark, axes_for, tidy
from predictor.records import Coefficient, LawFit, Predictive
from predictor.records.distributions import t_cdf

Floats = NDArray[np.float64]

OUTCOMES = Mark(BLUE, "o", size=5.0)
_HEIGHT = 3.4
_LEVELS = np.linspace(0.05, 0.95, 19)
_STEPS = 241


def plot_calibration(forecasts: Sequence[Predictive], outcomes: Sequence[float], *, ax: Axes | None = None) -> Axes:
    """Share of outcomes inside the central interval against its level; on the diagonal intervals keep their word.

    The grey band is where 95 % of honest forecasters of as many independent runs would lie.
    """
    ax = axes_for(ax, _HEIGHT)
    shares = [_share_inside(forecasts, outcomes, float(level)) for level in _LEVELS]
    spread = 1.96 * np.sqrt(_LEVELS * (1.0 - _LEVELS) / max(len(outcomes), 1))
    ax.fill_between(
        _LEVELS,
        np.clip(_LEVELS - spread, 0.0, 1.0),
        np.clip(_LEVELS + spread, 0.0, 1.0),
        color=GREY,
        alpha=0.3,
        linewidth=0,
        label=f"honest, {len(outcomes)} independent runs",
    )
    ax.plot([0.0, 1.0], [0.0, 1.0], color=MUTED, linewidth=0.9, linestyle="--")
    ax.plot(_LEVELS, shares, color=OUTCOMES.colour, marker=OUTCOMES.marker, markersize=4.0, label="forecasts")
    tidy(ax, xlabel="level of the interval (share of 1)", ylabel="outcomes inside it (share of 1)")
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")
    return ax


def plot_prior_posterior(fit: LawFit, *, ax: Axes | None = None) -> Axes:
    """Density of the slope before own runs (dashed grey) and after them, one curve for each family."""
    ax = axes_for(ax, _HEIGHT)
    slopes = {f"{law.family} ({law.num_runs} runs)": law.slope for law in fit.families}
    prior = fit.new_family.slope if fit.new_family is not None else None
    grid = _slope_grid([*slopes.values(), *([prior] if prior else [])])
    if prior is not None:
        ax.plot(grid, _density(prior, grid), color=MUTED, linestyle="--", linewidth=1.2, label="prior")
    for number, (label, slope) in enumerate(slopes.items()):
        style = ("-", "-.", ":")[number % 3]
        colour = (BLUE, ORANGE)[number % 2]
        ax.plot(grid, _density(slope, grid), color=colour, linestyle=style, linewidth=1.6, label=label)
    tidy(ax, xlabel="slope (improvement for one unit of gap)", ylabel="density", grid="x")
    ax.set_yticks([])
    ax.legend(fontsize=SMALL, frameon=False)
    return ax


def _share_inside(forecasts: Sequence[Predictive], outcomes: Sequence[float], level: float) -> float:
    inside = 0
    for predictive, outcome in zip(forecasts, outcomes, strict=True):
        low, high = predictive.interval(level)
        inside += low <= outcome <= high
    return inside / len(outcomes) if outcomes else math.nan


def _slope_grid(slopes: Sequence[Coefficient]) -> Floats:
    known = [slope for slope in slopes if slope.stderr > 0.0]
    low = min((slope.value - 4.0 * slope.stderr for slope in known), default=-1.0)
    high = max((slope.value + 4.0 * slope.stderr for slope in known), default=3.0)
    return np.linspace(low, high, _STEPS)


def _density(slope: Coefficient, grid: Floats) -> Floats:
    """Density of the slope's t distribution, from differences of its cumulative distribution."""
    if not slope.stderr > 0.0:
        return np.full_like(grid, math.nan)
    step = grid[1] - grid[0]
    edges = np.concatenate([grid - step / 2, grid[-1:] + step / 2])
    cumulative = np.asarray(t_cdf(slope.df, (edges - slope.value) / slope.stderr), dtype=np.float64)
    density: Floats = np.diff(cumulative) / step
    return density
