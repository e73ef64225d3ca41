"""How often the probe's intervals hold the truth, over examples, clusters and accuracies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from predictor.records import derive_seed
from predictor.stats.accuracy import paired_difference
from predictor.stats.clusters import cluster_mean
from predictor.stats.coverage.planted import answered, plant

LEVEL = 0.95
ROLLOUTS = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of study."""

    num_examples: int
    cluster_size: int
    student: float
    gap: float


@dataclass(frozen=True, slots=True)
class CellCoverage:
    """Shares of draws whose interval held the truth, and the mean width of the gap's."""

    cell: Cell
    accuracy: float
    gap: float
    gap_width: float
    draws: int


def cells() -> Iterator[Cell]:
    """30 to 500 examples, alone and in clusters of five, student accuracies from .02 to .98, with and without a gap."""
    for num_examples in (30, 100, 500):
        for cluster_size in (1, 5):
            for student in (0.02, 0.1, 0.5, 0.9, 0.98):
                for share in (0.0, 0.4):
                    yield Cell(num_examples, cluster_size, student, round(share * (1.0 - student), 4))


def measure_cell(cell: Cell, draws: int, seed: int = 0) -> CellCoverage:
    """Coverage of the very intervals that the probe prints, over `draws` planted studies."""
    rng = np.random.default_rng(derive_seed("coverage", seed, repr(cell)))
    planted = plant(rng, (draws, cell.num_examples), cell.cluster_size, student=cell.student, gap=cell.gap)
    student, teacher = (answered(rng, side, ROLLOUTS) for side in (planted.student_DE, planted.teacher_DE))
    held_accuracy, held_gap, width = 0, 0, 0.0
    for draw in range(draws):
        low, high = cluster_mean(student[draw], planted.units, kind="share").interval(LEVEL)
        held_accuracy += low <= cell.student <= high
        low, high = paired_difference(teacher[draw], student[draw], planted.units).interval(LEVEL)
        held_gap += low <= cell.gap <= high
        width += high - low
    return CellCoverage(cell, held_accuracy / draws, held_gap / draws, width / draws, draws)
