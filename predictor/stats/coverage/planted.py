"""Planted examples: how often student and self-teacher are right on each, with a gap that is known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SPREAD = 2.0
"""Concentration of the Beta laws: examples range from hardly ever to nearly always solved."""


@dataclass(frozen=True, slots=True)
class Planted:
    """True accuracies of both sides; half of an example's student accuracy is its cluster's. Shapes (draws, E)."""

    student_DE: Floats
    teacher_DE: Floats
    units: tuple[str, ...]


def plant(
    rng: np.random.Generator, shape: tuple[int, int], cluster_size: int, *, student: float, gap: float
) -> Planted:
    """`shape` is (draws, examples). The mean student accuracy is `student`, the mean difference is `gap`, exactly.

    A positive gap solves a share h of what the student gets wrong, a negative one breaks a share h of what it gets
    right; h differs by cluster, and is independent of the student's accuracy.
    """
    draws, num_examples = shape
    num_clusters = -(-num_examples // cluster_size)
    cluster_E = np.arange(num_examples) // cluster_size
    shared = _beta(rng, student, (draws, num_clusters))[:, cluster_E]
    student_DE = 0.5 * shared + 0.5 * _beta(rng, student, shape)
    room = (1.0 - student) if gap >= 0.0 else student
    strength = _beta(rng, min(abs(gap) / room, 1.0), (draws, num_clusters))[:, cluster_E]
    change = strength * (1.0 - student_DE) if gap >= 0.0 else -strength * student_DE
    return Planted(student_DE, student_DE + change, tuple(f"c{cluster}" for cluster in cluster_E))


def answered(rng: np.random.Generator, accuracy_DE: Floats, rollouts: int) -> Floats:
    """Share of right answers among independent rollouts of every example."""
    return rng.binomial(rollouts, np.clip(accuracy_DE, 0.0, 1.0)) / rollouts


def _beta(rng: np.random.Generator, mean: float, shape: tuple[int, int]) -> Floats:
    if mean <= 0.0 or mean >= 1.0:
        return np.full(shape, float(mean >= 1.0))
    return rng.beta(mean * _SPREAD, (1.0 - mean) * _SPREAD, size=shape)
