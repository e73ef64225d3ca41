"""How large a study must be: hint configs, examples and rollouts for a forecast of a wanted half-width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.errors import LawError
from predictor.records import FamilyLaw, LawFit, Record
from predictor.records.distributions import t_quantile
from predictor.records.law.text import text_table

_EXAMPLES = (64, 128, 256, 512, 1024)
_ROLLOUTS = (1, 2, 4, 8, 16)
_MAX_CONFIGS = 200
_MIN_CONFIGS = 3


@dataclass(frozen=True, slots=True)
class Noise:
    """Where the spread of outcomes around the line comes from; the student's own noise is shared and cancels."""

    slope: float
    run_var: float
    """Between runs: seeds, and hint configs that depart from the line."""
    gap_between: float
    """Variance over examples of the self-teacher's true accuracy, as far as the shared student leaves it."""
    gap_within: float
    """Variance of one example's accuracy from a single rollout of the self-teacher."""
    outcome_between: float
    outcome_within: float
    """The same two for the trained student."""

    def residual_var(self, num_examples: int, rollouts: int) -> float:
        """Variance of a run around the fitted line when both are measured on this many examples and rollouts."""
        gap = (self.gap_between + self.gap_within / rollouts) / num_examples
        outcome = (self.outcome_between + self.outcome_within / rollouts) / num_examples
        return self.run_var + self.slope**2 * gap + outcome


class StudySize(Record):
    """One way to reach the wanted half-width, or the nearest that 200 hint configs come to it."""

    num_examples: int
    rollouts: int
    num_configs: int | None
    """Fewest hint configs; None when no number of them is enough."""
    half_width: float
    """Half-width reached."""
    num_rollouts: int | None
    """Probe rollouts of the whole study: (hint configs + the student) · examples · rollouts."""


class SizePlan(Record):
    """Study sizes in order of probe rollouts; those that cannot reach the half-width come last."""

    wanted: float
    level: float
    sizes: tuple[StudySize, ...]

    @property
    def cheapest(self) -> StudySize | None:
        """The size with the fewest probe rollouts that reaches the half-width; None when none does."""
        return next((size for size in self.sizes if size.num_configs is not None), None)

    def __str__(self) -> str:
        """One row for each number of examples and rollouts."""
        head = ("examples", "rollouts", "hint configs", "half-width", "probe rollouts")
        rows = [
            (
                str(size.num_examples),
                str(size.rollouts),
                "never" if size.num_configs is None else str(size.num_configs),
                f"{size.half_width:.3f}",
                "" if size.num_rollouts is None else str(size.num_rollouts),
            )
            for size in self.sizes
        ]
        title = f"Half-width {self.wanted:.3f} of a {self.level:.0%} interval for a new run at the mean gap:"
        return "\n".join([title, *text_table(head, rows)])


def noise_of(law: FamilyLaw, *, rollouts: int = 8, within_share: float = 0.5) -> Noise:
    """The noise a fitted line implies; `within_share` is the part of the measured variance that more rollouts lower.

    It is not in the records: half is what heterogeneous examples at 8 rollouts show. Measured once on stored rollouts,
    it can be given.
    """
    slope = law.slope.value
    run = law.residual_var + law.seed_var - slope**2 * law.probe_var - law.eval_var
    if math.isnan(law.unit_var) or math.isnan(run):
        raise LawError(
            "a study's size follows from fitted runs, and this line has none",
            where=f"family {law.family}",
            fix="record at least three runs, or give the noise yourself",
        )
    examples = law.unit_var / law.eval_var if law.eval_var > 0.0 else 1.0
    gap_unit = law.probe_var * examples
    return Noise(
        slope=slope,
        run_var=max(run, 0.0),
        gap_between=(1.0 - within_share) * gap_unit,
        gap_within=within_share * gap_unit * rollouts,
        outcome_between=(1.0 - within_share) * law.unit_var,
        outcome_within=within_share * law.unit_var * rollouts,
    )


def half_width(noise: Noise, num_configs: int, num_examples: int, rollouts: int, level: float = 0.8) -> float:
    """Half-width of the interval for a new run at the mean gap: t(n-2)·sqrt(residual variance·(1 + 1/n))."""
    if num_configs < _MIN_CONFIGS:
        return math.inf
    variance = noise.residual_var(num_examples, rollouts) * (1.0 + 1.0 / num_configs)
    return float(t_quantile(num_configs - 2, 0.5 + level / 2)) * math.sqrt(variance)


def plan_sizes(
    noise: Noise,
    *,
    wanted: float,
    level: float = 0.8,
    examples: Sequence[int] = _EXAMPLES,
    rollouts: Sequence[int] = _ROLLOUTS,
) -> SizePlan:
    """Fewest hint configs for a wanted half-width at every number of examples and rollouts."""
    sizes = [_size(noise, (num_examples, k), wanted, level) for num_examples in examples for k in rollouts]
    sizes.sort(key=lambda size: (size.num_rollouts is None, size.num_rollouts or 0, size.half_width))
    return SizePlan(wanted=wanted, level=level, sizes=tuple(sizes))


def _size(noise: Noise, probe: tuple[int, int], wanted: float, level: float) -> StudySize:
    num_examples, rollouts = probe
    widths = {n: half_width(noise, n, num_examples, rollouts, level) for n in range(_MIN_CONFIGS, _MAX_CONFIGS + 1)}
    num_configs = next((n for n, width in widths.items() if width <= wanted), None)
    return StudySize(
        num_examples=num_examples,
        rollouts=rollouts,
        num_configs=num_configs,
        half_width=widths[num_configs or _MAX_CONFIGS],
        num_rollouts=None if num_configs is None else (num_configs + 1) * num_examples * rollouts,
    )


class NextGap(Record):
    """What one more run at this gap would do to the slope."""

    gap: float
    slope_stderr: float
    """Standard error of the slope with that run."""
    below_ceiling: bool
    """Whether the line is still below 1 - student there; a run at the ceiling says nothing about the slope."""


def next_gaps(fit: LawFit, candidates: Sequence[float], *, family: str = "") -> tuple[NextGap, ...]:
    """Candidate gaps by how much one run there would sharpen the slope, best first.

    The slope's variance falls by s²x²-weighted information: C⁻¹ gains xx'/s² for a run at x (Sherman-Morrison).
    """
    law = fit.line(family)
    students = [point.student for point in fit.points if point.family == law.family]
    ceiling = 1.0 - (sum(students) / len(students) if students else 0.0)
    found = [_next_gap(law, gap, ceiling) for gap in candidates]
    return tuple(sorted(found, key=lambda row: (not row.below_ceiling, row.slope_stderr)))


def _next_gap(law: FamilyLaw, gap: float, ceiling: float) -> NextGap:
    intercept, slope = law.coefficients[:2]
    (c00, c01), (_, c11) = (row[:2] for row in law.covariance[:2])
    along = c01 + c11 * gap
    spread = c00 + 2.0 * c01 * gap + c11 * gap**2 + law.residual_var + law.seed_var
    return NextGap(
        gap=gap,
        slope_stderr=math.sqrt(max(c11 - along**2 / spread, 0.0)),
        below_ceiling=intercept + slope * gap < ceiling,
    )
