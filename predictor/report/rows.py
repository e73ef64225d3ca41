"""The plain tables that the page carries inside itself, in the columns that `gapcast import` reads."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Mapping, Sequence

from predictor.records import Estimate, GapEstimate, RunRecord
from predictor.report.page import Download

LAW_COLUMNS = (
    "family",
    "model",
    "task",
    "hint",
    "kind",
    "gap",
    "gap_stderr",
    "consensus_gap",
    "consensus_gap_stderr",
    "num_units",
    "before",
    "before_stderr",
    "after",
    "after_stderr",
    "improvement",
    "improvement_stderr",
    "improvement_units",
    "seed",
    "num_steps",
    "preset",
    "baseline_id",
    "checkpoint_rule",
    "decoding",
)
"""One run of the law in one row; differences are shares of 1."""


def downloads(gaps: Sequence[GapEstimate], runs: Sequence[RunRecord]) -> tuple[Download, ...]:
    """`gaps.csv` and `runs.csv` as data URIs, each only when there is something in it."""
    # Only finished full runs: a table for fitting must not hold rows that no law can use.
    files = (("gaps.csv", [gap_row(gap) for gap in gaps]), ("runs.csv", [law_row(run) for run in finished(runs)]))
    return tuple(Download(name, data_uri("text/csv", csv_text(rows).encode())) for name, rows in files if rows)


def finished(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Finished full runs with an improvement: those a law can be fitted on."""
    full = [run for run in runs if run.spec.fidelity == "full" and run.state == "finished"]
    return [run for run in full if run.improvement is not None]


def law_row(run: RunRecord) -> dict[str, str]:
    """One finished run in LAW_COLUMNS."""
    gap, spec = run.gap, run.spec
    return {
        "family": spec.family,
        "model": spec.model,
        "task": spec.task,
        "hint": spec.hint,
        "kind": gap.kind if gap is not None else "",
        **_columns("gap", gap.gap if gap is not None else None),
        **_columns("consensus_gap", gap.consensus_gap if gap is not None else None),
        "num_units": str(gap.gap.num_units) if gap is not None else "",
        **_columns("before", run.before),
        **_columns("after", run.after),
        **_columns("improvement", run.improvement),
        "improvement_units": str(run.improvement.num_units) if run.improvement is not None else "",
        "seed": str(spec.seed),
        "num_steps": str(spec.num_steps),
        "preset": spec.preset,
        "baseline_id": run.baseline_id,
        "checkpoint_rule": run.checkpoint_rule,
        "decoding": run.decoding,
    }


def gap_row(gap: GapEstimate) -> dict[str, str]:
    """One hint config or control with all its measured numbers."""
    names = (
        "student",
        "teacher",
        "gap",
        "net_gap",
        "transferable_gap",
        "consensus_gap",
        "recovery",
        "harm",
        "copy_rate",
    )
    return {
        "hint": gap.hint,
        "kind": gap.kind,
        "control_of": gap.control_of or "",
        **{column: text for name in names for column, text in _columns(name, getattr(gap, name)).items()},
        "num_units": str(gap.gap.num_units),
        "num_rollouts": str(gap.num_rollouts),
        "coverage": repr(gap.coverage),
        "truncated": repr(gap.truncated),
        "undecided": repr(gap.undecided),
        "baseline_id": gap.baseline_id,
        "decoding": gap.decoding,
    }


def csv_text(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows as CSV with a header line."""
    # One line ending on every platform, so that equal studies give equal pages.
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def data_uri(media_type: str, content: bytes) -> str:
    """The content as a data URI in base 64."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def _columns(name: str, estimate: Estimate | None) -> dict[str, str]:
    """Value and standard error; empty where not measured, and `unknown` for a standard error that nobody knows."""
    if estimate is None or not math.isfinite(estimate.value):
        return {name: "", f"{name}_stderr": ""}
    # The word that an import accepts as a declaration; an empty field would be refused there.
    known = math.isfinite(estimate.stderr)
    return {name: repr(estimate.value), f"{name}_stderr": repr(estimate.stderr) if known else "unknown"}
