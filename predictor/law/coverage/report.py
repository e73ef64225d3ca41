"""The simulated coverage as Markdown and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from predictor.law.coverage.simulate import NEW_RUNS, RUN_SD, Coverage, SlopeCoverage
from predictor.records import Provenance

AIM80 = (0.76, 0.84)
AIM95 = (0.92, 0.98)


def coverage_report(
    results: Sequence[Coverage], slopes: Sequence[SlopeCoverage], *, draws: int, provenance: Provenance
) -> str:
    """The tables in Markdown, with one sentence on every method that leaves its aim."""
    dirty = ", with uncommitted changes" if provenance.git_dirty else ""
    lines = [
        "# Coverage of the law's intervals in simulation",
        "",
        f"Commit {provenance.git_commit}{dirty}; {provenance.time_utc[:10]}; made by `python -m predictor.law.coverage "
        f"--draws {draws}`.",
        "",
        f"{draws} simulated laws for each row; {NEW_RUNS} new runs are forecast from each. Families'",
        "slopes differ as much as the published ones, runs stray by "
        f"{RUN_SD} from their family's line, and gap and improvement",
        "are measured with the noise of the row. Aim: 80 % intervals hold 0.76 to 0.84 of new runs, 95 % intervals",
        "0.92 to 0.98. `ols` and `bayes` with `prior: none` are the same numbers (a test holds them together to 1e-6).",
        "`pooled ols` is what the package refuses: one line through families whose slopes differ.",
        "",
        "## What it shows",
        "",
        *(f"- {sentence}" for sentence in _verdicts(results)),
        "- `bayes` with the published prior expects a spread of 0.05 around the line where the simulation has "
        f"{RUN_SD}: with few",
        "  hint configs its intervals are wider than they must be and hold more than they say; at n = 3 they are still",
        "  narrower than those of `ols`, by the factor that the half-widths below show.",
        "- `pooled ols` keeps its level on average over families only: one family's runs lie off the common line",
        "  together, and its intervals are wider than those of the families' own lines.",
        "",
        "## New runs",
        "",
        "| configs | gap SD | probe SE | baseline | families | method | 80 % | 95 % | half-width 80 % | forecasts |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_coverage_row(result) for result in results),
        "",
        "## Slopes when the truth is 0 and the baseline is measured anew for each hint config",
        "",
        "`ols` answers what an equally noisy gap predicts, so its slope is not 0 here; `york` takes shared noise out.",
        "",
        "| configs | gap SD | probe SE | method | 95 % interval holds 0 | median slope | no fit |",
        "|---|---|---|---|---|---|---|",
        *(_slope_row(result) for result in slopes),
        "",
    ]
    return "\n".join(lines)


def csv_rows(results: Sequence[Coverage], slopes: Sequence[SlopeCoverage]) -> Iterator[dict[str, str]]:
    """One flat row for each result; `table` says which of the two tables it belongs to."""
    for result in results:
        row = asdict(result)
        yield {"table": "new_run"} | {name: str(value) for name, value in (row.pop("cell") | row).items()}
    for slope in slopes:
        row = asdict(slope)
        yield {"table": "slope"} | {name: str(value) for name, value in (row.pop("cell") | row).items()}


def _verdicts(results: Sequence[Coverage]) -> list[str]:
    sentences = []
    for method in dict.fromkeys(result.method for result in results):
        mine = [result for result in results if result.method == method]
        low80, high80 = min(r.coverage80 for r in mine), max(r.coverage80 for r in mine)
        low95, high95 = min(r.coverage95 for r in mine), max(r.coverage95 for r in mine)
        outside = sum(not _meets_aim(r) for r in mine)
        sentences.append(
            f"`{method}`: 80 % intervals cover {low80:.3f} to {high80:.3f}, 95 % intervals {low95:.3f} to "
            f"{high95:.3f}; {outside} of {len(mine)} rows leave the aim."
        )
    return sentences


def _meets_aim(result: Coverage) -> bool:
    return AIM80[0] <= result.coverage80 <= AIM80[1] and AIM95[0] <= result.coverage95 <= AIM95[1]


def _coverage_row(result: Coverage) -> str:
    cell = result.cell
    values = (
        str(cell.num_configs),
        f"{cell.gap_sd}",
        f"{cell.probe_stderr}",
        "anew" if cell.remeasured else "shared",
        str(cell.num_families),
        result.method,
        f"{result.coverage80:.3f}",
        f"{result.coverage95:.3f}",
        f"{result.half_width80:.3f}",
        str(result.num_forecasts),
    )
    return "| " + " | ".join(values) + " |"


def _slope_row(result: SlopeCoverage) -> str:
    cell = result.cell
    return (
        f"| {cell.num_configs} | {cell.gap_sd} | {cell.probe_stderr} | {result.method} "
        f"| {result.coverage95:.3f} | {result.median_slope:+.3f} | {result.failed:.2f} |"
    )
