"""Statistics of judged rollouts: the unit is the example or its cluster, never the rollout."""

from predictor.stats.accuracy import (
    Accuracies,
    accuracies,
    difference,
    harm,
    paired_difference,
    pooled_difference,
    recovery,
)
from predictor.stats.clusters import cluster_mean, unit_index, unit_totals
from predictor.stats.importance import Reweighting, ScoredExample, reweight
from predictor.stats.power import (
    design_effect,
    distinct_samples,
    examples_needed,
    gap_stderr,
    minimal_detectable_gap,
    power_to_detect,
    repeated_samples,
    share_interval,
)
from predictor.stats.resample import bootstrap_mean, bootstrap_statistic, percentile_interval, resampling_weights
from predictor.stats.sequences import ConfidenceSequence, betting_bounds, betting_sequence
from predictor.stats.stopping import Decision, StoppingRule, in_unit_order, unit_ends

__all__ = [
    "Accuracies",
    "ConfidenceSequence",
    "Decision",
    "Reweighting",
    "ScoredExample",
    "StoppingRule",
    "accuracies",
    "betting_bounds",
    "betting_sequence",
    "bootstrap_mean",
    "bootstrap_statistic",
    "cluster_mean",
    "design_effect",
    "difference",
    "distinct_samples",
    "examples_needed",
    "gap_stderr",
    "harm",
    "in_unit_order",
    "minimal_detectable_gap",
    "paired_difference",
    "percentile_interval",
    "pooled_difference",
    "power_to_detect",
    "recovery",
    "repeated_samples",
    "resampling_weights",
    "reweight",
    "share_interval",
    "unit_ends",
    "unit_index",
    "unit_totals",
]
