"""The ledger: what was spent on what, under which cap, and what training everything would have cost."""

from __future__ import annotations

import math

from predictor.records import LedgerEntry
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, Table, plain, table
from predictor.report.wording import count, percent, seconds

_KINDS: dict[str, str] = {
    "probe": "probing gaps and controls",
    "calibration": "measuring the cost of a training step",
    "pilot": "training pilots",
    "train": "training full runs",
    "record": "measuring finished runs",
}


def costs_section(evidence: Evidence) -> Section:
    """Device time by kind, charged against the budget, and beside the cost of training every hint config."""
    if not evidence.ledger:
        missing = "Nothing has been charged yet: the ledger starts with the first probe."
        return Section("costs", "Cost", missing=(missing,))
    return Section("costs", "Cost", tables=(_ledger(evidence), _comparison(evidence)))


def _ledger(evidence: Evidence) -> Table:
    by_kind: dict[str, list[LedgerEntry]] = {kind: [] for kind in _KINDS}
    for entry in evidence.ledger:
        by_kind[entry.kind].append(entry)
    rows = [_spent(_KINDS[kind], entries, evidence.charged) for kind, entries in by_kind.items() if entries]
    # The last row is the sum of all lines, not of the rounded rows above it.
    rows.append(_spent("all together", list(evidence.ledger), evidence.charged))
    return table("Charged to the budget", ("work", "device time", "share"), rows)


def _spent(name: str, entries: list[LedgerEntry], total: float) -> Row:
    spent = math.fsum(entry.seconds for entry in entries)
    share = percent(spent / total) if total > 0.0 else "–"
    return Row((plain(name), Cell(seconds(spent)), Cell(share)))


def _comparison(evidence: Evidence) -> Table:
    """Budget, end-to-end cost, cost of the launched runs alone, and the price of training everything."""
    budget = evidence.config.plan.budget.total_seconds
    # A pilot's recording is charged like a full run's; its key alone tells them apart.
    pilots = {run.spec.key for run in evidence.runs if run.spec.fidelity == "pilot"}
    full = [e for e in evidence.ledger if e.kind in ("train", "record") and e.key not in pilots]
    launched = math.fsum(entry.seconds for entry in full)
    everything, how = train_all_seconds(evidence)
    rows = [
        Row((plain("budget"), Cell(seconds(budget)), plain("hard cap on everything that is charged"))),
        Row((plain("spent, end to end"), Cell(seconds(evidence.charged)), plain(_of(evidence.charged, budget)))),
        Row(
            (plain("spent on full runs alone"), Cell(seconds(launched)), plain("given that the others were ruled out"))
        ),
        Row((plain("training everything"), Cell(seconds(everything)), plain(how))),
    ]
    if math.isfinite(everything) and everything > 0.0:
        share = percent(evidence.charged / everything)
        rows.append(Row((plain("spent instead"), Cell(share), plain("of what training everything would cost"))))
    return table("Beside the budget, and beside training everything", ("amount", "device time", "what it is"), rows)


def train_all_seconds(evidence: Evidence) -> tuple[float, str]:
    """Device-seconds of every hint config (but `none`) with every seed, and how that is known; NaN when it is not.

    A measured mean over finished full runs is preferred to the plan's costs, which hold a safety margin.
    """
    hints = [hint.name for hint in evidence.config.hints if hint.kind != "none"]
    seeds = len(evidence.config.training.seeds)
    shape = f"{count(len(hints), 'hint config')} × {count(seeds, 'seed')}"
    # An imported run was paid for elsewhere, on other hardware.
    own = [run for run in evidence.finished if run.source == "gapcast"]
    measured = [3600.0 * run.cost.gpu_hours for run in own if run.cost is not None]
    if measured:
        mean = math.fsum(measured) / len(measured)
        return mean * len(hints) * seeds, f"{shape} at {seconds(mean)} each, the mean of {count(len(measured), 'run')}"
    rows = {row.hint: 3600.0 * row.cost_gpu_hours for row in evidence.plan.rows} if evidence.plan is not None else {}
    if hints and all(hint in rows for hint in hints):
        return math.fsum(rows[hint] for hint in hints) * seeds, f"{shape} at the plan's cost, safety margin included"
    return math.nan, f"{shape}; the cost of a run is not known yet"


def _of(spent: float, budget: float) -> str:
    return f"{percent(spent / budget)} of the budget, {seconds(max(0.0, budget - spent))} left"
