"""Tables for people, JSON for programs; hostile text is printed as text, never as markup or control codes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from predictor.errors import printable
from predictor.records import Estimate, GapEstimate

_PLAIN_WIDTH = 170
"""Columns of a table that is not written to a terminal."""


def print_json(value: Any) -> None:
    """One JSON document on standard output; NaN never appears (unknown numbers are null)."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output; the first column is left-aligned, numbers are right-aligned."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        wraps = column in ("reason", "launched?")
        justify: Literal["left", "right"] = "left" if i == 0 or wraps else "right"
        table.add_column(column, justify=justify, no_wrap=not wraps, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    console.print(table)


def signed(estimate: Estimate | None, level: float = 0.95) -> str:
    """A difference with its interval: `+0.310 [+.27 +.35]`; a dash where it was not measured."""
    if estimate is None:
        return "–"
    low, high = estimate.interval(level)
    return f"{estimate.value:+.3f} [{brief(low)} {brief(high)}]"


def brief(value: float) -> str:
    """A signed share in few characters: `+.27`."""
    return f"{value:+.2f}".replace("+0.", "+.").replace("-0.", "-.")


def share(estimate: Estimate | None) -> str:
    """An accuracy: `.148`."""
    return "–" if estimate is None else f"{estimate.value:.3f}"


def gap_rows(gaps: Sequence[GapEstimate], level: float) -> list[list[str]]:
    """Rows of the probe's table: hint configs with their controls below them."""
    return [
        [
            f"  {gap.hint.removeprefix(f'{gap.control_of}/')}" if gap.is_control else gap.hint,
            gap.kind if not gap.is_control else "control",
            share(gap.teacher),
            signed(gap.gap, level),
            signed(gap.net_gap, level),
            signed(gap.transferable_gap, level),
            signed(gap.consensus_gap, level),
            f"{100 * gap.truncated:.0f} %",
            f"{100 * gap.undecided:.0f} %",
        ]
        for gap in gaps
    ]


def stopping_rows(gaps: Sequence[GapEstimate]) -> list[list[str]]:
    """Rows of an adaptive probe's second table; empty for a fixed design."""
    return [
        [
            gap.hint,
            {"above": "above", "below": "below", "open": "not decided"}[stop.decided] + f" {stop.threshold:g}",
            f"{stop.examples} x {stop.rollouts}",
            str(stop.looks),
            f"[{brief(stop.low)} {brief(stop.high)}]",
            f"{100 * stop.level:g} %",
        ]
        for gap in gaps
        if (stop := gap.stopping) is not None and not gap.is_control
    ]


STOPPING_COLUMNS = ("hint config", "decided", "examples x rollouts", "looks", "interval valid at every look", "level")
GAP_COLUMNS = ("hint config", "kind", "teacher", "gap", "net", "transferable", "consensus", "trunc.", "undec.")


def say(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(printable(text) + "\n")


def nulls(value: Any) -> Any:
    """The JSON value with numbers that are not finite as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: nulls(item) for key, item in value.items()}
    return [nulls(item) for item in value] if isinstance(value, list | tuple) else value
