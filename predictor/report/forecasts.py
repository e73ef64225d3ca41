"""The forecast comes first: what the law said about each hint config, and whether it was said before training."""

from __future__ import annotations

import math
from datetime import datetime

from predictor.records import Forecast, FrozenForecast, RunRecord
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, plain, table
from predictor.report.wording import listing, moment, number, seconds, signed, span

_COLUMNS = (
    "hint config",
    "forecast improvement, 80 % interval",
    "95 % interval",
    "P(pays)",
    "from",
    "frozen",
    "training began",
    "outcome",
    "doubts",
)


def forecast_section(evidence: Evidence) -> Section:
    """One row for each hint config with a frozen forecast; a forecast that was changed or came too late says so."""
    shown = evidence.shown_forecasts()
    if not shown:
        missing = "No forecast has been frozen yet: `gapcast forecast` applies the law to the measured gaps."
        return Section("forecast", "Forecast", missing=(missing,))
    rows = [_row(evidence, frozen, item) for frozen, item in shown]
    threshold = shown[0][1].threshold
    notes = (
        "Improvement: accuracy without the hint after training minus before, on held-out examples, as a share of 1. "
        "The intervals are for the measured improvement of one new run.",
        f"P(pays): probability of an improvement of at least {threshold:.3f}.",
        "From: the gap that the law was applied to.",
    )
    return Section(
        "forecast",
        "Forecast",
        text=_stamps(evidence),
        tables=(table("Forecasts of full runs", _COLUMNS, rows, notes),),
    )


def _stamps(evidence: Evidence) -> tuple[str, ...]:
    """When forecasts were frozen, and whether each was older than its runs."""
    frozen = evidence.frozen
    dates = moment(frozen[0].frozen_at) + (f" to {moment(frozen[-1].frozen_at)}" if len(frozen) > 1 else "")
    # An edited forecast is named in capitals: it is the one thing here that must not be overlooked.
    spoilt = [entry.frozen_hash[:12] for entry in frozen if not entry.is_intact]
    intact = "every hash matches its content" if not spoilt else f"CHANGED after the freeze: {listing(spoilt)}"
    times = "once" if len(frozen) == 1 else f"{len(frozen)} times"
    # Said once above the table; in every row it would bury the doubts that differ.
    prior = [item for _, item in evidence.shown_forecasts() if item.num_own_runs == 0]
    alone = f"{len(prior)} of the forecasts below rest on the published prior alone." if prior else ""
    return (
        f"Forecast {times} ({dates}); {intact}. "
        "A run is compared only with an unchanged forecast that was frozen before its training began. " + alone,
    )


def _row(evidence: Evidence, frozen: FrozenForecast, item: Forecast) -> Row:
    improvement = item.improvement
    runs = evidence.runs_of(item.hint)
    return Row(
        (
            plain(item.hint),
            Cell(signed(improvement.value), span(improvement.interval80)),
            Cell(span(improvement.interval95)),
            Cell(number(item.p_pays, 2)),
            Cell(signed(item.predictor_value.value), item.predictor.replace("_", " ")),
            Cell(frozen.frozen_at[:16].replace("T", " "), f"hash {frozen.frozen_hash[:12]}"),
            _began(evidence, frozen, runs),
            _outcomes(runs),
            plain("; ".join(guard.message for guard in item.guards if guard.name != "prior_only") or "–"),
        )
    )


def _began(evidence: Evidence, frozen: FrozenForecast, runs: list[RunRecord]) -> Cell:
    """The earliest start of training with the stamp `before` or `too late`."""
    # ISO 8601 in UTC sorts by time; imported runs have no start and are passed over.
    started = sorted(run.started_at for run in runs if run.started_at)
    if not started:
        return Cell("–", "not trained", tone="muted")
    lead = (datetime.fromisoformat(started[0]) - datetime.fromisoformat(frozen.frozen_at)).total_seconds()
    began = started[0][:16].replace("T", " ")
    # Scoring has checked hash and times already; the stamp repeats its verdict and makes none of its own.
    if any(evidence.scored(run) is not None for run in runs):
        return Cell(began, f"forecast {seconds(lead)} before", tone="good")
    why = "forecast too late, not scored" if lead <= 0.0 else "not scored"
    return Cell(began, why, tone="bad")


def _outcomes(runs: list[RunRecord]) -> Cell:
    values = [run.improvement.value for run in runs if run.improvement is not None]
    if not values:
        return Cell("–", tone="muted")
    detail = f"{len(values)} seeds" if len(values) > 1 else "1 run"
    return Cell(signed(math.fsum(values) / len(values)), detail)
