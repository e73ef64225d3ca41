"""Accuracy of a policy that nobody sampled, from rollouts of other policies that it can score.

Every example has D distinct completions y, drawn by Q prompts: prompt a sampled n_a of them from its own law q_a. The
policy's law is p. A completion counts once, divided by the probability that it was drawn at all,

    pi(y) = 1 - prod_a (1 - q_a(y))^n_a,        accuracy = sum_y p(y)/pi(y)·correct(y)  /  sum_y p(y)/pi(y),

both sums over the distinct completions of all examples (Horvitz and Thompson 1952 over the balance heuristic's mixture,
Veach and Guibas 1995; Kool et al., arXiv 2002.06043). Where completions are long and never repeat, pi is n·q and this
is plain self-normalised importance sampling; where a short answer is drawn again and again, its share is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.errors import DataError
from predictor.records import Estimate
from predictor.stats.accuracy import paired_difference
from predictor.stats.clusters import cluster_mean

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Below this, 1 - (1 - q)^n is n·q to the last bit, and its logarithm is taken of the sum instead.
_RARE = 1e-9


@dataclass(frozen=True, slots=True)
class ScoredExample:
    """The distinct completions of one example, and what each law says about them (nats)."""

    unit: str
    """Independent unit (cluster, or the example itself)."""
    policy_D: Floats
    """Log-probability under the policy."""
    without_DG: Floats
    """The same under the policy without each group of hints."""
    proposals_DQ: Floats
    """Log-probability under each prompt that stored rollouts answered."""
    drawn_Q: Floats
    """Rollouts that each of those prompts has."""
    copies_D: Floats
    """How often each completion was drawn, over all prompts."""
    correct_D: Floats
    """1 right, 0 wrong, NaN undecided."""
    student: float
    """The student's accuracy on this example."""

    def weights(self, policy_D: Floats) -> Floats:
        """p(y)/pi(y) of each distinct completion; their sum has expectation 1."""
        with np.errstate(divide="ignore"):
            missed_D = (self.drawn_Q * np.log1p(-np.exp(np.minimum(self.proposals_DQ, 0.0)))).sum(axis=1)
        # A completion that every law calls nearly impossible was drawn all the same: its sum stays positive in logs.
        rare_D = np.logaddexp.reduce(np.log(self.drawn_Q) + self.proposals_DQ, axis=1)
        drawn_D = np.where(rare_D < math.log(_RARE), rare_D, np.log(-np.expm1(np.minimum(missed_D, -_RARE / 2))))
        return _ratio(policy_D, drawn_D)

    def copy_weights(self) -> Floats:
        """p/q of every single rollout under the mixture of its prompts, for the effective sample size."""
        mixture_D = np.logaddexp.reduce(np.log(self.drawn_Q / self.drawn_Q.sum()) + self.proposals_DQ, axis=1)
        return np.repeat(_ratio(self.policy_D, mixture_D), self.copies_D.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Reweighting:
    """What reweighting concludes, and how far it can be trusted."""

    accuracy: Estimate
    """Of the policy; the standard error is over examples, whose hints are drawn independently of each other."""
    gap: Estimate
    """Accuracy minus the student's, paired over examples."""
    effective_rollouts: float
    """Kish's (sum w)²/sum w² over all rollouts: so many plain samples of the policy would say as much."""
    covered: Estimate
    """Share of the policy's mass that the stored rollouts stand for; its expectation is 1 where nothing is missed."""
    stderr_hints: float
    """The part of the standard error that comes from which hints were drawn (jackknife over groups of hints)."""
    num_rollouts: int


def reweight(examples: Sequence[ScoredExample]) -> Reweighting:
    """The policy's accuracy over decided completions of all examples, and its difference from the student's."""
    if not examples:
        raise DataError("reweighting needs at least one example with stored rollouts")
    units = [example.unit for example in examples]
    weights = [example.weights(example.policy_D) for example in examples]
    right_E, mass_E = _sums(examples, weights)
    total = float(mass_E.sum())
    value = float(right_E.sum()) / total if total > 0.0 else math.nan
    covered = cluster_mean([float(w.sum()) for w in weights], units)
    if math.isnan(value):
        nothing = Estimate(value=math.nan, stderr=math.nan, num_units=0, kind="share")
        gap = nothing.model_copy(update={"kind": "difference"})
        return Reweighting(nothing, gap, 0.0, covered, math.nan, 0)
    # A ratio's influence: what each example adds to the sum that is 0 at the estimate (linearisation).
    influence_E = (right_E - value * mass_E) * (len(examples) / total)
    student_E = np.array([example.student for example in examples])
    copies = np.concatenate([example.copy_weights() for example in examples])
    policy_E = influence_E + value
    return Reweighting(
        accuracy=cluster_mean(policy_E, units, kind="share"),
        gap=paired_difference(policy_E, student_E, units),
        effective_rollouts=float(copies.sum() ** 2 / (copies**2).sum()),
        covered=covered,
        stderr_hints=_hint_error(examples, value, total),
        num_rollouts=len(copies),
    )


def _ratio(policy_D: Floats, drawn_D: Floats) -> Floats:
    """exp(policy - drawn), and 0 where the laws as scored could not have drawn what was drawn.

    That happens when `top_p` cuts at another token in the engine that scores; the lost mass shows in `covered`.
    """
    possible_D = np.isfinite(drawn_D)
    return np.where(possible_D, np.exp(policy_D - np.where(possible_D, drawn_D, 0.0)), 0.0)


def _sums(examples: Sequence[ScoredExample], weights: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Weight of right and of all decided completions of each example."""
    right = [float(w[e.correct_D == 1.0].sum()) for e, w in zip(examples, weights, strict=True)]
    mass = [float(w[np.isfinite(e.correct_D)].sum()) for e, w in zip(examples, weights, strict=True)]
    return np.array(right), np.array(mass)


def _hint_error(examples: Sequence[ScoredExample], value: float, total: float) -> float:
    """Delete-a-group jackknife of each example's influence over its own draw of hints, summed over examples."""
    num_groups = examples[0].without_DG.shape[1]
    if num_groups < 2:
        return math.nan
    without_GE = []
    for group in range(num_groups):
        right_E, mass_E = _sums(examples, [e.weights(e.without_DG[:, group]) for e in examples])
        without_GE.append(right_E - value * mass_E)
    spread_E = np.var(np.array(without_GE), axis=0) * (num_groups - 1)
    return math.sqrt(float(spread_E.sum())) / total
