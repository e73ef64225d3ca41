"""When an adaptive probe may stop: the schedule of looks and the decision at each, as pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from predictor.records import Estimate
from predictor.stats.accuracy import Floats
from predictor.stats.sequences import betting_sequence

Decision = Literal["above", "below", "open"]


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Examples first, then rollouts; half of the error goes to the looks on the way and half to the final one.

    While examples are added, each answered `first_rollouts` times, a confidence sequence is compared with the
    threshold after every stage. What is still open after the last example gets all its rollouts (its controls do not),
    and one final interval. By the union bound all of it together errs with probability at most 1 - level.
    """

    threshold: float
    level: float
    first_rollouts: int
    rollouts: int
    stage_examples: int

    @property
    def look_level(self) -> float:
        """Coverage of the sequence, and of the final interval."""
        return 1.0 - (1.0 - self.level) / 2.0

    def stages(self, unit_ends: Sequence[int]) -> Iterator[int]:
        """Numbers of examples after each stage: a quarter more each time, never within a cluster.

        `unit_ends` holds the number of examples at the end of each cluster, in their order.
        """
        wanted = 0
        for end in unit_ends:
            if end >= wanted + max(self.stage_examples, wanted // 4) or end == unit_ends[-1]:
                wanted = end
                yield end

    def look(self, differences_E: Floats, units_E: Sequence[str]) -> tuple[Decision, tuple[float, float]]:
        """The decision of the sequence after these differences, and its interval."""
        if len(differences_E) == 0:
            return "open", (-1.0, 1.0)
        sequence = betting_sequence(differences_E, units_E, level=self.look_level)
        bounds = (float(sequence.low[-1]), float(sequence.high[-1]))
        return self.decided(bounds), bounds

    def final(self, estimate: Estimate) -> tuple[Decision, tuple[float, float]]:
        """The decision of the one interval with all examples and rollouts, and that interval."""
        bounds = estimate.interval(self.look_level)
        return self.decided(bounds), bounds

    def decided(self, bounds: tuple[float, float]) -> Decision:
        """Where an interval lies; NaN bounds decide nothing."""
        if bounds[0] > self.threshold:
            return "above"
        return "below" if bounds[1] < self.threshold else "open"

    def __str__(self) -> str:
        """The rule in one sentence, as records keep it."""
        level = f"{self.look_level:.4g}"
        return (
            f"stop when a betting confidence sequence (arXiv 2010.09686, level {level}, cluster by cluster, "
            f"{self.first_rollouts} rollouts an example) excludes {self.threshold:g}; what is open after the last "
            f"example gets {self.rollouts} rollouts and one interval of level {level}"
        )


def unit_ends(units_E: Sequence[str]) -> list[int]:
    """Number of examples up to the end of each cluster, for examples whose clusters follow each other."""
    changes = [place for place in range(1, len(units_E)) if units_E[place] != units_E[place - 1]]
    return [*changes, len(units_E)] if len(units_E) else []


def in_unit_order(units_E: Sequence[str]) -> list[int]:
    """Positions that bring the examples of a cluster together, clusters in the order of their first example."""
    first = {unit: place for place, unit in reversed(list(enumerate(units_E)))}
    return [int(place) for place in np.argsort([first[unit] for unit in units_E], kind="stable")]
