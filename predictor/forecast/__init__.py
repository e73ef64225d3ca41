"""Forecasts: the law applied to gaps, frozen before training, scored after it."""

from predictor.forecast.build import forecast
from predictor.forecast.freeze import freeze, verify
from predictor.forecast.pilot import forecast_of_pilot, with_pilot
from predictor.forecast.pilot_law import FullForecast, PilotLaw
from predictor.forecast.score import score, score_studies

__all__ = [
    "FullForecast",
    "PilotLaw",
    "forecast",
    "forecast_of_pilot",
    "freeze",
    "score",
    "score_studies",
    "verify",
    "with_pilot",
]
