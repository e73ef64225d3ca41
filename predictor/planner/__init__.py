"""The planner: which runs to launch under a hard budget, why not the others, and which pilots pay first.

Pure: values in, values out; equal requests give equal plans.
"""

from predictor.planner.forecasts import candidate_from_forecast
from predictor.planner.pilot import forecast_pilot, update_with_pilot
from predictor.planner.plan import make_plan
from predictor.planner.request import PlanRequest
from predictor.planner.value import pilot_value, pilots, undecided

__all__ = [
    "PlanRequest",
    "candidate_from_forecast",
    "forecast_pilot",
    "make_plan",
    "pilot_value",
    "pilots",
    "undecided",
    "update_with_pilot",
]
