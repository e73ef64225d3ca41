"""An adaptive probe against a fixed one on planted studies: decisions, coverage, and rollouts paid for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predictor.records import derive_seed
from predictor.stats.accuracy import paired_difference
from predictor.stats.coverage.planted import Floats, answered, plant
from predictor.stats.sequences import betting_bounds
from predictor.stats.stopping import Decision, StoppingRule, unit_ends

MINIATURE_GAPS = (
    *(-0.12, 0.0, -0.007, 0.006, 0.061, 0.215, 0.419, 0.227, 0.355, 0.572, 0.346, 0.338, 0.346),
    *(0.65, 0.73, 0.71, 0.812, 0.85, 0.85, 0.85),
)
"""Raw gaps of the hint configs that the miniature's prototype measured, at a student accuracy of .148."""
STUDENT = 0.148
CONTROLS = 2


@dataclass(frozen=True, slots=True)
class DesignComparison:
    """What the two designs did over all planted studies and hint configs."""

    studies: int
    configs: int
    """Hint configs of all studies together."""
    rollouts_share: float
    """Adaptive rollouts as a share of the fixed design's, student and bare resample included."""
    agree: float
    """Share of configs that the fixed design decided and the adaptive one decided alike."""
    adaptive_open: float
    """Share of configs that the fixed design decided and the adaptive one left open."""
    opposite: float
    """Share of configs that the two decided in opposite ways."""
    fixed_wrong: float
    """Share of configs that the fixed design put on the wrong side of the threshold."""
    adaptive_wrong: float
    fixed_coverage: float
    """Share of configs whose fixed-design 95 % interval holds the true gap."""
    adaptive_coverage: float
    """Share of configs whose interval at stopping holds the true gap."""
    sequence_coverage: float
    """Share of configs whose confidence sequence held the true gap at every one of its looks, stopped or not."""
    stopped_early: float
    """Share of configs decided before the last stage."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Per study: decisions, whether the intervals held, and rollouts of one example-arm for both designs."""

    gap: float
    fixed: tuple[Decision, ...]
    adaptive: tuple[Decision, ...]
    fixed_held: int
    adaptive_held: int
    sequence_held: int
    rollouts: Floats
    """Rollouts of one adaptive arm in each study."""
    early: int


def compare_designs(
    rule: StoppingRule, *, num_examples: int, studies: int, configs: int, seed: int = 0
) -> DesignComparison:
    """Each study draws `configs` of the miniature's gaps; both designs measure the same planted examples."""
    rng = np.random.default_rng(derive_seed("designs", seed))
    chosen = np.stack([rng.permutation(len(MINIATURE_GAPS))[:configs] for _ in range(studies)])
    outcomes = []
    taken = np.zeros(studies)
    bare = np.zeros(studies)
    for number, gap in enumerate(MINIATURE_GAPS):
        members = np.flatnonzero((chosen == number).any(axis=1))
        if not len(members):
            continue
        found = _measure(rng, rule, gap, (len(members), num_examples))
        outcomes.append(found)
        taken[members] += found.rollouts + CONTROLS * np.minimum(found.rollouts, num_examples * rule.first_rollouts)
        bare[members] = np.maximum(bare[members], found.rollouts)
    whole = num_examples * rule.rollouts
    # The student answers every example with all rollouts in both designs: training is measured against it.
    paid = whole + bare + taken
    fixed = whole * (2 + configs * (1 + CONTROLS))
    return _summary(outcomes, float(paid.mean() / fixed), studies, rule)


def _measure(rng: np.random.Generator, rule: StoppingRule, gap: float, shape: tuple[int, int]) -> _Outcome:
    planted = plant(rng, shape, 1, student=STUDENT, gap=gap)
    student = answered(rng, planted.student_DE, rule.rollouts)
    parts = (rule.first_rollouts, rule.rollouts - rule.first_rollouts)
    first, rest = (answered(rng, planted.teacher_DE, max(part, 1)) for part in parts)
    teacher = (first * parts[0] + rest * parts[1]) / rule.rollouts
    final = [paired_difference(t, s, planted.units) for t, s in zip(teacher, student, strict=True)]
    sequence = betting_bounds(first - student, np.ones(shape[1]), level=rule.look_level)
    ends = np.array(list(rule.stages(unit_ends(planted.units)))) - 1
    fixed: list[Decision] = []
    adaptive: list[Decision] = []
    rollouts = np.zeros(shape[0])
    held = [0, 0, 0, 0]
    for study in range(shape[0]):
        bounds = final[study].interval(rule.level)
        fixed.append(rule.decided(bounds))
        held[0] += bool(bounds[0] <= gap <= bounds[1])
        looks = [(float(sequence.low[study, end]), float(sequence.high[study, end])) for end in ends]
        held[2] += all(low <= gap <= high for low, high in looks)
        stop = next((place for place, look in enumerate(looks) if rule.decided(look) != "open"), None)
        decision, ended = rule.final(final[study]) if stop is None else (rule.decided(looks[stop]), looks[stop])
        adaptive.append(decision)
        held[1] += bool(ended[0] <= gap <= ended[1])
        held[3] += stop is not None
        rollouts[study] = shape[1] * rule.rollouts if stop is None else (ends[stop] + 1) * rule.first_rollouts
    return _Outcome(gap, tuple(fixed), tuple(adaptive), held[0], held[1], held[2], rollouts, held[3])


def _summary(outcomes: list[_Outcome], share: float, studies: int, rule: StoppingRule) -> DesignComparison:
    pairs = [(o.gap, f, a) for o in outcomes for f, a in zip(o.fixed, o.adaptive, strict=True)]
    count = len(pairs)

    def wrong(gap: float, decision: Decision) -> bool:
        return (decision == "above" and gap < rule.threshold) or (decision == "below" and gap > rule.threshold)

    return DesignComparison(
        studies=studies,
        configs=count,
        rollouts_share=share,
        agree=sum(f == a != "open" for _, f, a in pairs) / max(1, sum(f != "open" for _, f, _ in pairs)),
        adaptive_open=sum(f != "open" and a == "open" for _, f, a in pairs) / count,
        opposite=sum({f, a} == {"above", "below"} for _, f, a in pairs) / count,
        fixed_wrong=sum(wrong(g, f) for g, f, _ in pairs) / count,
        adaptive_wrong=sum(wrong(g, a) for g, _, a in pairs) / count,
        fixed_coverage=sum(o.fixed_held for o in outcomes) / count,
        adaptive_coverage=sum(o.adaptive_held for o in outcomes) / count,
        sequence_coverage=sum(o.sequence_held for o in outcomes) / count,
        stopped_early=sum(o.early for o in outcomes) / count,
    )
