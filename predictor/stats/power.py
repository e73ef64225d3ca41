"""Exact small-sample intervals for shares, and what a probe of a given size can detect."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from scipy.special import betaincinv, ndtr, ndtri

from predictor.errors import DataError
from predictor.records.estimate import wilson_interval


def share_interval(
    successes: int, trials: int, *, level: float = 0.95, method: Literal["wilson", "exact", "jeffreys"] = "wilson"
) -> tuple[float, float]:
    """Interval for a share of independent trials that keeps its level at 0 % and 100 %.

    `wilson` is the score interval, `exact` Clopper-Pearson's, `jeffreys` the Beta(1/2, 1/2) posterior's.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise DataError("a share needs 0 ≤ successes ≤ trials", found=f"{successes} of {trials}")
    if method == "wilson":
        return wilson_interval(successes / trials, trials, level)
    shift = 0.5 if method == "jeffreys" else 0.0
    failures, tail = trials - successes, 0.5 - level / 2
    over = 0.5 if method == "jeffreys" else 1.0
    low = 0.0 if successes == 0 else float(betaincinv(successes + shift, failures + over, tail))
    high = 1.0 if failures == 0 else float(betaincinv(successes + over, failures + shift, 1 - tail))
    return (low, high)


def design_effect(mean_cluster_size: float, intraclass_correlation: float) -> float:
    """Variance inflation of clustered examples: 1 + (m - 1)·ICC."""
    return 1.0 + (mean_cluster_size - 1.0) * intraclass_correlation


def gap_stderr(num_examples: int, rollouts: int, *, between_var: float, within_var: float) -> float:
    """Standard error of a paired gap: sqrt((between + within / K) / N), Miller (arXiv 2411.00640).

    `between_var` is the variance over examples of the true difference, `within_var` of one pair of rollouts.
    """
    return math.sqrt((between_var + within_var / rollouts) / num_examples)


def minimal_detectable_gap(
    stdev: float, num_examples: int, *, significance: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> float:
    """(z_{1-a/2} + z_power) · stdev · sqrt(deff / N); `stdev` is that of one example's paired difference."""
    return float(ndtri(1 - significance / 2) + ndtri(power)) * stdev * math.sqrt(deff / num_examples)


def power_to_detect(
    gap: float, stdev: float, num_examples: int, *, significance: float = 0.05, deff: float = 1.0
) -> float:
    """Probability that a two-sided test at `significance` sees a true gap of this size."""
    shift = abs(gap) / (stdev * math.sqrt(deff / num_examples))
    critical = float(ndtri(1 - significance / 2))
    return float(ndtr(shift - critical) + ndtr(-shift - critical))


def examples_needed(
    gap: float, stdev: float, *, significance: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> int:
    """Smallest number of examples whose minimal detectable gap is at most `gap`."""
    factor = float(ndtri(1 - significance / 2) + ndtri(power)) * stdev / abs(gap)
    return math.ceil(deff * factor**2)


def distinct_samples(samples: Iterable[Hashable]) -> int:
    """Number of different completions; far below their count at temperature > 0, a seed was reused."""
    return len(set(samples))


def repeated_samples(groups: Iterable[Sequence[Hashable]]) -> int:
    """Number of examples with at least two completions that are all identical."""
    return sum(len(group) > 1 and distinct_samples(group) == 1 for group in groups)
