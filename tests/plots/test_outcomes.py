"""Forecast beside outcome, one row for each scored run."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from predictor.plots.outcomes import FORECAST, OUTCOME, plot_outcomes
from predictor.records import ForecastScore, ScoredForecast


def scored(hint: str, forecast: float, outcome: float) -> ScoredForecast:
    low, high = forecast - 0.1, forecast + 0.1
    return ScoredForecast(
        key=hint,
        hint=hint,
        forecast=forecast,
        outcome=outcome,
        error=outcome - forecast,
        interval80=(low, high),
        inside80=low <= outcome <= high,
        crps=0.05,
        frozen_at="2026-03-01T10:00:00.000000+00:00",
        frozen_hash="0" * 32,
    )


@pytest.fixture
def score() -> ForecastScore:
    rows = (scored("small", 0.1, 0.13), scored("large", 0.5, 0.2), scored("$middle", 0.3, 0.31))
    return ForecastScore(scored=rows, refused=(), errors=None)


def test_rows_show_forecast_and_outcome_and_say_which_lie_outside(score: ForecastScore) -> None:
    ax = plot_outcomes(score)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["large", r"\$middle", "small"]
    values = {
        marker: [float(line.get_xdata()[0]) for line in ax.get_lines() if line.get_marker() == marker]
        for marker in (FORECAST.marker, OUTCOME.marker)
    }
    assert values == {FORECAST.marker: [0.5, 0.3, 0.1], OUTCOME.marker: [0.2, 0.31, 0.13]}
    assert [text.get_text() for text in ax.texts] == ["outside", "inside", "inside"]


def test_given_axes_are_used_and_no_runs_are_no_error() -> None:
    ax = Figure().add_subplot()
    assert plot_outcomes(ForecastScore(scored=(), refused=(), errors=None), ax=ax) is ax
