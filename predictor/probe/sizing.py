"""How many examples and rollouts a probe needs for a wanted precision, and what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from predictor.probe.arms import ArmFactory
from predictor.probe.measured import Measured, Window
from predictor.records import HintConfig, Record
from predictor.records.distributions import normal_quantile, t_quantile
from predictor.stats import cluster_mean, gap_stderr, minimal_detectable_gap

PUBLISHED_BETWEEN, PUBLISHED_WITHIN = 0.0107, 0.193
"""Variance components of a paired gap behind the standard errors .0163 (131 examples x 8) and .0212 (131 x 4) that a
simulation of heterogeneous coding problems gave; they stand in where nothing has been measured yet."""
_FEWEST_EXAMPLES = 8


class Components(Record):
    """Where the variance of a paired gap comes from."""

    between_var: float
    """Variance over examples of the true difference."""
    within_var: float
    """Variance of one pair of rollouts of one example."""
    deff: float
    """Design effect of clusters: variance with them over variance without."""
    source: str
    """Measured on which hint config, or `published`."""


class ProbeSize(Record):
    """One way to reach the wanted half-width."""

    rollouts: int
    """Rollouts of each example in each arm."""
    examples: int
    """Held-out examples, the smallest number that reaches it."""
    total_rollouts: int
    """All arms together: the student, the bare resample, every hint config and control."""
    total_tokens: float
    """Completion tokens at the measured mean length, else at most; prompts come on top."""
    seconds: float
    """On the measured pace; NaN before anything was measured."""
    minimal_detectable_gap: float
    """Smallest gap seen with power .8 at the 5 % level."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """What one rollout costs, and how many arms there are."""

    arms: int
    tokens_per_rollout: float
    seconds_per_rollout: float


def measured_components(factory: ArmFactory, hints: tuple[HintConfig, ...], frame: pd.DataFrame) -> Components:
    """The components of the hint config whose gap varies most; the published ones before anything was measured."""
    measured = Measured.from_frame(frame)
    found = [_components(factory, hint, measured) for hint in hints if measured.has(factory.teacher(hint))]
    known = [components for components in found if components is not None]
    if not measured.has(factory.student()) or not known:
        return Components(
            between_var=PUBLISHED_BETWEEN, within_var=PUBLISHED_WITHIN, deff=1.0, source="published simulation"
        )
    return max(known, key=lambda components: components.deff * (components.between_var + components.within_var))


def sizes(components: Components, half_width: float, pricing: Pricing, *, level: float) -> list[ProbeSize]:
    """For 1, 2, 4, 8 and 16 rollouts the fewest examples whose t interval is that narrow, cheapest first.

    The interval that is printed later is about as wide, but wider where hardly any example is solved, or nearly all.
    """
    found = [_size(components, half_width, rollouts, pricing, level) for rollouts in (1, 2, 4, 8, 16)]
    return sorted(found, key=lambda size: size.total_rollouts)


def _size(components: Components, half_width: float, rollouts: int, pricing: Pricing, level: float) -> ProbeSize:
    one = gap_stderr(1, rollouts, between_var=components.between_var, within_var=components.within_var)
    one *= math.sqrt(components.deff)
    tail = 0.5 + level / 2
    examples = max(_FEWEST_EXAMPLES, math.floor((normal_quantile(tail) * one / half_width) ** 2))
    # The normal quantile asks for too few; the t quantile for how many there are settles it in a few steps.
    while t_quantile(max(examples / components.deff - 1, 1), tail) * one / math.sqrt(examples) > half_width:
        examples += 1
    total = examples * rollouts * pricing.arms
    return ProbeSize(
        rollouts=rollouts,
        examples=examples,
        total_rollouts=total,
        total_tokens=total * pricing.tokens_per_rollout,
        seconds=total * pricing.seconds_per_rollout,
        minimal_detectable_gap=minimal_detectable_gap(one, examples),
    )


def _components(factory: ArmFactory, hint: HintConfig, measured: Measured) -> Components | None:
    """From the spread of rollouts within examples and of differences between them; None with one rollout each."""
    if not measured.has(factory.student()) or factory.teacher(hint).is_gated:
        return None
    arms = [Window().of(measured.frame(arm)) for arm in (factory.teacher(hint), factory.student())]
    tables = [_by_example(arm) for arm in arms]
    both = tables[0].add_suffix("_t").join(tables[1].add_suffix("_s"), how="inner")
    both = both[(both["count_t"] > 1) & (both["count_s"] > 1)]
    if len(both) < 2:
        return None
    # p (1 - p) / (K - 1) is the unbiased variance of an example's mean over K rollouts.
    noise = sum(both[f"mean_{s}"] * (1 - both[f"mean_{s}"]) / (both[f"count_{s}"] - 1) for s in ("t", "s"))
    within = sum(
        both[f"mean_{s}"] * (1 - both[f"mean_{s}"]) * both[f"count_{s}"] / (both[f"count_{s}"] - 1) for s in ("t", "s")
    )
    values = (both["mean_t"] - both["mean_s"]).to_numpy()
    plain = cluster_mean(values).stderr
    clustered = cluster_mean(values, list(both["unit_t"])).stderr
    return Components(
        between_var=max(0.0, float(values.var(ddof=1)) - float(noise.mean())),
        within_var=float(within.mean()),
        deff=max(1.0, (clustered / plain) ** 2) if plain > 0.0 else 1.0,
        source=f"measured on `{hint.name}`, {len(both)} examples",
    )


def _by_example(rows: pd.DataFrame) -> pd.DataFrame:
    judged = rows.dropna(subset=["correct"])
    values = judged.assign(right=judged["correct"].astype(float)).groupby("example_id")
    return values["right"].agg(["mean", "count"]).join(values["unit"].first())
