"""The points of the law as columns: built once, cut into families and folds without touching the records again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.records import LawPoint

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Gaps closer than this are one gap: fewer than three distinct gaps show no departure from a line.
SAME_GAP = 1e-9


@dataclass(frozen=True, slots=True)
class PointTable:
    """One row per point; N points, K terms (ones, gap, extra terms)."""

    family_names: tuple[str, ...]
    """Names that the family numbers index."""
    family_N: Ints
    config_N: Ints
    baseline_N: Ints
    """Family, hint config (without the seed) and baseline of each point, numbered by first appearance."""
    x_NK: Floats
    y_N: Floats
    """Mean improvement over the runs."""
    runs_N: Floats
    """Runs behind each point."""
    within_N: Floats
    """Sum of squared deviations of the runs from their mean."""
    x_var_N: Floats
    """Measurement variance of the gap."""
    y_var_N: Floats
    """Measurement variance of ONE run's improvement."""
    baseline_var_N: Floats
    units_N: Floats
    """Examples that one run's improvement was measured on."""
    ceiling_N: Floats
    """Largest possible improvement, 1 - student."""

    def __len__(self) -> int:
        """Number of points."""
        return len(self.y_N)

    @property
    def gap_N(self) -> Floats:
        """The gap predictor."""
        gaps: Floats = self.x_NK[:, 1]
        return gaps

    @property
    def num_gaps(self) -> int:
        """Number of different gaps."""
        ordered: list[float] = sorted(self.gap_N.tolist())
        steps = [after - before for before, after in pairwise(ordered)]
        return sum(step > SAME_GAP for step in steps) + bool(ordered)

    @property
    def shared_var(self) -> float:
        """Variance of a student that all points share one measurement of; 0 where it was measured anew."""
        if not len(self) or bool(np.any(self.baseline_N != self.baseline_N[0])):
            return 0.0
        return float(np.mean(np.minimum(self.baseline_var_N, np.minimum(self.x_var_N, self.y_var_N))))

    @property
    def families(self) -> list[str]:
        """Families in order of first appearance."""
        present = np.flatnonzero(np.bincount(self.family_N, minlength=len(self.family_names)))
        return [self.family_names[number] for number in present]

    def take(self, rows: NDArray[Any]) -> PointTable:
        """The rows that a mask or an index selects."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return PointTable(family_names=self.family_names, **columns)

    def of_family(self, family: str) -> PointTable:
        """The rows of one family; the table itself where there is no other."""
        if self.family_names == (family,):
            return self
        return self.take(self.family_N == self.family_names.index(family))


_COLUMNS = tuple(column.name for column in fields(PointTable) if column.name != "family_names")


def numbered(names: Iterable[str]) -> tuple[Ints, tuple[str, ...]]:
    """Each name's number by first appearance, and the names in that order."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
    return codes, tuple(numbers)


def tabulate(points: Sequence[LawPoint], num_terms: int) -> PointTable:
    """Columns of the points; `num_terms` counts the intercept, the gap and the extra terms."""
    runs = np.array([len(point.ys) for point in points], dtype=np.float64)
    means = [math.fsum(point.ys) / len(point.ys) for point in points]
    within = [math.fsum((y - mean) ** 2 for y in point.ys) for point, mean in zip(points, means, strict=True)]
    family_N, family_names = numbered(point.family for point in points)
    return PointTable(
        family_names=family_names,
        family_N=family_N,
        config_N=numbered(point.config for point in points)[0],
        baseline_N=numbered(point.baseline_id for point in points)[0],
        x_NK=np.array([(1.0, *point.xs) for point in points], dtype=np.float64).reshape(-1, num_terms),
        y_N=np.array(means, dtype=np.float64),
        runs_N=runs,
        within_N=np.array(within, dtype=np.float64),
        x_var_N=np.array([point.x_stderr for point in points], dtype=np.float64) ** 2,
        y_var_N=np.array([point.y_stderr for point in points], dtype=np.float64) ** 2,
        baseline_var_N=np.array([point.baseline_var for point in points], dtype=np.float64),
        units_N=np.array([point.y_units for point in points], dtype=np.float64),
        # An improvement never exceeds 1, which is all that is known where the student's accuracy is not.
        ceiling_N=1.0 - np.nan_to_num(np.array([point.student for point in points], dtype=np.float64), nan=0.0),
    )
