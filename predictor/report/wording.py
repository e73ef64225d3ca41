"""Numbers as the page writes them: shares of 1 with three decimals, intervals beside them, unknown ones as words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from predictor.records import Estimate
from predictor.report.page import Cell

UNKNOWN = "unknown"
NOT_MEASURED = Cell("–", "not measured", tone="muted")


def number(value: float, digits: int = 3) -> str:
    """`0.150`, or `unknown` for NaN."""
    return f"{value:.{digits}f}" if math.isfinite(value) else UNKNOWN


def signed(value: float) -> str:
    """`+0.312`, or `unknown` for NaN."""
    return f"{value:+.3f}" if math.isfinite(value) else UNKNOWN


def span(interval: tuple[float, float], *, sign: bool = True) -> str:
    """`+0.271 to +0.353`, or `no interval` when an end is unknown."""
    low, high = interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return f"{low:+.3f} to {high:+.3f}" if sign else f"{low:.3f} to {high:.3f}"


def percent(value: float) -> str:
    """`1.7 %`, or `unknown` for NaN."""
    return f"{100.0 * value:.1f} %" if math.isfinite(value) else UNKNOWN


def level_text(level: float) -> str:
    """`95 %`."""
    return f"{100.0 * level:g} %"


def moment(time_utc: str) -> str:
    """`2026-03-01 10:05:00 UTC`, from ISO 8601."""
    return f"{time_utc[:19].replace('T', ' ')} UTC" if time_utc else ""


def seconds(value: float) -> str:
    """Device time: seconds up to two minutes, minutes up to two hours, then hours."""
    if not math.isfinite(value):
        return UNKNOWN
    if value < 120.0:
        return f"{value:.1f} s"
    return f"{value / 60.0:.1f} min" if value < 7200.0 else f"{value / 3600.0:.2f} h"


def difference_cell(estimate: Estimate | None, level: float) -> Cell:
    """A difference of accuracies above its interval; a dash where it was not measured."""
    if estimate is None:
        return NOT_MEASURED
    return Cell(signed(estimate.value), span(estimate.interval(level)))


def share_cell(estimate: Estimate | None, level: float) -> Cell:
    """An accuracy above its interval; a dash where it was not measured."""
    if estimate is None:
        return NOT_MEASURED
    return Cell(number(estimate.value), span(estimate.interval(level), sign=False))


def count(amount: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def listing(names: Sequence[str], limit: int = 5) -> str:
    """Names in backticks, the first `limit` of them."""
    # Longer lists belong into a table, not into a sentence.
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
