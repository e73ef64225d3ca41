"""The three figures as SVG inside the page, each with a text that says what it shows."""

from __future__ import annotations

import io
import math

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from predictor.plots.gaps import plot_gaps
from predictor.plots.law import plot_law
from predictor.plots.plan import plot_plan
from predictor.plots.style import FIGURE_WIDTH
from predictor.report.evidence import Evidence
from predictor.report.page import Picture, Section
from predictor.report.rows import data_uri
from predictor.report.wording import count, listing, seconds, signed

_LAW_HEIGHT = 4.4
_ROW_HEIGHT = 0.3


def figures_section(evidence: Evidence) -> Section:
    """Gaps, law and plan; a figure whose records do not exist yet is named instead."""
    found = (gaps_picture(evidence), law_picture(evidence), plan_picture(evidence))
    missing = (
        "No figure of the gaps: nothing is measured yet.",
        "No figure of the law: no law is fitted yet.",
        "No figure of the plan: there is no plan yet.",
    )
    return Section(
        "figures",
        "Figures",
        pictures=tuple(picture for picture in found if picture is not None),
        missing=tuple(text for picture, text in zip(found, missing, strict=True) if picture is None),
    )


def gaps_picture(evidence: Evidence) -> Picture | None:
    """Every hint config's gap, consensus gap and controls; None before the first probe."""
    hints = evidence.hints
    if not hints:
        return None
    level = evidence.config.probe.confidence
    axes = plot_gaps(evidence.gaps, level=level)
    # The text repeats the numbers, because a reader who cannot see the figure gets nothing else of it.
    told = [
        f"{gap.hint} {signed(gap.gap.value)}"
        + (f", consensus {signed(gap.consensus_gap.value)}" if gap.consensus_gap is not None else "")
        for gap in hints
    ]
    return Picture(
        svg_uri(axes),
        f"Gaps of {count(len(hints), 'hint config')}: {'; '.join(told)}.",
        "What each hint adds to the model's accuracy (raw gap) beside what a student without hints can keep of it "
        "(consensus gap) and beside its controls.",
    )


def law_picture(evidence: Evidence) -> Picture | None:
    """The fitted line with its bands, the forecasts and the outcomes; None before the first fit."""
    law = evidence.law
    if law is None:
        return None
    axes = Figure(figsize=(FIGURE_WIDTH, _LAW_HEIGHT), layout="constrained").add_subplot()
    # The forecasts of the table above, not the law's newest: outcomes are judged against what was frozen.
    forecasts = [item for _, item in evidence.shown_forecasts()]
    plot_law(law, forecasts=forecasts, ax=axes)
    lines = [f"{line.family}: slope {signed(line.slope.value)}" for line in law.families]
    told = "; ".join(lines) or "the published prior alone"
    outcomes = [f"{point.label} {signed(point.y)}" for point in law.points]
    return Picture(
        svg_uri(axes),
        f"The law, {law.spec.formula}, {told}. Outcomes: {'; '.join(outcomes) or 'none yet'}.",
        f"Measured improvement against {law.spec.predictor.replace('_', ' ')}: the fitted line with its bands for a "
        "new run, the forecasts and the outcomes.",
    )


def plan_picture(evidence: Evidence) -> Picture | None:
    """Forecast improvement per cost of every candidate; None without a plan or candidates."""
    plan = evidence.plan
    if plan is None or not plan.rows:
        return None
    # Axes of our own keep pyplot's global list of figures empty in a long-running process.
    axes = Figure(figsize=(FIGURE_WIDTH, 1.1 + _ROW_HEIGHT * len(plan.rows)), layout="constrained").add_subplot()
    plot_plan(plan, ax=axes)
    chosen = listing([row.hint for row in plan.rows if row.verdict == "chosen"], limit=len(plan.rows))
    per_cost = [
        f"{row.hint} {signed(row.mean)} for {seconds(3600.0 * row.cost_gpu_hours)}"
        for row in plan.rows
        if math.isfinite(row.mean)
    ]
    return Picture(
        svg_uri(axes),
        f"The plan launches {chosen or 'nothing'}. Forecast improvement and cost: {'; '.join(per_cost)}.",
        "Forecast improvement per device time with 80 % intervals, best first; at the right what the plan decided.",
    )


def svg_uri(axes: Axes) -> str:
    """The figure of the axes as an SVG data URI: equal figures give equal bytes."""
    stream = io.StringIO()
    # Restored on leaving: the salt makes the ids inside the file depend on its content alone.
    with mpl.rc_context({"svg.hashsalt": "gapcast", "svg.fonttype": "path"}):
        # The root figure, since axes may lie in a subfigure.
        figure = axes.get_figure(root=True)
        if figure is None:
            raise ValueError("the axes belong to no figure")
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return data_uri("image/svg+xml", stream.getvalue().encode("utf-8"))
