"""Bootstrap of a family's line over hint configs: a check on the t intervals that assumes no normal noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predictor.errors import LawError
from predictor.law.table import Floats, tabulate
from predictor.records import LawFit, derive_seed
from predictor.stats import percentile_interval, resampling_weights

# Weights in memory at once: what a core's cache holds is several times faster than what it does not.
_CELLS = 100_000


@dataclass(frozen=True, slots=True)
class BootstrapLine:
    """Least-squares lines of resampled hint configs; D draws. Draws whose gaps are all equal are NaN."""

    intercepts_D: Floats
    slopes_D: Floats

    def slope_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of the slope."""
        return percentile_interval(self.slopes_D[np.isfinite(self.slopes_D)], level)

    def line_interval(self, gap: float, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of the line at a gap: of the mean improvement there, not of a new run."""
        values = self.intercepts_D + self.slopes_D * gap
        return percentile_interval(values[np.isfinite(values)], level)


def bootstrap_line(fit: LawFit, *, family: str = "", draws: int = 2000, seed: int = 0) -> BootstrapLine:
    """Resample the hint configs of one family (with all their runs) and refit the straight line on the gap."""
    name = family or fit.line().family
    table = tabulate([point for point in fit.points if point.family == name], 2 + len(fit.spec.extra))
    if len(table) < 3:
        raise LawError("a bootstrap needs at least three hint configs", found=f"{len(table)} of family `{name}`")
    x, y = table.gap_N, table.y_N
    sums = np.column_stack([np.ones_like(x), x, y, x * x, x * y])
    num_units = int(table.config_N.max()) + 1
    totals = np.column_stack([np.bincount(table.config_N, column, num_units) for column in sums.T])
    chunk = max(1, _CELLS // num_units)
    parts = []
    for start in range(0, draws, chunk):
        weights = resampling_weights(num_units, min(chunk, draws - start), derive_seed("law", seed, start))
        parts.append(weights @ totals)
    n, sx, sy, sxx, sxy = np.concatenate(parts).T
    spread = n * sxx - sx * sx
    # Rounding leaves a tiny spread where every resampled gap is the same.
    usable = spread > 1e-12 * np.maximum(sxx * n, 1e-300)
    slopes = np.where(usable, (n * sxy - sx * sy) / np.where(usable, spread, 1.0), np.nan)
    return BootstrapLine((sy - slopes * sx) / n, slopes)
