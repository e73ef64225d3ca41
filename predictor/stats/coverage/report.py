"""The two pages that say how far the probe's intervals and its adaptive design can be believed."""

from __future__ import annotations

from collections.abc import Sequence

from predictor.records import Provenance
from predictor.stats.coverage.designs import CONTROLS, MINIATURE_GAPS, STUDENT, DesignComparison
from predictor.stats.coverage.intervals import LEVEL, ROLLOUTS, CellCoverage
from predictor.stats.stopping import StoppingRule

LOWEST, HIGHEST = 0.93, 0.97


def interval_page(found: Sequence[CellCoverage], provenance: Provenance, command: str) -> str:
    """Coverage of every cell, and a sentence that says honestly where it misses."""
    shares = [share for cell in found for share in (cell.accuracy, cell.gap)]
    inside = sum(LOWEST <= share <= HIGHEST for share in shares)
    lines = [
        "# Coverage of the probe's intervals",
        "",
        _origin(provenance, command),
        "",
        f"Planted studies, {ROLLOUTS} rollouts an example; examples alone (cluster 1) or in clusters of five that "
        f"share half of their difficulty; nominal {LEVEL:.0%}. The intervals are the ones the probe prints: Wilson "
        "with a moderated effective number of units for an accuracy, the square-and-add combination of the two "
        "sides' Jeffreys intervals (MOVER-J) for a gap, both with the degrees of freedom that the kurtosis of the "
        "units leaves.",
        "",
        f"**{inside} of {len(shares)} coverages lie between {LOWEST:.0%} and {HIGHEST:.0%}; "
        f"{sum(share > HIGHEST for share in shares)} above, {sum(share < LOWEST for share in shares)} below"
        f" (simulation error about {100 * (LEVEL * (1 - LEVEL) / found[0].draws) ** 0.5:.1f} points); "
        f"mean {sum(shares) / len(shares):.1%}, lowest {min(shares):.1%}.** " + _where(found),
        "",
        "| examples | cluster | student | gap | coverage, accuracy | coverage, gap | mean width, gap |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {c.cell.num_examples} | {c.cell.cluster_size} | {c.cell.student:g} | {c.cell.gap:g} | "
        f"{_marked(c.accuracy)} | {_marked(c.gap)} | {c.gap_width:.3f} |"
        for c in found
    ]
    return "\n".join(lines) + "\n"


def design_page(
    found: Sequence[tuple[StoppingRule, int, DesignComparison]], provenance: Provenance, command: str
) -> str:
    """The adaptive design beside the fixed one of the same final precision."""
    lines = [
        "# Adaptive probing against a fixed design",
        "",
        _origin(provenance, command),
        "",
        f"Each planted study draws 8 of the {len(MINIATURE_GAPS)} raw gaps that the miniature's prototype measured "
        f"(-.12 to +.85, four of them within .07 of zero), at a student accuracy of {STUDENT:g}; every hint config has "
        f"{CONTROLS} controls that stop with it and get no more rollouts in the last stage. "
        "Both designs pay for the student on every example with all rollouts. "
        "The fixed design answers everything and decides by its interval at the stated level.",
        "",
        "| examples | first rollouts | rollouts | threshold | level | rollouts paid | same decision | left open | "
        "opposite | wrong, fixed | wrong, adaptive | coverage, fixed | coverage at stopping | sequence at every look | "
        "stopped early |",
        "|" + "---|" * 15,
    ]
    for rule, examples, c in found:
        lines.append(
            f"| {examples} | {rule.first_rollouts} | {rule.rollouts} | {rule.threshold:g} | {rule.level:g} "
            f"| **{c.rollouts_share:.0%}** | {c.agree:.1%} | {c.adaptive_open:.1%} | {c.opposite:.1%} "
            f"| {c.fixed_wrong:.1%} | {c.adaptive_wrong:.1%} | {c.fixed_coverage:.1%} | {c.adaptive_coverage:.1%} "
            f"| {c.sequence_coverage:.1%} | {c.stopped_early:.0%} |"
        )
    lines += [
        "",
        f"{found[0][2].studies} studies a row. `same decision`: of the hint configs that the fixed design decided. "
        "`left open`: decided by the fixed design at its level, but not by the final look, whose level is higher "
        "because half of the error was spent on the way.",
    ]
    return "\n".join(lines) + "\n"


def _origin(provenance: Provenance, command: str) -> str:
    dirty = ", uncommitted changes" if provenance.git_dirty else ""
    return f"Commit {provenance.git_commit}{dirty}; {provenance.time_utc[:10]}; made by `{command}`."


def _marked(share: float) -> str:
    return f"{share:.3f}" if LOWEST <= share <= HIGHEST else f"**{share:.3f}**"


def _where(found: Sequence[CellCoverage]) -> str:
    """Which rows miss, from below and from above."""
    low = [cell for cell in found if min(cell.accuracy, cell.gap) < LOWEST]
    high = [cell for cell in found if max(cell.accuracy, cell.gap) > HIGHEST]
    chosen = (
        "The constants of the intervals were chosen on these very cells; notebooks/LOG.md has what they do on others."
    )
    if not low and not high:
        return f"None misses. {chosen}"
    return f"Rows with a miss from below: {len(low)}; from above: {len(high)}. {chosen}"
