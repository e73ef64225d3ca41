from __future__ import annotations

import io
import math

from matplotlib.figure import Figure

from predictor.plots.plan import plot_plan
from predictor.records import Budget, Estimate, Plan, PlanRow, PlanVerdict


def row(
    hint: str, mean: float, cost: float = 0.01, verdict: PlanVerdict = "dominated", outcome: float = math.nan
) -> PlanRow:
    known = Estimate(value=outcome, stderr=0.02, num_units=128, kind="difference")
    return PlanRow(
        hint=hint,
        verdict=verdict,
        gap=mean,
        consensus_gap=mean,
        mean=mean,
        interval80=(mean - 0.1, mean + 0.1),
        p_pays=0.9,
        cost_gpu_hours=cost,
        outcome=None if math.isnan(outcome) else known,
    )


def plan(*rows: PlanRow) -> Plan:
    return Plan(
        status="ok",
        reason="",
        objective="best",
        expected=0.5,
        budget=Budget(device_seconds=100.0),
        num_devices=1,
        chosen=(),
        rejected=(),
        rows=rows,
    )


def test_rows_stand_in_order_of_improvement_per_cost() -> None:
    ax = plot_plan(plan(row("dear", 0.6, cost=0.09), row("cheap", 0.5), row("weak", 0.1)))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cheap", "weak", "dear"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_every_forecast_has_its_interval_and_launched_ones_are_filled() -> None:
    ax = plot_plan(plan(row("a", 0.6, cost=1.0, verdict="chosen"), row("b", 0.5, cost=1.0)))
    lines = [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    spans = [tuple(line.get_xdata()) for line in lines if line.get_xdata()[0] != line.get_xdata()[1]]
    assert [tuple(round(float(x), 6) for x in span) for span in spans] == [(0.5, 0.7), (0.4, 0.6)]
    faces = [line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "o"]
    assert faces[0] != "white"
    assert faces[1] == "white"


def test_the_axis_names_unit_and_level_and_short_runs_are_counted_in_minutes() -> None:
    assert "device-minute (share of 1, 80 % interval)" in plot_plan(plan(row("a", 0.6))).get_xlabel()
    assert "device-hour" in plot_plan(plan(row("a", 0.6, cost=3.0))).get_xlabel()


def test_verdicts_are_words_and_outcomes_are_drawn_where_there_are_any() -> None:
    ax = plot_plan(plan(row("a", 0.6, verdict="already_ran", outcome=0.55), row("b", 0.4, verdict="consensus_gap")))
    assert {text.get_text() for text in ax.texts} == {"ran before", "consensus gap too small"}
    assert sum(line.get_marker() == "D" for line in ax.lines) == 1
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["launched", "not launched", "outcome"]


def test_given_axes_are_drawn_on_and_returned_and_unknown_numbers_do_no_harm() -> None:
    figure = Figure()
    ax = figure.add_subplot()
    unknown = row("n", math.nan, verdict="no_stderr")
    assert plot_plan(plan(unknown, row("a", 0.3)), ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "n"]
    figure.savefig(io.BytesIO(), format="png")


def test_a_plan_without_candidates_is_an_empty_figure() -> None:
    ax = plot_plan(plan())
    assert not ax.get_yticklabels()
