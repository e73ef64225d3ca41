"""What came out: every run beside the forecast that was frozen before it."""

from __future__ import annotations

from predictor.records import RunRecord
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, plain, table
from predictor.report.wording import difference_cell, seconds, share_cell, signed, span

_COLUMNS = (
    "hint config",
    "seed",
    "kind",
    "state",
    "before",
    "after",
    "improvement",
    "forecast, 80 % interval",
    "inside?",
    "cost",
    "remarks",
)
_NOTES = (
    "Before and after: accuracy without the hint on the same held-out examples, measured by the probe's instrument; "
    "after is the final step, never the best one.",
    "Below each measured number its 95 % interval. Cost: device time of training and of measuring the result.",
)


def runs_section(evidence: Evidence) -> Section:
    """One row for each run in any state; a run without a valid forecast says why it is not scored."""
    if not evidence.runs:
        missing = "No run has been recorded yet: `gapcast launch` trains the planned runs and records each."
        return Section("runs", "Runs", missing=(missing,))
    rows = [_row(evidence, run) for run in evidence.runs]
    text = _score(evidence)
    return Section("runs", "Runs", text=text, tables=(table("All runs", _COLUMNS, rows, _NOTES),))


def _score(evidence: Evidence) -> tuple[str, ...]:
    scored = evidence.score.scored
    if not scored:
        return ("No run could be compared with a forecast frozen before it.",)
    # Counted over full runs and pilots alike: both were forecast before they ran.
    inside = sum(row.inside80 for row in scored)
    return (f"{inside} of {len(scored)} outcomes lie inside the 80 % interval of their frozen forecast.",)


def _row(evidence: Evidence, run: RunRecord) -> Row:
    said = evidence.scored(run)
    return Row(
        (
            plain(run.spec.hint),
            Cell(str(run.spec.seed)),
            Cell(run.spec.fidelity, f"{run.spec.num_steps} steps"),
            Cell(run.state, tone="bad" if run.state == "failed" else ""),
            share_cell(run.before, 0.95),
            share_cell(run.after, 0.95),
            difference_cell(run.improvement, 0.95),
            Cell("–", tone="muted") if said is None else Cell(signed(said.forecast), span(said.interval80)),
            _inside(said.inside80 if said is not None else None),
            Cell("–", tone="muted") if run.cost is None else Cell(seconds(3600.0 * run.cost.gpu_hours)),
            plain("; ".join(_remarks(evidence, run)) or "–"),
        )
    )


def _inside(inside: bool | None) -> Cell:  # noqa: FBT001
    if inside is None:
        return Cell("–", tone="muted")
    return Cell("yes", tone="good") if inside else Cell("no", tone="bad")


def _remarks(evidence: Evidence, run: RunRecord) -> list[str]:
    """Why it ended, where it came from, what is to be doubted, and why it has no forecast beside it."""
    limits = evidence.config.probe
    # Why a run is not scored is said only for finished ones; the others say why they ended.
    refused = [row.reason for row in evidence.score.refused if row.key == run.spec.key]
    return [
        *([run.reason] if run.reason else []),
        *([f"imported from {run.source}"] if run.source != "gapcast" else []),
        *(["the best checkpoint, not the final step"] if run.checkpoint_rule == "best" else []),
        *(["many truncated answers"] if run.truncated > limits.max_truncated else []),
        *(["many undecided answers"] if run.undecided > limits.max_undecided else []),
        *([f"not scored: {refused[0]}"] if refused and run.state == "finished" else []),
    ]
