"""Frozen forecasts beside what their runs measured."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from predictor.plots.style import (
    BLUE,
    FONT_SIZE,
    INK,
    MUTED,
    ORANGE,
    SMALL,
    Mark,
    axes_for,
    draw_interval,
    literal,
    tidy,
)
from predictor.records import ForecastScore, ScoredForecast

FORECAST = Mark(ORANGE, "D", filled=False, size=5.5)
OUTCOME = Mark(BLUE, "o", size=5.5)
_ROW_HEIGHT = 0.32


def plot_outcomes(score: ForecastScore, *, ax: Axes | None = None) -> Axes:
    """One row for each scored run: the forecast with its 80 % interval, the outcome, and a word where it lies outside.

    Shares of 1 on the horizontal axis; rows stand in the order of their forecasts, the largest on top.
    """
    rows = sorted(score.scored, key=lambda row: row.forecast, reverse=True)
    ax = axes_for(ax, 1.1 + _ROW_HEIGHT * max(len(rows), 2))
    for place, row in enumerate(rows):
        _draw(ax, place, row)
    ax.axvline(0.0, color=MUTED, linewidth=0.9, zorder=1)
    tidy(ax, xlabel="improvement on held-out examples (share of 1), 80 % intervals", grid="x")
    ax.set_yticks(range(len(rows)), [literal(row.hint) for row in rows], fontsize=FONT_SIZE, color=INK)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    handles = [_handle("forecast, frozen before training", FORECAST), _handle("outcome", OUTCOME)]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, fontsize=SMALL, frameon=False)
    return ax


def _draw(ax: Axes, place: int, row: ScoredForecast) -> None:
    draw_interval(ax, row.forecast, row.interval80, place, FORECAST)
    ax.plot([row.outcome], [place], OUTCOME.marker, color=OUTCOME.colour, markersize=OUTCOME.size, zorder=5)
    # In words as well, because the distance of a marker from a line's end is hard to see.
    word = "inside" if row.inside80 else "outside"
    ax.text(1.01, place, word, transform=ax.get_yaxis_transform(), va="center", fontsize=SMALL, color=INK)


def _handle(label: str, mark: Mark) -> Line2D:
    return Line2D(
        [],
        [],
        label=label,
        linestyle="none",
        marker=mark.marker,
        markersize=mark.size,
        markerfacecolor=mark.face,
        markeredgecolor=mark.colour,
    )
