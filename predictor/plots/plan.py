"""The plan as a figure: forecast improvement per cost, what is launched, and why the rest is not."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from predictor.plots.style import BLUE, GREY, INK, ORANGE, SMALL, Mark, axes_for, draw_interval, literal, tidy
from predictor.records.plan import Plan, PlanRow

ROW_INCHES = 0.27
LAUNCHED = Mark(colour=BLUE, marker="o", size=6.5)
LEFT_OUT = Mark(colour=GREY, marker="o", filled=False)
OUTCOME = Mark(colour=ORANGE, marker="D")
WORDS = {
    "chosen": "launched",
    "control": "control",
    "already_ran": "ran before",
    "running": "running",
    "failed_before": "failed before",
    "consensus_unmeasured": "consensus gap unknown",
    "consensus_gap": "consensus gap too small",
    "no_stderr": "forecast without error",
    "below_threshold": "below threshold",
    "over_budget": "over budget",
    "dominated": "adds too little",
    "max_runs": "enough runs",
}


def plot_plan(plan: Plan, *, ax: Axes | None = None) -> Axes:
    """One row for each candidate, best improvement per cost first, with its 80 % interval and its verdict.

    Filled circles are launched, open ones are not, diamonds are mean outcomes of finished runs. Improvement is a
    share of 1; cost is that of one run with its safety margin.
    """
    rows = sorted(plan.rows, key=lambda row: _finite(row.mean) / _cost(row, plan), reverse=True)
    ax = axes_for(ax, 1.0 + ROW_INCHES * max(3, len(rows)))
    tidy(ax, xlabel=f"forecast improvement per device-{_unit(plan)} (share of 1, 80 % interval)", grid="x")
    ax.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
    for place, row in enumerate(rows):
        _draw(ax, place, row, _cost(row, plan))
    ax.set_yticks(range(len(rows)), [literal(row.hint) for row in rows])
    ax.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    measured = any(row.outcome is not None for row in rows)
    handles = [_handle(LAUNCHED, "launched"), _handle(LEFT_OUT, "not launched")]
    ax.legend(
        handles=[*handles, _handle(OUTCOME, "outcome")] if measured else handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=3,
        frameon=False,
        fontsize=SMALL,
    )
    return ax


def _draw(ax: Axes, place: int, row: PlanRow, cost: float) -> None:
    """Forecast, outcome and verdict of one row."""
    low, high = (bound / cost for bound in row.interval80)
    mark = LAUNCHED if row.verdict == "chosen" else LEFT_OUT
    draw_interval(ax, row.mean / cost, (low, high), place, mark)
    if row.outcome is not None:
        low, high = (bound / cost for bound in row.outcome.interval(0.80))
        draw_interval(ax, row.outcome.value / cost, (low, high), place, OUTCOME)
    verdict = WORDS[row.verdict]
    ax.text(1.01, place, verdict, transform=ax.get_yaxis_transform(), va="center", fontsize=SMALL, color=INK)


def _handle(mark: Mark, label: str) -> Line2D:
    """A legend entry that looks like the mark."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=mark.marker,
        markersize=mark.size,
        markerfacecolor=mark.face,
        markeredgecolor=mark.colour,
        label=label,
    )


def _unit(plan: Plan) -> str:
    """Minutes where every run is shorter than six of them, hours otherwise."""
    longest = max((row.cost_gpu_hours for row in plan.rows), default=0.0)
    return "minute" if longest < 0.1 else "hour"


def _cost(row: PlanRow, plan: Plan) -> float:
    """Cost of one run of a candidate in the figure's unit."""
    per_hour = 60.0 if _unit(plan) == "minute" else 1.0
    return max(row.cost_gpu_hours * per_hour, 1e-12)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -math.inf
