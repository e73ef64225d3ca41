"""The law's figures draw what the fit says, with an interval wherever there is an estimate."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from predictor.forecast import forecast
from predictor.law import LinearLaw
from predictor.law.simulate import PlantedLaw
from predictor.plots.honesty import plot_calibration, plot_prior_posterior
from predictor.plots.law import FAMILIES, FORECAST, plot_law, plot_residuals
from predictor.records import LawFit, Predictive

PLANTED = PlantedLaw(slope=1.0, student=0.15, probe_stderr=0.02, eval_stderr=0.03)
GAPS = (0.0, 0.15, 0.3, 0.45, 0.6)


@pytest.fixture(scope="module")
def fit() -> LawFit:
    return LinearLaw().fit(PLANTED.records(GAPS, seeds=2))


def drawn(ax: Axes) -> Axes:
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    FigureCanvasAgg(figure).draw()
    return ax


def markers(ax: Axes, marker: str) -> list[tuple[float, float]]:
    lines = [line for line in ax.get_lines() if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def test_points_stand_at_the_means_with_error_bars_in_both_directions(fit: LawFit) -> None:
    ax = drawn(plot_law(fit))
    expected = [(point.x, point.y) for point in fit.points]
    assert np.allclose(markers(ax, FAMILIES[0].marker)[: len(expected)], expected)
    bars = [collection for collection in ax.containers if hasattr(collection, "has_xerr")]
    assert all(bar.has_xerr and bar.has_yerr for bar in bars)
    assert {text.get_text() for text in ax.texts} >= {point.label for point in fit.points}


def test_the_bands_are_the_intervals_for_a_new_run(fit: LawFit) -> None:
    ax = drawn(plot_law(fit))
    bands = [collection for collection in ax.collections if isinstance(collection, PolyCollection)]
    assert len(bands) == 2
    widths = [np.ptp(band.get_paths()[0].vertices[:, 1]) for band in bands]
    assert widths[0] > widths[1], "95 % is drawn under 80 %"
    ceiling = max(band.get_paths()[0].vertices[:, 1].max() for band in bands)
    assert ceiling <= 0.85 + 1e-9


def test_forecasts_stand_at_their_mean_with_their_80_percent_interval(fit: LawFit) -> None:
    items = forecast(fit, [PLANTED.gap("new", 0.2)], threshold=0.05)
    ax = drawn(plot_law(fit, forecasts=items))
    place = (0.2, items[0].improvement.value)
    assert place in [pytest.approx(found) for found in markers(ax, FORECAST.marker)]
    bars = [line for line in ax.get_lines() if list(line.get_xdata()) == [0.2, 0.2]]
    assert tuple(bars[0].get_ydata()) == pytest.approx(items[0].improvement.interval80)


def test_the_prior_is_dashed_and_stands_alone_before_the_first_run() -> None:
    ax = drawn(plot_law(LinearLaw().fit([])))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["prior, 80 % band"]
    assert "--" in {line.get_linestyle() for line in ax.get_lines()}
    without = drawn(plot_law(LinearLaw(prior="none").fit(PLANTED.records(GAPS))))
    assert "prior, 80 % band" not in [text.get_text() for text in without.get_legend().get_texts()]


def test_axes_name_quantity_and_unit_and_families_differ_in_marker() -> None:
    other = PlantedLaw(slope=0.6, family="other", probe_stderr=0.02)
    ax = drawn(plot_law(LinearLaw().fit(PLANTED.records(GAPS) + other.records(GAPS))))
    assert "share of 1" in ax.get_xlabel()
    assert "share of 1" in ax.get_ylabel()
    assert markers(ax, FAMILIES[1].marker)
    assert FAMILIES[0].marker != FAMILIES[1].marker


def test_given_axes_are_drawn_on_and_returned(fit: LawFit) -> None:
    axes = Figure().subplots(1, 4)
    assert plot_law(fit, ax=axes[0]) is axes[0]
    assert plot_residuals(fit, ax=axes[1]) is axes[1]
    assert plot_prior_posterior(fit, ax=axes[2]) is axes[2]
    assert plot_calibration([Predictive(location=0.0, scale=1.0, df=5.0)], [0.1], ax=axes[3]) is axes[3]


def test_residuals_are_improvement_minus_line(fit: LawFit) -> None:
    ax = drawn(plot_residuals(fit))
    line = fit.families[0]
    expected = [(p.x, p.y - line.intercept.value - line.slope.value * p.x) for p in fit.points]
    assert np.allclose(markers(ax, FAMILIES[0].marker), expected)


def test_a_calibrated_forecaster_lies_on_the_diagonal_and_a_bold_one_below() -> None:
    rng = np.random.default_rng(0)
    outcomes = rng.normal(0.0, 0.1, 500).tolist()
    for scale, check in ((0.1, lambda share: share == pytest.approx(0.5, abs=0.06)), (0.05, lambda share: share < 0.4)):
        ax = plot_calibration([Predictive(location=0.0, scale=scale, df=1e9)] * 500, outcomes)
        levels, shares = next(line for line in ax.get_lines() if line.get_marker() == "o").get_data()
        assert check(float(shares[np.argmin(np.abs(np.asarray(levels) - 0.5))]))


def test_the_posterior_is_narrower_than_the_prior_and_both_are_densities(fit: LawFit) -> None:
    ax = drawn(plot_prior_posterior(fit))
    (grid, prior), (_, posterior) = (line.get_data() for line in ax.get_lines())
    step = grid[1] - grid[0]
    assert float(np.sum(prior) * step) == pytest.approx(1.0, abs=0.05)
    assert float(np.sum(posterior) * step) == pytest.approx(1.0, abs=0.02)
    assert max(posterior) > 2 * max(prior)
