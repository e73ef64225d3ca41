"""What each command does: open the study, call the loop, print a table or JSON, and say how it ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from predictor.cli import show
from predictor.cli.progress import progress_bars
from predictor.config import LawConfig
from predictor.errors import BudgetError, InputError
from predictor.loop.session import Session
from predictor.records import LawGuard, RunRecord

DONE, NOT_TRUSTED, BUDGET_SPENT = 0, 3, 4
Predictor = Literal["consensus_gap", "gap", "net_gap", "transferable_gap"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Hint configs that `gapcast launch` trains whatever the plan says."""

    hints: tuple[str, ...] = ()
    all_hints: bool = False
    outside_budget: bool = False

    @property
    def by_hand(self) -> bool:
        """Whether the choice is the user's, not the plan's."""
        return bool(self.hints) or self.all_hints


def probe(study: Path, *, diagnostics: bool = False, as_json: bool) -> int:
    """Measure, print the gap table, and refuse trust when too much is truncated or undecided."""
    from predictor.cli.diagnostics import diagnostics_json, print_diagnostics
    from predictor.loop.stages import diagnose_study, probe_study

    with opened(study) as session:
        result = probe_study(session)
        level = session.config.probe.confidence
        tokens = diagnose_study(session) if diagnostics else []
        if as_json:
            extra = {"diagnostics": diagnostics_json(tokens, level)} if diagnostics else {}
            show.print_json(result.as_json(level) | extra)
        else:
            _print_probe(session, result.hints, level)
            print_diagnostics(tokens, level)
        return _trust(session)


def forecast(study: Path, *, prior: str | None, predictor: Predictor | None, as_json: bool) -> int:
    """Freeze forecasts and print them."""
    from predictor.cli.tables import print_forecasts
    from predictor.loop.stages import freeze_forecasts

    with opened(study) as session, session.study.locked():
        changes = {"prior": prior, "predictor": predictor}
        law = changed(session.config.law, changes)
        fitted, frozen = freeze_forecasts(session, law)
        if as_json:
            show.print_json(frozen.as_json())
        else:
            print_forecasts(frozen, fitted)
        return doubts([guard for item in frozen.forecasts for guard in item.guards])


def plan(study: Path, *, as_json: bool) -> int:
    """Forecast, plan, and print both."""
    from predictor.cli.tables import print_plan
    from predictor.loop.stages import plan_runs

    with opened(study) as session, session.study.locked():
        _, chosen = plan_runs(session, session.config.law)
        if as_json:
            show.print_json(chosen.as_json())
        else:
            print_plan(chosen)
        return DONE


def pilot(study: Path, *, steps: int | None, as_json: bool) -> int:
    """Train pilots of the undecided candidates and plan again with what they showed."""
    from predictor.cli.tables import print_plan, print_runs
    from predictor.loop.stages import choose_pilots, launch_planned, plan_runs

    with opened(study) as session, session.study.locked():
        chosen = choose_pilots(session, session.config.law, steps)
        records = [launch_planned(session, run) for run in chosen]
        _, after = plan_runs(session, session.config.law)
        if as_json:
            show.print_json({"runs": [_json(r) for r in records], "budget": after.as_json()["budget"]})
        else:
            print_runs(records)
            print_plan(after)
        return DONE


def launch(study: Path, chosen: Chosen, *, as_json: bool) -> int:
    """Train what the plan chose (or what the user named) and record each run."""
    from predictor.cli.launching import launch_by_hand, launch_plan
    from predictor.cli.tables import print_runs

    if chosen.outside_budget and not chosen.by_hand:
        raise InputError("--outside-budget needs --hint or --all", fix="name the hint configs to train")
    with opened(study) as session, session.study.locked():
        records, ending = launch_by_hand(session, chosen) if chosen.by_hand else launch_plan(session)
        if as_json:
            show.print_json({"runs": [_json(record) for record in records], "budget": _budget(session)})
        else:
            print_runs(records)
        return _ended(records, ending)


def record(study: Path, run: str, *, as_json: bool) -> int:
    """Measure one finished run."""
    from predictor.cli.tables import print_runs
    from predictor.launch import read_run, record_run

    with opened(study) as session, session.study.locked():
        measured = record_run(session.probe, read_run(session.study, run), session.on_progress)
        if as_json:
            show.print_json(_json(measured))
        else:
            print_runs([measured])
        return DONE


def run(study: Path, *, as_json: bool) -> int:
    """The whole loop, its final table, and report.html."""
    from predictor.cli.tables import print_whole
    from predictor.loop.whole import run_whole
    from predictor.report import build_report

    with opened(study) as session:
        result = run_whole(session)
        page = build_report(session.study, session.study.path / "report.html")
        if as_json:
            show.print_json({"runs": [_json(record) for record in result.runs], "budget": _budget(session)})
        else:
            print_whole(result)
            show.say(f"report: {page}")
        ended = _ended(result.runs, result.ending)
        return ended if ended != DONE else _trust(session)


@contextmanager
def opened(study: Path) -> Iterator[Session]:
    """A session with progress on standard error; the engine says why it was chosen when it is first used."""
    with progress_bars() as on_progress:
        session = Session(study, on_progress)
        try:
            yield session
        finally:
            session.close()


def _print_probe(session: Session, gaps: Sequence[object], level: float) -> None:
    from predictor.cli.consensus import print_consensus
    from predictor.records import GapEstimate

    rows = [gap for gap in gaps if isinstance(gap, GapEstimate)]
    show.say(f"engine: {session.engine.reason}")
    show.say(
        f"student accuracy {show.signed(rows[0].student, level).lstrip('+')}, {rows[0].student.num_units} examples"
    )
    show.print_table(f"Gaps ({100 * level:.0f} % intervals)", show.GAP_COLUMNS, show.gap_rows(rows, level))
    print_consensus(rows, level)
    stopped = show.stopping_rows(rows)
    if stopped:
        show.print_table("Where the adaptive probe stopped", show.STOPPING_COLUMNS, stopped)
    for gap in rows:
        repeated = None if gap.estimands is None else gap.estimands.repeated_pooled
        if repeated is not None and repeated.value == 1.0:
            sys.stderr.write(f"{gap.hint}: all rollouts of every example are the same; is one seed used for all?\n")
    show.say("definition of a number: gapcast probe STUDY --explain NAME")


def _trust(session: Session) -> int:
    """3 when the student or a hint config is truncated or undecided above the study's limits."""
    limits = session.config.probe
    bad = [
        f"{gap.hint}: {100 * gap.truncated:.0f} % truncated, {100 * gap.undecided:.0f} % undecided"
        for gap in session.gaps
        if gap.truncated > limits.max_truncated or gap.undecided > limits.max_undecided
    ]
    for line in bad:
        sys.stderr.write(f"not to be trusted: {line}\n")
    return NOT_TRUSTED if bad else DONE


def doubts(guards: Sequence[LawGuard]) -> int:
    """3 when a guard doubts the result; every doubt is said on standard error."""
    found = [guard for guard in guards if guard.severity == "doubt"]
    for guard in found:
        sys.stderr.write(f"doubt ({guard.name}) {', '.join(guard.subjects)}: {guard.message}\n")
    return NOT_TRUSTED if found else DONE


def _ended(records: Sequence[RunRecord], ending: str) -> int:
    if ending == "budget":
        sys.stderr.write("stopped by the budget; everything finished is kept\n")
        return BudgetError.exit_code
    failed = [record for record in records if record.state == "failed"]
    for record in failed:
        sys.stderr.write(f"run {record.spec.key} ({record.spec.hint}) failed: {record.reason}\n")
    return 1 if failed else DONE


def _budget(session: Session) -> dict[str, float]:
    total = session.config.plan.budget.total_seconds
    return {"gpu_hours": total / 3600.0, "charged": session.charged / 3600.0}


def _json(record: RunRecord) -> dict[str, object]:
    return dict(show.nulls(record.model_dump(mode="json")))


def changed(law: LawConfig, changes: Mapping[str, object]) -> LawConfig:
    """The study's law settings with the options that were given."""
    return LawConfig.model_validate(law.model_dump() | {k: v for k, v in changes.items() if v is not None})
