"""Accuracy of each example from judged rollouts, and paired contrasts between two arms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from predictor.errors import DataError
from predictor.records import Estimate
from predictor.stats.clusters import cluster_mean, moments_estimate, unit_totals

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Accuracy of every example of one arm over its decided rollouts, and what could not be judged."""

    by_example: Mapping[str, float]
    """Share correct among decided rollouts; examples without a decided rollout are in `unjudged` instead."""
    units: Mapping[str, str]
    """Independent unit of each example (its cluster, or itself)."""
    num_rollouts: int
    num_undecided: int
    unjudged: tuple[str, ...]
    """Examples whose rollouts were all undecided; in no average."""
    decided: Mapping[str, int] = field(default_factory=dict)
    """Decided rollouts of each example."""

    @property
    def undecided(self) -> float:
        """Share of rollouts without a verdict; 0 without rollouts."""
        return self.num_undecided / self.num_rollouts if self.num_rollouts else 0.0

    def estimate(self) -> Estimate:
        """Macro accuracy: every example counts once, whatever its number of rollouts."""
        names = list(self.by_example)
        values = [self.by_example[name] for name in names]
        return cluster_mean(values, [self.units[name] for name in names], kind="share")


def accuracies(outcomes: Iterable[tuple[str, bool | None]], units: Mapping[str, str] | None = None) -> Accuracies:
    """Collect (example id, correct) pairs; None is undecided, counted and left out of the example's accuracy."""
    right: dict[str, int] = {}
    decided: dict[str, int] = {}
    num_rollouts = 0
    for example_id, correct in outcomes:
        num_rollouts += 1
        right[example_id] = right.get(example_id, 0) + (correct is True)
        decided[example_id] = decided.get(example_id, 0) + (correct is not None)
    return Accuracies(
        by_example={name: right[name] / count for name, count in decided.items() if count},
        units={name: (units or {}).get(name, name) for name in decided},
        num_rollouts=num_rollouts,
        num_undecided=num_rollouts - sum(decided.values()),
        unjudged=tuple(name for name, count in decided.items() if not count),
        decided=decided,
    )


def paired_difference(
    with_hint_E: Sequence[float] | Floats,
    without_hint_E: Sequence[float] | Floats,
    units_E: Sequence[str] | None = None,
) -> Estimate:
    """Mean difference over examples, with its standard error over independent units; NaN when there is one unit.

    Each entry is one example's accuracy over its rollouts, in the same order on both sides. The estimate knows its
    sides, so its interval is honest where an accuracy is near 0 or 1.
    """
    if len(with_hint_E) != len(without_hint_E):
        raise DataError(
            "a paired difference needs the same examples on both sides",
            found=f"{len(with_hint_E)} and {len(without_hint_E)} examples",
        )
    first, second = (np.asarray(side, dtype=np.float64) for side in (with_hint_E, without_hint_E))
    sides = tuple(cluster_mean(side, units_E, kind="share") for side in (first, second))
    return cluster_mean(first - second, units_E, kind="difference").model_copy(update={"sides": sides})


def _shared(first: Accuracies, second: Accuracies) -> tuple[Floats, Floats, list[str]]:
    names = [name for name in first.by_example if name in second.by_example]
    if not names:
        raise DataError(
            "two arms have no judged example in common",
            found=f"{len(first.by_example)} and {len(second.by_example)} judged examples",
            expected="the same examples in both arms",
            fix="see `reason` in the stored rollouts; where the checker failed, repair it and run `gapcast regrade`",
        )
    return (
        np.array([first.by_example[name] for name in names]),
        np.array([second.by_example[name] for name in names]),
        [first.units[name] for name in names],
    )


def difference(with_hint: Accuracies, without_hint: Accuracies) -> Estimate:
    """Accuracy with minus without, paired over the examples that both arms could judge."""
    left, right, units = _shared(with_hint, without_hint)
    return paired_difference(left, right, units)


def recovery(teacher: Accuracies, student: Accuracies) -> Estimate:
    """P(teacher right | student wrong): examples weighted by the student's failures. NaN without failures.

    A resampled arm recovers too, so only the part above the `none` arm's recovery is the hint's.
    """
    right, base, units = _shared(teacher, student)
    return cluster_mean(right, units, weights_E=1.0 - base, kind="share")


def harm(teacher: Accuracies, student: Accuracies) -> Estimate:
    """P(teacher wrong | student right): examples weighted by the student's successes. NaN without successes."""
    right, base, units = _shared(teacher, student)
    return cluster_mean(1.0 - right, units, weights_E=base, kind="share")


def pooled_difference(with_hint: Accuracies, without_hint: Accuracies) -> Estimate:
    """Share of correct decided rollouts with minus without, every rollout counted once; paired by unit.

    The standard error is that of a difference of two ratios of means over units (linearised, CR1).
    """
    left, right, units = _shared(with_hint, without_hint)
    names = [name for name in with_hint.by_example if name in without_hint.by_example]
    sides, errors = [], []
    for shares, arm in ((left, with_hint), (right, without_hint)):
        weights = np.array([arm.decided[name] for name in names], dtype=np.float64)
        mean = float(weights @ shares) / float(weights.sum())
        errors.append(unit_totals(weights * (shares - mean) / float(weights.sum()), units))
        sides.append(moments_estimate(mean, errors[-1], len(errors[-1]), "share"))
    found = moments_estimate(sides[0].value - sides[1].value, errors[0] - errors[1], len(errors[0]), "difference")
    return found.model_copy(update={"sides": tuple(sides)})
