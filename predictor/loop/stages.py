"""The stages of a study as functions of a session: probe, fit, forecast, plan, pilot, launch, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from predictor.config import LawConfig
from predictor.errors import StudyError
from predictor.forecast import forecast as forecast_improvements
from predictor.forecast import forecast_of_pilot, freeze, with_pilot
from predictor.launch import RunRequest, launch_run, metered, run_config
from predictor.law import PilotPrior, pilot_pairs, published_prior
from predictor.loop.fitting import fit_law
from predictor.loop.planning import default_pilot_steps, plan_request
from predictor.loop.session import Session
from predictor.planner import make_plan, pilots
from predictor.probe import OnProgress, ProbeResult
from predictor.records import (
    Forecast,
    FrozenForecast,
    LawFit,
    Plan,
    PlannedRun,
    RunConfig,
    RunRecord,
    RunSpec,
    current_provenance,
)
from predictor.records.diagnostics import HintDiagnostics

Found = TypeVar("Found")


def probe_study(session: Session) -> ProbeResult:
    """Measure what is missing and charge the time to the budget."""
    return _charged(session, session.probe.run)


def diagnose_study(session: Session) -> list[HintDiagnostics]:
    """Token diagnostics of a probed study, charged to the budget like the probe."""
    return _charged(session, session.probe.diagnose)


def _charged(session: Session, work: Callable[[OnProgress], Found]) -> Found:
    """Let the probe work on the locked study; every sign of progress brings the ledger up to date."""
    with session.study.locked(), metered(session.study, "probe") as meter:

        def progress(stage: str, done: int, total: int) -> None:
            meter.tick()
            session.on_progress(stage, done, total)

        return work(progress)


def freeze_forecasts(session: Session, law: LawConfig) -> tuple[LawFit, FrozenForecast]:
    """Forecast a full run of every hint config, and freeze the forecasts in forecasts.jsonl."""
    gaps = session.gaps
    if not gaps:
        raise StudyError(
            "nothing has been measured yet", where=str(session.study.path), fix="run `gapcast probe` first"
        )
    fitted = fit_law(session, law)
    forecasts = forecast_improvements(
        fitted, gaps, threshold=session.config.plan.threshold, num_steps=session.config.training.num_steps
    )
    frozen = freeze(
        _after_pilots(session, forecasts),
        inputs={
            "gaps": gaps,
            "runs": [*session.runs, *session.runs_elsewhere],
            "law": fitted.spec,
            "study": session.config,
        },
        provenance=current_provenance(config_key=session.config.key),
    )
    session.study.append("forecasts", frozen)
    return fitted, frozen


def _after_pilots(session: Session, forecasts: Sequence[Forecast]) -> tuple[Forecast, ...]:
    """The forecasts, each combined with its hint config's latest finished pilot where there is one."""
    done = [run for run in session.runs if run.spec.fidelity == "pilot" and run.state == "finished"]
    latest = {run.spec.hint: run for run in done}
    return tuple(
        with_pilot(f, latest[f.hint], _pilot_prior(session, latest[f.hint].spec)) if f.hint in latest else f
        for f in forecasts
    )


def _pilot_prior(session: Session, pilot: RunSpec) -> PilotPrior:
    """The shipped prior after the study's pairs of such pilots and their full runs; one prior for every use."""
    full = pilot.model_copy(update={"num_steps": session.config.training.num_steps})
    return published_prior().pilot.updated(pilot_pairs(session.runs, full, pilot_steps=pilot.num_steps))


def plan_runs(session: Session, law: LawConfig) -> tuple[FrozenForecast, Plan]:
    """Forecast, then choose what to launch; plan.json holds the choice."""
    fitted, frozen = freeze_forecasts(session, law)
    plan = make_plan(plan_request(session, fitted, frozen))
    session.study.write("plan", plan)
    return frozen, plan


def choose_pilots(session: Session, law: LawConfig, steps: int | None) -> tuple[PlannedRun, ...]:
    """Pilots of the candidates that the plan is unsure about, each forecast before it runs."""
    fitted, frozen = freeze_forecasts(session, law)
    request = plan_request(session, fitted, frozen, pilot_steps=steps)
    num_steps = request.config.pilot_steps or default_pilot_steps(session)
    prior = _pilot_prior(session, request.candidates[0].spec.model_copy(update={"num_steps": num_steps}))
    chosen = pilots(request, prior, rule="undecided")
    _freeze_pilots(session, frozen, prior, [run.hint for run in chosen])
    return chosen


def _freeze_pilots(session: Session, frozen: FrozenForecast, prior: PilotPrior, hints: Sequence[str]) -> None:
    """A pilot is forecast first, like a full run: freeze what each is expected to measure."""
    expected = [forecast_of_pilot(f, prior) for f in frozen.forecasts if f.hint in hints]
    if expected:
        provenance = current_provenance(config_key=session.config.key)
        session.study.append("forecasts", freeze(expected, inputs={"full": frozen}, provenance=provenance))


def config_of(session: Session, run: PlannedRun) -> RunConfig:
    """run.json of a planned run."""
    spec = run.spec
    return run_config(session.study, session.model_dir, RunRequest(spec.hint, spec.seed, spec.fidelity, spec.num_steps))


def launch_planned(session: Session, run: PlannedRun) -> RunRecord:
    """Train and record one planned run within what is left of the budget."""
    remaining = session.config.plan.budget.total_seconds - session.charged
    return launch(session, config_of(session, run), remaining - run.cost.eval_seconds)


def launch(session: Session, config: RunConfig, budget_seconds: float) -> RunRecord:
    """Train and record one run; the session's engines are out of its way while it trains."""
    session.release()
    return launch_run(
        session.study,
        lambda: session.probe,
        config,
        budget_seconds=budget_seconds,
        on_progress=session.on_progress,
    )
