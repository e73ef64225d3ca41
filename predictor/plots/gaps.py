"""Every hint config's gap beside what a hint-free student can keep of it, and beside its controls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from predictor.plots.style import (
    BLUE,
    FONT_SIZE,
    GREY,
    INK,
    MUTED,
    ORANGE,
    SMALL,
    Mark,
    axes_for,
    draw_interval,
    literal,
    tidy,
)
from predictor.records import Estimate, GapEstimate

RAW = Mark(BLUE, "o", size=6.0)
CONSENSUS = Mark(ORANGE, "D", filled=False, size=5.5)
CONTROLS = {
    "other_example": ("control: another example's hint", Mark(GREY, "^", size=4.5)),
    "irrelevant": ("control: irrelevant text", Mark(GREY, "s", filled=False, size=4.0)),
    "none": ("control: no hint again", Mark(GREY, "x", size=4.5)),
}
_ROW_HEIGHT = 0.42
# Fewer equal rows are no clutter.
_SHARED = 3


def plot_gaps(gaps: Sequence[GapEstimate], *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """One row for each hint config, the first on top: raw gap, consensus gap and controls with intervals at `level`.

    Shares of 1 on the horizontal axis. A control that is one and the same measurement for at least three hint configs
    is a grey band behind all rows; one whose hint config is not among `gaps` gets a row of its own.
    """
    rows = _rows(gaps)
    ax = axes_for(ax, 1.25 + _ROW_HEIGHT * max(len(rows), 2))
    shared = _shared_controls(gaps)
    for kind, estimate in shared.items():
        _draw_shared(ax, estimate.interval(level), CONTROLS[kind][1])
    for row, members in enumerate(rows.values()):
        own = [gap for gap in members if not (gap.is_control and control_kind(gap) in shared)]
        _draw_row(ax, row, own, level)
    ax.axvline(0.0, color=MUTED, linewidth=0.9, zorder=1)
    tidy(ax, xlabel=f"accuracy minus the student's (share of 1), {100 * level:g} % intervals", grid="x")
    ax.set_yticks(range(len(rows)), [literal(name) for name in rows], fontsize=FONT_SIZE, color=INK)
    ax.tick_params(axis="y", length=0)
    for row in range(1, len(rows)):
        ax.axhline(row - 0.5, color=MUTED, linewidth=0.3, alpha=0.35, zorder=0)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    _legend(ax, gaps, shared)
    return ax


def control_kind(gap: GapEstimate) -> str:
    """The kind of a control, from its name `<hint config>/<kind>`."""
    return gap.hint.removeprefix(f"{gap.control_of}/")


def _rows(gaps: Sequence[GapEstimate]) -> dict[str, list[GapEstimate]]:
    """Hint configs in order, each with its controls."""
    rows: dict[str, list[GapEstimate]] = {gap.hint: [gap] for gap in gaps if not gap.is_control}
    # Controls in a second pass: they may stand before their hint config in a regraded file.
    for gap in gaps:
        if gap.is_control:
            rows.setdefault(gap.control_of or gap.hint, []).append(gap)
    return rows


def _shared_controls(gaps: Sequence[GapEstimate]) -> dict[str, Estimate]:
    """Controls that are the same arm for all hint configs, by kind: equal numbers of equal rollouts."""
    found: dict[str, list[Estimate]] = {}
    for gap in gaps:
        if gap.is_control and control_kind(gap) in CONTROLS:
            found.setdefault(control_kind(gap), []).append(gap.gap)
    return {kind: same[0] for kind, same in found.items() if len(same) >= _SHARED and len(set(same)) == 1}


def _draw_shared(ax: Axes, interval: tuple[float, float], mark: Mark) -> None:
    if all(map(math.isfinite, interval)):
        ax.axvspan(*interval, color=mark.colour, alpha=0.25, linewidth=0, zorder=0)


def _draw_row(ax: Axes, row: int, members: Sequence[GapEstimate], level: float) -> None:
    drawn: list[tuple[Estimate, Mark]] = []
    for gap in members:
        if gap.is_control:
            drawn.append((gap.gap, _control_mark(gap)))
            continue
        drawn.append((gap.gap, RAW))
        if gap.consensus_gap is not None:
            drawn.append((gap.consensus_gap, CONSENSUS))
    # Every row spreads its series alike, so that the same series stands at the same height of each row.
    step = 0.6 / max(len(drawn) - 1, 3)
    for place, (estimate, mark) in enumerate(drawn):
        draw_interval(ax, estimate.value, estimate.interval(level), row - 0.3 + place * step, mark)


def _control_mark(gap: GapEstimate) -> Mark:
    return CONTROLS[control_kind(gap)][1] if control_kind(gap) in CONTROLS else Mark(GREY, "v", size=4.5)


def _legend(ax: Axes, gaps: Sequence[GapEstimate], shared: Mapping[str, Estimate]) -> None:
    """Only what is drawn, above the axes."""
    entries = [("raw gap", RAW)] if any(not gap.is_control for gap in gaps) else []
    if any(gap.consensus_gap is not None and not gap.is_control for gap in gaps):
        entries.append(("consensus gap: what stays without the hint", CONSENSUS))
    kinds = {control_kind(gap) for gap in gaps if gap.is_control}
    entries += [entry for kind, entry in CONTROLS.items() if kind in kinds - set(shared)]
    handles: list[Artist] = [_handle(label, mark) for label, mark in entries]
    handles += [Patch(label=CONTROLS[kind][0], color=CONTROLS[kind][1].colour, alpha=0.25) for kind in shared]
    if handles:
        ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, fontsize=SMALL, frameon=False)


def _handle(label: str, mark: Mark) -> Line2D:
    return Line2D(
        [],
        [],
        label=label,
        color=mark.colour,
        linewidth=1.2,
        marker=mark.marker,
        markersize=mark.size,
        markerfacecolor=mark.face,
        markeredgecolor=mark.colour,
    )
