"""Confidence sequences: intervals for a bounded mean that hold at every look at once, however often one looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.errors import DataError
from predictor.stats.clusters import unit_index

Floats = NDArray[np.float64]

GRID_POINTS = 801
"""Candidate means on [-1, 1], .0025 apart; bounds are widened by one step, so the grid costs width, not coverage."""
_LARGEST_BET = 0.9
"""Share of the capital that may be lost in one bet: the truncation c of arXiv 2010.09686. Differences of accuracies
spread far less than their bounds allow, and c = 1/2 needed half as many examples again to decide a gap of .3."""
_PRIOR = 0.5
"""Weight, in units, of the first guess of the gambler: mean 1/2 and the largest variance, 1/4."""


@dataclass(frozen=True)
class ConfidenceSequence:
    """Bounds after each independent unit, each of shape (units,) or (studies, units)."""

    low: Floats
    high: Floats


def betting_sequence(
    differences_E: Sequence[float] | Floats, units_E: Sequence[str] | None = None, *, level: float = 0.95
) -> ConfidenceSequence:
    """Confidence sequence for the mean of differences in [-1, 1], in the order they were measured.

    For every candidate mean g a gambler bets on the differences being larger or smaller than g, without knowing the
    next one; if g is the truth, the capital exceeds 1 / (1 - level) at some time with probability at most 1 - level
    (Ville). The candidates whose capital stayed below are the sequence. Bets are the aGRAPA ones of Waudby-Smith and
    Ramdas (arXiv 2010.09686). The unit of a bet is the cluster: a cluster's differences from g are summed, and divided
    by the size of the largest cluster. Examples of one unit must follow each other.
    """
    values = np.asarray(differences_E, dtype=np.float64)
    if np.any(~np.isfinite(values)) or np.any(np.abs(values) > 1.0):
        raise DataError("a confidence sequence needs differences of accuracies", expected="numbers from -1 to 1")
    index, num_units = unit_index(units_E, len(values))
    if np.any(np.diff(index) < 0):
        raise DataError("examples of one cluster must follow each other in a confidence sequence")
    sums = np.bincount(index, weights=values, minlength=num_units).astype(np.float64)
    sizes = np.bincount(index, minlength=num_units).astype(np.float64)
    found = betting_bounds(sums[None, :], sizes, level=level)
    return ConfidenceSequence(found.low[0], found.high[0])


def betting_bounds(sums_SU: Floats, sizes_U: Floats, *, level: float) -> ConfidenceSequence:
    """The same for S studies at once: sums of differences of U units, and the units' sizes. Shapes (S, U)."""
    largest = float(sizes_U.max(initial=1.0))
    means_G = np.linspace(0.0, 1.0, GRID_POINTS)
    num_studies, num_units = sums_SU.shape
    log_capital = np.zeros((num_studies, GRID_POINTS))
    alive = np.ones((num_studies, GRID_POINTS), dtype=bool)
    total, squares, weight = np.full(num_studies, 0.5 * _PRIOR), np.full(num_studies, 0.5 * _PRIOR), _PRIOR
    low, high = np.empty((num_studies, num_units)), np.empty((num_studies, num_units))
    with np.errstate(divide="ignore"):
        most_up, most_down = _LARGEST_BET / means_G, _LARGEST_BET / (1.0 - means_G)
    for unit in range(num_units):
        share = sizes_U[unit] / largest
        # Shares of [0, 1] instead of differences: x = (d + 1) / 2.
        value_S = (sums_SU[:, unit] / largest + share) / 2.0
        mean_S = total / weight
        spread_S = np.maximum(squares / weight - mean_S**2, 1e-6)
        edge_SG = mean_S[:, None] - means_G
        bet_SG = np.clip(edge_SG / (spread_S[:, None] + edge_SG**2), -most_down, most_up)
        log_capital += np.log1p(bet_SG * (value_S[:, None] - share * means_G))
        alive &= log_capital < -np.log1p(-level)
        low[:, unit], high[:, unit] = _hull(alive, means_G)
        total, squares, weight = total + value_S, squares + value_S**2 / max(share, 1e-9), weight + share
    return ConfidenceSequence(2.0 * low - 1.0, 2.0 * high - 1.0)


def _hull(alive_SG: NDArray[np.bool_], means_G: Floats) -> tuple[Floats, Floats]:
    """Smallest interval around the candidates still alive, one grid step wider on each side."""
    step = means_G[1] - means_G[0]
    first = np.argmax(alive_SG, axis=1)
    last = alive_SG.shape[1] - 1 - np.argmax(alive_SG[:, ::-1], axis=1)
    return np.maximum(means_G[first] - step, 0.0), np.minimum(means_G[last] + step, 1.0)
