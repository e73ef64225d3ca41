"""From a study's measurements to the planner's request: candidates, budget and measured costs."""

from __future__ import annotations

import math

from predictor.errors import StudyError
from predictor.launch import RunRequest, calibrated, run_config
from predictor.loop.session import Session
from predictor.planner import (
    PlanRequest,
    candidate_from_forecast,
)
from predictor.probe import Pace
from predictor.records import (
    Budget,
    Candidate,
    CostModel,
    CostObservation,
    Forecast,
    FrozenForecast,
    LawFit,
    LedgerEntry,
    RunRecord,
    RunSpec,
)


def plan_request(
    session: Session, fitted: LawFit, frozen: FrozenForecast, *, pilot_steps: int | None = None
) -> PlanRequest:
    """Everything the plan depends on, from what the study has measured so far."""
    config = session.config.plan
    if pilot_steps is not None:
        config = config.model_copy(update={"pilot_steps": pilot_steps})
    return PlanRequest(
        candidates=tuple(_candidate(session, fitted, f) for f in frozen.forecasts if f.fidelity == "full"),
        config=config,
        budget=study_budget(session),
        costs=cost_model(session),
        seeds=session.config.training.seeds,
        num_eval_rollouts=eval_rollouts(session),
        runs=tuple(session.runs),
    )


def full_spec(session: Session, hint: str, seed: int) -> RunSpec:
    """Identity of the full run of one hint config."""
    request = RunRequest(hint, seed, "full", session.config.training.num_steps)
    return run_config(session.study, session.model_dir, request).spec


def eval_rollouts(session: Session) -> int:
    """Rollouts that measure one finished run: held-out and as many training examples."""
    return _remeasured(session) * session.config.probe.rollouts


def study_budget(session: Session) -> Budget:
    """The study's cap with everything in the ledger charged to it."""
    return Budget(
        device_seconds=session.config.plan.budget.total_seconds,
        charges=tuple(session.study.records("ledger", LedgerEntry)),
    )


def cost_model(session: Session) -> CostModel:
    """Measured costs: a calibration of the trainer, the probe's pace, and what finished runs took."""
    first = next((hint for hint in session.config.hints if hint.kind != "none"), session.config.hints[0])
    request = RunRequest(first.name, session.config.training.seeds[0], "full", session.config.training.num_steps)
    config = run_config(session.study, session.model_dir, request)
    calibration = calibrated(session.study, lambda: session.probe, config, release=session.release)
    pace = session.study.read("pace", Pace)
    if pace is None:
        raise StudyError(
            "the probe's pace is not known", where=str(session.study.path), fix="run `gapcast probe` first"
        )
    model = CostModel(
        startup_seconds=calibration.start_seconds,
        seconds_per_step=calibration.seconds_per_step,
        eval_startup_seconds=calibration.swap_seconds,
        seconds_per_eval_rollout=pace.seconds_per_rollout,
    )
    return model.updated([_observation(session, run) for run in session.runs if run.state == "finished" and run.cost])


def _candidate(session: Session, fitted: LawFit, forecast: Forecast) -> Candidate:
    gap = next(gap for gap in session.gaps if gap.hint == forecast.hint)
    spec = full_spec(session, forecast.hint, session.config.training.seeds[0])
    return candidate_from_forecast(forecast, gap, spec, fitted.line(gap.family))


def default_pilot_steps(session: Session) -> int:
    """Steps of a pilot where the study says nothing: a fifth of the full run's, at least one."""
    return math.ceil(session.config.training.num_steps / 5)


def _observation(session: Session, run: RunRecord) -> CostObservation:
    if run.cost is None:
        raise ValueError("a finished run has a cost")
    return CostObservation(
        hint=run.spec.hint,
        num_steps=run.spec.num_steps,
        train_seconds=run.cost.train_seconds,
        num_eval_rollouts=eval_rollouts(session),
        eval_seconds=run.cost.eval_seconds,
    )


def _remeasured(session: Session) -> int:
    """Examples that a finished run is measured on; the same number as `Probe.remeasured` holds."""
    task = session.config.task
    return task.eval_examples + min(task.eval_examples, task.train_examples)
