"""`gapcast run`: probe, forecast, plan, train, record, refit, replan after each run, until nothing is left to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from predictor.errors import BudgetError
from predictor.loop.fitting import fit_law, score_forecasts
from predictor.loop.session import Session
from predictor.loop.stages import (
    choose_pilots,
    launch_planned,
    plan_runs,
    probe_study,
)
from predictor.probe import ProbeResult
from predictor.records import ForecastScore, FrozenForecast, LawFit, Plan, PlannedRun, RunRecord

Ending = Literal["done", "budget"]


@dataclass(frozen=True)
class WholeResult:
    """What the loop did."""

    probe: ProbeResult
    first_forecast: FrozenForecast
    """The forecast that was frozen before the first training."""
    plan: Plan
    """The last plan: why nothing more is launched."""
    runs: tuple[RunRecord, ...]
    law: LawFit
    score: ForecastScore
    ending: Ending


def run_whole(session: Session) -> WholeResult:
    """Do the whole loop; started again after a kill, it goes on where it stopped and repeats nothing."""
    law = session.config.law
    probed = probe_study(session)
    with session.study.locked():
        first, plan = plan_runs(session, law)
        ending: Ending = "done"
        try:
            if session.config.plan.pilot_steps is not None:
                _train_all(session, choose_pilots(session, law, None))
                _, plan = plan_runs(session, law)
            while plan.chosen:
                launch_planned(session, plan.chosen[0])
                _, plan = plan_runs(session, law)
        except BudgetError:
            ending = "budget"
            # The plan that chose the stopped run is out of date: this one says why nothing more is launched.
            _, plan = plan_runs(session, law)
        return WholeResult(
            probe=probed,
            first_forecast=_first_frozen(session, first),
            plan=plan,
            runs=tuple(session.runs),
            law=fit_law(session, law),
            score=score_forecasts(session),
            ending=ending,
        )


def _train_all(session: Session, chosen: tuple[PlannedRun, ...]) -> None:
    for run in chosen:
        launch_planned(session, run)


def _first_frozen(session: Session, fallback: FrozenForecast) -> FrozenForecast:
    """The study's first forecast, so that a resumed loop still shows what was said before any training."""
    frozen = session.study.records("forecasts", FrozenForecast)
    return frozen[0] if frozen else fallback
