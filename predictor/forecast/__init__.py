"""Forecasts: the law applied to gaps, frozen before training, scored after it."""

from predictor.forecast.build import forecast
from predictor.forecast.freeze import freeze, verify
from predictor.forecast.pilot import PilotRatio, forecast_of_pilot, pilot_ratio, with_pilot
from predictor.forecast.score import score

__all__ = [
    "PilotRatio",
    "forecast",
    "forecast_of_pilot",
    "freeze",
    "pilot_ratio",
    "score",
    "verify",
    "with_pilot",
]
