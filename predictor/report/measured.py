"""What the probe measured: every hint config with its controls."""

from __future__ import annotations

from predictor.config import ProbeConfig
from predictor.records import GapEstimate
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, plain, table
from predictor.report.wording import count, difference_cell, level_text, number, percent, share_cell, span

_COLUMNS = (
    "hint config",
    "kind",
    "teacher",
    "gap",
    "net gap",
    "transferable gap",
    "consensus gap",
    "truncated",
    "undecided",
    "coverage",
    "copy rate",
    "recovery",
    "harm",
    "rollouts",
)
_NOTES = (
    "Gap: accuracy with the hint minus the student's, paired over held-out examples; below it its interval.",
    "Net gap: gap minus that of a bare resample. Transferable gap: accuracy under another example's hint minus the "
    "student's.",
    "Consensus gap: accuracy of the mean of the teachers' distributions over other examples' hints, minus the "
    "student's: what a student without hints can keep.",
    "Truncated: share of rollouts cut at the token limit. Undecided: share that the checker could not judge. Coverage: "
    "share of rollouts whose hint could be built. Copy rate: share of answers that stand word for word in the hint.",
    "Recovery: right with the hint where the student was wrong. Harm: wrong with the hint where it was right.",
    "Rows set back are controls of the hint config above them.",
)


def gaps_section(evidence: Evidence) -> Section:
    """One row for each hint config and control; says which warning limits are passed."""
    if not evidence.gaps:
        missing = "No gap has been measured yet: `gapcast probe` measures every hint config and its controls."
        return Section("gaps", "Hint configs", missing=(missing,))
    level = evidence.config.probe.confidence
    rows = [_row(gap, level, evidence.config.probe) for gap in evidence.gaps]
    caption = f"Measured gaps with {level_text(level)} intervals, as shares of 1"
    return Section("gaps", "Hint configs", text=_student(evidence), tables=(table(caption, _COLUMNS, rows, _NOTES),))


def _student(evidence: Evidence) -> tuple[str, ...]:
    """The student's accuracy; a warning where hint configs have different baselines."""
    first = evidence.gaps[0]
    level = evidence.config.probe.confidence
    interval = span(first.student.interval(level), sign=False)
    said = (
        f"Without a hint the model is right in {number(first.student.value)} of rollouts "
        f"({level_text(level)} interval {interval}, {count(first.student.num_units, 'example')})."
    )
    # A baseline measured anew for each hint config puts the same error into gap and improvement.
    if len({gap.baseline_id for gap in evidence.gaps}) == 1:
        return (said + " All gaps share this one measurement.",)
    return (said, "Not all gaps share one measurement of the student: their differences are noisier than they look.")


def _row(gap: GapEstimate, level: float, limits: ProbeConfig) -> Row:
    # A control inherits its hint config's kind, which would read as if it were one.
    kind = "control" if gap.is_control else gap.kind
    return Row(
        (
            plain(gap.hint),
            plain(kind),
            share_cell(gap.teacher, level),
            difference_cell(gap.gap, level),
            difference_cell(gap.net_gap, level),
            difference_cell(gap.transferable_gap, level),
            difference_cell(gap.consensus_gap, level),
            _limited(gap.truncated, limits.max_truncated),
            _limited(gap.undecided, limits.max_undecided),
            Cell(percent(gap.coverage)),
            share_cell(gap.copy_rate, level),
            share_cell(gap.recovery, level),
            share_cell(gap.harm, level),
            Cell(f"{gap.num_rollouts:,}"),
        ),
        is_control=gap.is_control,
    )


def _limited(value: float, limit: float) -> Cell:
    """A share; said to be too high where it passes the study's limit."""
    return Cell(percent(value), "above the limit", tone="bad") if value > limit else Cell(percent(value))
