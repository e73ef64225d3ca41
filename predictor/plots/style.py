"""One palette, one figure width and one way to draw an interval; matplotlib's global settings are never changed.

Colours differ in lightness and every series has its own marker, so that a grey print stays readable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

FIGURE_WIDTH = 7.2
"""Inches; every figure has this width."""
FONT_SIZE = 8.5
SMALL = 7.5

INK = "#1f2430"
MUTED = "#6b7280"
RULE = "#d5d9e0"
BLUE = "#174a85"
ORANGE = "#cc7316"
GREEN = "#3f8f6b"
RED = "#b03030"
GREY = "#979da8"
BAND = "#174a85"
"""Colour of a law's line and of its band, which is drawn with `BAND_ALPHA`."""
BAND_ALPHA = 0.13


@dataclass(frozen=True, slots=True)
class Mark:
    """How one series looks: its colour, its marker, whether the marker is filled, its size in points."""

    colour: str
    marker: str
    filled: bool = True
    size: float = 5.5

    @property
    def face(self) -> str:
        """Fill of the marker."""
        return self.colour if self.filled else "white"


def axes_for(ax: Axes | None, height: float) -> Axes:
    """The given axes, or those of a new figure of the common width; `height` is in inches. pyplot is not used."""
    # A bare Figure and not pyplot's: nothing is registered globally, nothing has to be closed.
    return Figure(figsize=(FIGURE_WIDTH, height), layout="constrained").add_subplot() if ax is None else ax


def tidy(ax: Axes, *, xlabel: str, ylabel: str = "", grid: str = "both") -> None:
    """Quiet spines, small ticks, a light grid behind the data (`x`, `y`, `both` or `none`), labels with their unit."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(RULE)
    ax.tick_params(labelsize=FONT_SIZE, colors=MUTED, labelcolor=INK, length=3)
    ax.set_xlabel(xlabel, fontsize=FONT_SIZE, color=INK)
    ax.set_ylabel(ylabel, fontsize=FONT_SIZE, color=INK)
    # Grid lines over markers would read as error bars.
    ax.set_axisbelow(True)
    for direction in ("x", "y"):
        if grid in (direction, "both"):
            ax.grid(axis=direction, color=RULE, linewidth=0.6)


def draw_interval(
    ax: Axes, value: float, interval: tuple[float, float], position: float, mark: Mark, *, vertical: bool = False
) -> None:
    """A marker at `value` with its interval as a line; a question mark stands where the interval is unknown (NaN)."""
    low, high = interval
    known = math.isfinite(low) and math.isfinite(high)
    if known:
        ends, places = [low, high], [position, position]
        ax.plot(*((places, ends) if vertical else (ends, places)), color=mark.colour, linewidth=1.2, zorder=3)
    x, y = (position, value) if vertical else (value, position)
    ax.plot(
        [x],
        [y],
        linestyle="none",
        marker=mark.marker,
        markersize=mark.size,
        markerfacecolor=mark.face,
        markeredgecolor=mark.colour,
        markeredgewidth=1.2,
        zorder=4,
    )
    if not known and math.isfinite(value):
        ax.annotate("?", (x, y), (5, 4), textcoords="offset points", fontsize=SMALL, color=mark.colour)


def literal(text: str) -> str:
    """The text as matplotlib shall print it: no formulas, control characters and missing glyphs as escapes."""
    # A missing glyph is a warning and an empty box, and a dollar sign would start a formula.
    shown = (c if c.isprintable() and ord(c) in _glyphs() else f"\\x{ord(c):02x}" for c in text)
    return "".join(shown).replace("$", r"\$")


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    """Code points that the default font can draw."""
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
