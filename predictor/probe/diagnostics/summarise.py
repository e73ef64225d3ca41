"""From token contrasts to the numbers of a hint config: pure arithmetic on stored lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictor.probe.diagnostics.tokens import FORMAT, MARKER
from predictor.records import Estimate
from predictor.records.diagnostics import PositionProfile, TokenDiagnostics
from predictor.stats import cluster_mean

Floats = NDArray[np.float64]
_MOST_POSITIONS = 128
_QUARTERS = 4


@dataclass(frozen=True)
class ScoredRollout:
    """One rollout's token contrasts (T) with what the statistics need to know about it."""

    example_id: str
    unit: str
    correct: bool | None
    kinds_T: NDArray[np.int8]
    columns: Mapping[str, Floats]
    """The float lists of ContrastRow by name."""

    @property
    def divergence_T(self) -> Floats:
        """Forward plus reverse KL (Jeffreys' divergence) at each token."""
        return self.columns["forward_kl"] + self.columns["reverse_kl"]

    @property
    def log_ratio(self) -> float:
        """Mean over tokens of log teacher minus log student probability of the sampled token."""
        return float((self.columns["teacher_logprob"] - self.columns["student_logprob"]).mean())


def summarise(rollouts: Sequence[ScoredRollout]) -> TokenDiagnostics | None:
    """Everything about one hint config's tokens; None without rollouts."""
    if not rollouts:
        return None
    groups: dict[str, list[ScoredRollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.example_id, []).append(rollout)
    examples = list(groups.values())

    def per_token(name: str, kind: str = "mean") -> Estimate:
        found = _macro(examples, [[float(r.columns[name].mean()) for r in group] for group in examples])
        return found.model_copy(update={"kind": kind})

    return TokenDiagnostics(
        forward_kl=per_token("forward_kl"),
        reverse_kl=per_token("reverse_kl"),
        top1_disagreement=per_token("disagrees", "share"),
        correctness_alignment=correctness_alignment(examples),
        privilege_margin=privilege_margin(examples),
        format_share=_kind_share(examples, FORMAT),
        marker_share=_kind_share(examples, MARKER),
        student_entropy=per_token("student_entropy"),
        teacher_entropy=per_token("teacher_entropy"),
        quarter_shares=quarter_shares(rollouts),
        profile=profile(rollouts),
        num_rollouts=len(rollouts),
        num_tokens=sum(len(r.kinds_T) for r in rollouts),
    )


def correctness_alignment(examples: Sequence[Sequence[ScoredRollout]]) -> Estimate | None:
    """Mean over examples with both outcomes of: log-ratio of right rollouts minus that of wrong ones."""
    values, units = [], []
    for group in examples:
        right = [r.log_ratio for r in group if r.correct is True]
        wrong = [r.log_ratio for r in group if r.correct is False]
        if right and wrong:
            values.append(float(np.mean(right) - np.mean(wrong)))
            units.append(group[0].unit)
    return cluster_mean(values, units) if values else None


def privilege_margin(examples: Sequence[Sequence[ScoredRollout]]) -> Estimate:
    """Mean over examples of the log-ratio, its sign turned for wrong rollouts; undecided ones are left out."""
    judged = [[r for r in group if r.correct is not None] for group in examples]
    judged = [group for group in judged if group]
    return _macro(judged, [[r.log_ratio if r.correct else -r.log_ratio for r in group] for group in judged])


def _kind_share(examples: Sequence[Sequence[ScoredRollout]], kind: int) -> Estimate:
    """Divergence on tokens of one kind over all divergence; examples count by their divergence. NaN without any."""
    total = np.array([sum(float(r.divergence_T.sum()) for r in group) for group in examples])
    of_kind = [sum(float(r.divergence_T[r.kinds_T == kind].sum()) for r in group) for group in examples]
    shares = np.divide(of_kind, total, out=np.zeros(len(total)), where=total > 0.0)
    return cluster_mean(shares, [group[0].unit for group in examples], weights_E=total, kind="share")


def quarter_shares(rollouts: Sequence[ScoredRollout]) -> tuple[float, float, float, float]:
    """Share of all divergence in each quarter of the completion (arXiv 2609.20612); NaN without divergence.

    Token t of T belongs to quarter floor(4t/T), so completions of fewer than four tokens leave quarters empty.
    """
    sums = np.zeros(_QUARTERS)
    for rollout in rollouts:
        places = _QUARTERS * np.arange(len(rollout.kinds_T)) // len(rollout.kinds_T)
        sums += np.bincount(places, weights=rollout.divergence_T, minlength=_QUARTERS)
    with np.errstate(invalid="ignore"):
        first, second, third, fourth = (sums / sums.sum()).tolist()
    return (first, second, third, fourth)


def profile(rollouts: Sequence[ScoredRollout]) -> PositionProfile:
    """Mean divergences at each of the first 128 positions over the rollouts that reach it."""
    longest = min(_MOST_POSITIONS, max(len(r.kinds_T) for r in rollouts))
    count, forward, reverse = np.zeros(longest, dtype=np.int64), np.zeros(longest), np.zeros(longest)
    for rollout in rollouts:
        length = min(longest, len(rollout.kinds_T))
        count[:length] += 1
        forward[:length] += rollout.columns["forward_kl"][:length]
        reverse[:length] += rollout.columns["reverse_kl"][:length]
    return PositionProfile(
        forward_kl=tuple((forward / count).tolist()),
        reverse_kl=tuple((reverse / count).tolist()),
        num_rollouts=tuple(count.tolist()),
    )


def _macro(examples: Sequence[Sequence[ScoredRollout]], values: Sequence[Sequence[float]]) -> Estimate:
    return cluster_mean([float(np.mean(own)) for own in values], [group[0].unit for group in examples])
