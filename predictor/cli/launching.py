"""`gapcast launch`: the plan's runs under the cap, or the user's own choice."""

from __future__ import annotations

import math

from predictor.cli.commands import Chosen
from predictor.errors import BudgetError, InputError
from predictor.launch import RunRequest, find_record, run_config
from predictor.loop.session import Session
from predictor.loop.stages import freeze_forecasts, launch, launch_planned, plan_runs
from predictor.loop.whole import Ending
from predictor.records import RunRecord


def launch_plan(session: Session) -> tuple[list[RunRecord], Ending]:
    """Train the plan's runs in order, without replanning between them."""
    _, plan = plan_runs(session, session.config.law)
    records: list[RunRecord] = []
    try:
        records += [launch_planned(session, run) for run in plan.chosen]
    except BudgetError:
        return session.runs, "budget"
    return records, "done"


def launch_by_hand(session: Session, chosen: Chosen) -> tuple[list[RunRecord], Ending]:
    """Train every seed of the named hint configs; forecasts are frozen before, so that they can be scored."""
    names = [hint.name for hint in session.config.hints]
    wanted = names if chosen.all_hints else list(chosen.hints)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise InputError("unknown hint config", where="--hint", found=", ".join(unknown), expected=", ".join(names))
    records: list[RunRecord] = []
    for seed in session.config.training.seeds:
        for name in wanted:
            left = math.inf if chosen.outside_budget else session.config.plan.budget.total_seconds - session.charged
            request = RunRequest(name, seed, "full", session.config.training.num_steps)
            config = run_config(session.study, session.model_dir, request)
            known = find_record(session.study, config.spec.key)
            if known is None or known.state != "finished":
                # Each run is forecast from all that came before it, the earlier ones of this command included.
                freeze_forecasts(session, session.config.law)
            try:
                records.append(launch(session, config, left))
            except BudgetError:
                return records, "budget"
    return records, "done"
