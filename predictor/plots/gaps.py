"""Every hint config's gap beside what a hint-free student can keep of it, and beside its controls."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

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


def plot_gaps(gaps: Sequence[GapEstimate], *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """One row for each hint config, the first on top: raw gap, consensus gap and controls with intervals at `level`.

    Shares of 1 on the horizontal axis; a control whose hint config is not among `gaps` gets a row of its own.
    """
    rows = _rows(gaps)
    ax = axes_for(ax, 1.25 + _ROW_HEIGHT * max(len(rows), 2))
    for row, members in enumerate(rows.values()):
        _draw_row(ax, row, members, level)
    ax.axvline(0.0, color=MUTED, linewidth=0.9, zorder=1)
    tidy(ax, xlabel=f"accuracy minus the student's (share of 1), {100 * level:g} % intervals", grid="x")
    ax.set_yticks(range(len(rows)), [literal(name) for name in rows], fontsize=FONT_SIZE, color=INK)
    ax.tick_params(axis="y", length=0)
    for row in range(1, len(rows)):
        ax.axhline(row - 0.5, color=MUTED, linewidth=0.3, alpha=0.35, zorder=0)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    _legend(ax, gaps)
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


def _legend(ax: Axes, gaps: Sequence[GapEstimate]) -> None:
    """Only what is drawn, above the axes."""
    entries = [("raw gap", RAW)] if any(not gap.is_control for gap in gaps) else []
    if any(gap.consensus_gap is not None and not gap.is_control for gap in gaps):
        entries.append(("consensus gap: what stays without the hint", CONSENSUS))
    kinds = {control_kind(gap) for gap in gaps if gap.is_control}
    entries += [entry for kind, entry in CONTROLS.items() if kind in kinds]
    handles = [_handle(label, mark) for label, mark in entries]
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
