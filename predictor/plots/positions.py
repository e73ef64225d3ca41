"""Where in the completion student and self-teacher differ: KL by position, forward above, reverse below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from predictor.plots.style import BLUE, FIGURE_WIDTH, GREEN, GREY, INK, ORANGE, RED, SMALL, literal, tidy
from predictor.records.diagnostics import HintDiagnostics, TokenDiagnostics

_HEIGHT = 4.6
_COLOURS = (BLUE, ORANGE, GREEN, RED, INK, GREY)
_MARKERS = "osD^vx"
_LEAST_REACHING = 0.1
"""Positions that fewer of the rollouts reach are left out: their means jump."""


def plot_positions(found: Sequence[HintDiagnostics], *, axes: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
    """Mean KL in nats at each position for the hint configs with the largest divergence, at most six.

    Forward KL(teacher‖student) on the first axes, reverse KL(student‖teacher) on the second.
    """
    upper, lower = axes or _new_axes()
    for number, (hint, tokens) in enumerate(largest(found)):
        shown = reaching(tokens)
        places = range(1, shown + 1)
        style: dict[str, Any] = {
            "color": _COLOURS[number],
            "marker": _MARKERS[number],
            "markersize": 3.5,
            "linewidth": 1.1,
        }
        upper.plot(places, tokens.profile.forward_kl[:shown], label=literal(hint), **style)
        lower.plot(places, tokens.profile.reverse_kl[:shown], label=literal(hint), **style)
    tidy(upper, xlabel="", ylabel="forward KL (nats)")
    tidy(lower, xlabel="position in the completion (tokens)", ylabel="reverse KL (nats)")
    for ax in (upper, lower):
        ax.set_ylim(bottom=0.0)
    if upper.lines:
        upper.legend(fontsize=SMALL, frameon=False, labelcolor=INK)
    return upper, lower


def largest(found: Sequence[HintDiagnostics]) -> list[tuple[str, TokenDiagnostics]]:
    """The hint configs with the largest forward plus reverse KL, largest first, as many as there are colours."""
    measured = [(item.hint, item.tokens) for item in found if item.tokens is not None]
    measured.sort(key=lambda pair: -(pair[1].forward_kl.value + pair[1].reverse_kl.value))
    return measured[: len(_COLOURS)]


def reaching(tokens: TokenDiagnostics) -> int:
    """Number of leading positions that at least a tenth of the rollouts reach."""
    counts = tokens.profile.num_rollouts
    return sum(count >= _LEAST_REACHING * counts[0] for count in counts)


def _new_axes() -> tuple[Axes, Axes]:
    figure = Figure(figsize=(FIGURE_WIDTH, _HEIGHT), layout="constrained")
    upper = figure.add_subplot(2, 1, 1)
    return upper, figure.add_subplot(2, 1, 2, sharex=upper)
