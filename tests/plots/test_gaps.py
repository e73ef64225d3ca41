"""The gap figure draws the records' numbers, one row for each hint config."""

from __future__ import annotations

import itertools
import math

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from predictor.plots.gaps import CONSENSUS, CONTROLS, RAW, plot_gaps
from predictor.plots.style import FIGURE_WIDTH, draw_interval, literal
from predictor.records import GapEstimate
from predictor.store import Study
from tests.planted_study import GAPS, contrast, planted_gaps, planted_study


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> list[GapEstimate]:
    study: Study = planted_study(tmp_path_factory.mktemp("gaps") / "study", "new")
    return planted_gaps(study.config)


def markers(ax: Axes, marker: str) -> dict[int, float]:
    """Value of each marker of one shape, by row."""
    points = [line for line in ax.get_lines() if line.get_marker() == marker]
    return {round(float(line.get_ydata()[0])): float(line.get_xdata()[0]) for line in points}


def interval_lines(ax: Axes) -> set[tuple[float, float]]:
    bars = [line for line in ax.get_lines() if line.get_marker() == "None" and len(set(line.get_ydata())) == 1]
    return {
        tuple(np.round(np.asarray(line.get_xdata(), dtype=float), 9)) for line in bars if len(line.get_xdata()) == 2
    }


def drawn(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    FigureCanvasAgg(figure).draw()
    return figure


def test_rows_are_the_hint_configs_in_order_from_the_top(gaps: list[GapEstimate]) -> None:
    ax = plot_gaps(gaps)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(GAPS)
    low, high = ax.get_ylim()
    assert low > high


def test_markers_stand_at_the_records_values(gaps: list[GapEstimate]) -> None:
    ax = plot_gaps(gaps)
    names = list(GAPS)
    assert markers(ax, RAW.marker) == {row: GAPS[name][1] for row, name in enumerate(names)}
    assert markers(ax, CONSENSUS.marker) == {r: GAPS[n][2] for r, n in enumerate(names) if GAPS[n][2] is not None}
    other, irrelevant = (CONTROLS[kind][1].marker for kind in ("other_example", "irrelevant"))
    assert markers(ax, other) == {r: GAPS[n][3] for r, n in enumerate(names) if GAPS[n][3] is not None}
    assert markers(ax, irrelevant) == {r: GAPS[n][4] for r, n in enumerate(names) if GAPS[n][4] is not None}


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_every_estimate_has_its_interval_at_the_asked_level(gaps: list[GapEstimate], level: float) -> None:
    found = interval_lines(plot_gaps(gaps, level=level))
    estimates = [gap.gap for gap in gaps] + [gap.consensus_gap for gap in gaps if not gap.is_control]
    wanted = {tuple(np.round(estimate.interval(level), 9)) for estimate in estimates if estimate is not None}
    assert wanted <= found


def test_an_unknown_interval_is_a_question_mark_and_no_line(gaps: list[GapEstimate]) -> None:
    lone = gaps[0].model_copy(update={"gap": contrast(0.3, math.nan), "consensus_gap": None})
    ax = plot_gaps([lone])
    assert interval_lines(ax) <= {(0.0, 1.0), (0.0, 0.0)}
    assert [text.get_text() for text in ax.texts] == ["?"]


def test_a_control_without_its_hint_config_is_still_shown(gaps: list[GapEstimate]) -> None:
    alone = [gap for gap in gaps if gap.control_of == "answer"]
    ax = plot_gaps(alone)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["answer"]
    strange = alone[0].model_copy(update={"hint": "answer/shuffled"})
    assert len(interval_lines(plot_gaps([strange]))) >= 1


def test_a_control_that_is_one_arm_for_all_hint_configs_is_one_band(gaps: list[GapEstimate]) -> None:
    same = contrast(0.021, 0.015)
    shared = [gap.model_copy(update={"gap": same}) if gap.hint.endswith("/irrelevant") else gap for gap in gaps]
    ax = plot_gaps(shared)
    (band,) = ax.patches
    low, high = same.interval(0.95)
    assert isinstance(band, Rectangle)
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((low, high))
    assert markers(ax, CONTROLS["irrelevant"][1].marker) == {}
    assert not plot_gaps(gaps).patches


def test_no_gaps_give_empty_axes() -> None:
    assert plot_gaps([]).get_legend() is None


def test_given_axes_are_used_and_returned_and_pyplot_stays_untouched(gaps: list[GapEstimate]) -> None:
    before = dict(mpl.rcParams)
    ax = Figure().add_subplot()
    assert plot_gaps(gaps, ax=ax) is ax
    own = plot_gaps(gaps).get_figure(root=True)
    assert own is not None
    assert own.get_figwidth() == FIGURE_WIDTH
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


def test_the_axis_states_its_unit_and_the_level(gaps: list[GapEstimate]) -> None:
    label = plot_gaps(gaps, level=0.9).get_xlabel()
    assert "accuracy" in label
    assert "90 %" in label


def test_series_differ_in_lightness_and_marker() -> None:
    series = [RAW, CONSENSUS, *(mark for _, mark in CONTROLS.values())]
    assert len({(mark.marker, mark.filled) for mark in series}) == len(series)
    lightness = [float(np.dot(to_rgb(mark.colour), (0.2126, 0.7152, 0.0722))) for mark in series[:3]]
    assert min(abs(a - b) for a, b in itertools.combinations(lightness, 2)) > 0.05


def test_labels_do_not_run_into_each_other_however_many_hint_configs_there_are(gaps: list[GapEstimate]) -> None:
    many = [
        gap.model_copy(update={"hint": gap.hint.replace(name, name + suffix), "control_of": owner and owner + suffix})
        for suffix in ("", "-with-a-rather-long-name")
        for gap in gaps
        for name, owner in [(gap.control_of or gap.hint, gap.control_of)]
    ]
    ax = plot_gaps(many)
    figure = drawn(ax)
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 2 * len(GAPS)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    legend = ax.get_legend()
    assert legend is not None
    frame = figure.bbox
    for box in [*boxes, legend.get_window_extent()]:
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
    assert legend.get_window_extent().y0 >= ax.get_window_extent().y1 - 1


@pytest.mark.parametrize("name", ["$x^2$", "a$b", "\x1b[31m", "漢字", r"\frac{1}{0}$$"])
def test_hostile_labels_are_drawn_as_text(name: str) -> None:
    ax = Figure().add_subplot()
    ax.set_title(literal(name))
    drawn(ax)
    assert all(c.isprintable() for c in literal(name))


def test_intervals_may_stand_upright() -> None:
    ax = Figure().add_subplot()
    draw_interval(ax, 0.5, (0.4, 0.6), 2.0, RAW, vertical=True)
    bar, marker = ax.get_lines()
    assert isinstance(bar, Line2D)
    assert list(bar.get_ydata()) == [0.4, 0.6]
    assert list(marker.get_xdata()) == [2.0]
