"""Bootstrap over independent units; every draw recomputes the statistic that is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from predictor.errors import DataError
from predictor.records import derive_seed
from predictor.stats.clusters import unit_index, unit_totals

Floats = NDArray[np.float64]

# Draws held in memory at once, as (draws, units) weights: 64 MB of float64.
_MAX_CELLS = 8_000_000


def resampling_weights(num_units: int, draws: int, seed: int) -> Floats:
    """How often each of `num_units` units is drawn in each of `draws` bootstrap samples; shape (draws, units)."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(num_units, size=(draws, num_units))
    flat = chosen + num_units * np.arange(draws)[:, None]
    counts = np.bincount(flat.ravel(), minlength=draws * num_units)
    return counts.reshape(draws, num_units).astype(np.float64)


def bootstrap_mean(
    values_E: Sequence[float] | Floats, units_E: Sequence[str] | None = None, *, draws: int = 2000, seed: int = 0
) -> Floats:
    """Bootstrap draws of the mean over examples, resampling whole units; shape (draws,).

    A paired difference is bootstrapped by passing the differences: both arms of an example stay together.
    """
    values = np.asarray(values_E, dtype=np.float64)
    totals = unit_totals(values, units_E)
    sizes = unit_totals(np.ones_like(values), units_E)
    chunk = max(1, _MAX_CELLS // max(1, len(totals)))
    parts = []
    for start in range(0, draws, chunk):
        weights = resampling_weights(len(totals), min(chunk, draws - start), derive_seed("bootstrap", seed, start))
        parts.append((weights @ totals) / (weights @ sizes))
    return np.concatenate(parts)


def bootstrap_statistic(
    statistic: Callable[..., float],
    columns_E: Sequence[Floats],
    units_E: Sequence[str] | None = None,
    *,
    draws: int = 2000,
    seed: int = 0,
) -> Floats:
    """Bootstrap draws of any statistic of paired columns; it is called with the resampled columns. Shape (draws,)."""
    lengths = {len(column) for column in columns_E}
    if len(lengths) != 1:
        raise DataError("bootstrapped columns differ in length", found=str(sorted(lengths)))
    index, num_units = unit_index(units_E, lengths.pop())
    order = np.argsort(index, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(index, minlength=num_units))[:-1])
    rng = np.random.default_rng(derive_seed("bootstrap", seed))
    results = np.empty(draws)
    for draw in range(draws):
        rows = np.concatenate([members[unit] for unit in rng.integers(num_units, size=num_units)])
        results[draw] = statistic(*(column[rows] for column in columns_E))
    return results


def percentile_interval(draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """Central interval of bootstrap draws at `level`."""
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return (float(low), float(high))
