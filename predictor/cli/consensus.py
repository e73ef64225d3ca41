"""The consensus gap by its estimators, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from predictor.cli.show import print_table, say, signed
from predictor.records import GapEstimate

_CONTENT = ("decoded", "reweighted", "difference", "effective", "covered", "se hints", "engines apart, p99")
CONSENSUS_COLUMNS = ("hint config", *_CONTENT)


def print_consensus(gaps: Sequence[GapEstimate], level: float) -> None:
    """One row for each reweighted hint config, and a line for every refusal; nothing when nothing was reweighted."""
    rows, refused = consensus_rows(gaps, level)
    if rows:
        print_table("Consensus gap: decoded from the mean policy, and from stored rollouts", CONSENSUS_COLUMNS, rows)
    for line in refused:
        say(line)


def consensus_rows(gaps: Sequence[GapEstimate], level: float) -> tuple[list[list[str]], list[str]]:
    """Table rows, and a sentence for each estimate that was refused."""
    rows, refused = [], []
    for gap in gaps:
        detail = gap.consensus_detail
        if detail is None or detail.reweighted is None:
            continue
        found = detail.reweighted
        decoded = gap.consensus_gap if detail.estimator == "ensemble" else None
        apart = "–" if decoded is None or found.gap is None else f"{found.gap.value - decoded.value:+.3f}"
        effective = f"{found.effective_rollouts:.0f} of {found.num_rollouts}"
        row = [gap.hint, signed(decoded, level), signed(found.gap, level), apart, effective]
        engines = f"{found.engine_difference:.4f}, {found.engine_difference_p99:.4f}"
        rows.append([*row, f"{found.covered.value:.2f}", f"{found.stderr_hints:.3f}", engines])
        if found.refused:
            refused.append(f"{gap.hint}: not reweighted, {found.refused}")
    return rows, refused
