"""How far to trust it: held-out errors, coverage of the intervals, the law's coefficients, and every doubt."""

from __future__ import annotations

from predictor.records import FamilyLaw, HeldOutErrors, LawFit, LawGuard
from predictor.records.law import Coefficient
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, Table, plain, table
from predictor.report.wording import count, number, signed, span

_ERRORS = ("forecasts", "runs", "MAE", "RMSE", "inside 50 %", "inside 80 %", "inside 95 %", "CRPS")
_LINES = ("family", "hint configs", "runs", "slope", "intercept", "residual SD", "R²")


def honesty_section(evidence: Evidence) -> Section:
    """Errors of held-out and of frozen forecasts, the law's line with its intervals, and the guards."""
    tables = [found for found in (_errors(evidence), _lines(evidence.law), _guards(evidence)) if found.rows]
    missing = []
    if evidence.law is None:
        missing.append("No law has been fitted on own runs yet: `gapcast fit` does it from the recorded runs.")
    elif evidence.law.leave_one_out is None:
        missing.append("There are too few hint configs with runs to leave one out.")
    if evidence.score.errors is None:
        missing.append("No frozen forecast has an outcome yet.")
    text = () if evidence.law is None else (_formula(evidence.law),)
    return Section("honesty", "How far to trust this", text=text, tables=tuple(tables), missing=tuple(missing))


def _formula(law: LawFit) -> str:
    spec = law.spec
    said = (
        f"Law: {spec.formula}, method `{spec.method}`, form `{spec.form}`, {count(len(law.points), 'point')} from "
        f"{count(law.num_runs, 'run')}."
    )
    return f"{said} {law.note}".strip()


def _errors(evidence: Evidence) -> Table:
    left_out = evidence.law.leave_one_out if evidence.law is not None else None
    # Frozen forecasts first: they were made before the outcome, held-out errors only as if.
    named = (("of this study, frozen before training", evidence.score.errors), ("leave one hint config out", left_out))
    rows = [_error_row(name, errors) for name, errors in named if errors is not None]
    notes = (
        "Errors in shares of 1. Inside: share of outcomes within the interval of that level; near the level is honest.",
        "CRPS: continuous ranked probability score, 0 is perfect.",
    )
    return table("Errors of forecasts for runs that the law had not seen", _ERRORS, rows, notes)


def _error_row(name: str, errors: HeldOutErrors) -> Row:
    covers = (errors.coverage50, errors.coverage80, errors.coverage95)
    return Row(
        (
            plain(name),
            Cell(str(errors.num_runs), count(errors.num_folds, "hint config")),
            Cell(number(errors.mae)),
            Cell(number(errors.rmse)),
            *(Cell(number(cover, 2)) for cover in covers),
            Cell(number(errors.crps)),
        )
    )


def _lines(law: LawFit | None) -> Table:
    families = () if law is None else law.families
    notes = ("R² says how well the line fits these points, not how well it forecasts new ones.",)
    return table("The law, with 95 % intervals", _LINES, [_line_row(family) for family in families], notes)


def _line_row(law: FamilyLaw) -> Row:
    return Row(
        (
            plain(law.family),
            Cell(str(law.num_configs)),
            Cell(str(law.num_runs)),
            _coefficient(law.slope),
            _coefficient(law.intercept),
            Cell(number(law.residual_sd)),
            Cell(number(law.r2, 2)),
        )
    )


def _coefficient(coefficient: Coefficient) -> Cell:
    return Cell(signed(coefficient.value), span(coefficient.interval()))


def _guards(evidence: Evidence) -> Table:
    """Guards of the law one by one; those of the forecasts by name, because the forecasts' table tells each."""
    found: dict[tuple[str, str, str], list[LawGuard]] = {}
    for _, item in evidence.shown_forecasts():
        for guard in item.guards:
            found.setdefault((guard.severity, "forecast", guard.name), []).append(guard)
    for guard in evidence.law.guards if evidence.law is not None else ():
        found.setdefault((guard.severity, "law", guard.message), []).append(guard)
    # `doubt` sorts before `note`, so what changes the exit code stands on top.
    rows = [_guard_row(severity, source, guards) for (severity, source, _), guards in sorted(found.items(), key=_first)]
    rows += _left_out(evidence.law)
    return table("Reasons to doubt, and records left out", ("kind", "said of", "name", "about", "in full"), rows)


def _first(item: tuple[tuple[str, str, str], list[LawGuard]]) -> str:
    return item[0][0]


def _guard_row(severity: str, source: str, guards: list[LawGuard]) -> Row:
    """One row for guards of one name: all their subjects, and the first of their different messages."""
    about = list(dict.fromkeys(subject for guard in guards for subject in guard.subjects))
    texts = list(dict.fromkeys(guard.message for guard in guards))
    more = f"; and {len(texts) - 1} more like it" if len(texts) > 1 else ""
    tone = "bad" if severity == "doubt" else ""
    cells = (plain(severity, tone=tone), plain(source), plain(guards[0].name), plain(", ".join(about)))
    return Row((*cells, plain(texts[0] + more)))


def _left_out(law: LawFit | None) -> list[Row]:
    entries = () if law is None else law.left_out
    return [
        Row((plain("left out"), plain("law"), plain("run"), plain(f"{e.hint} ({e.key})"), plain(e.reason)))
        for e in entries
    ]
