"""From stored scores to a reweighted consensus gap, or to the reason why there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from predictor.config import StudyConfig
from predictor.errors import DataError
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.estimates import Measured
from predictor.probe.reweight.collect import proposal_arms
from predictor.records import ConsensusDetail, Estimate, GapEstimate, HintConfig
from predictor.records.reweighted import ReweightedConsensus
from predictor.stats import Accuracies, Reweighting, ScoredExample, reweight

_LEAST_COVERED = 0.85
"""Rollouts that stand for less of the policy's mass miss a part of it that may be right or wrong throughout."""
_MOST_COVERED = 1.0 / _LEAST_COVERED
_UNKNOWN = Estimate(value=math.nan, stderr=math.nan, num_units=0, kind="share")


class Reweighter:
    """Adds reweighted consensus gaps to what the probe concluded, where the study asks for them."""

    def __init__(self, config: StudyConfig, factory: ArmFactory, measured: Measured, scores: pd.DataFrame) -> None:
        self._config = config
        self._factory = factory
        self._measured = measured
        self._scores = {str(key): group for key, group in scores.groupby("arm_key", sort=False)}

    def added(self, gap: GapEstimate, hint: HintConfig) -> GapEstimate:
        """The gap with its reweighted consensus: beside the decoded one, or in its place when it alone is asked."""
        arm = self._factory.consensus(hint, self._config.training.resolved.consensus_mean)
        mode = self._config.probe.consensus_estimator
        if mode == "ensemble" or hint.kind in ("none", "static"):
            return gap
        found = self._reweighted(hint, arm)
        if found is None:
            return gap
        if mode == "both" and gap.consensus_detail is not None:
            detail = gap.consensus_detail.model_copy(update={"reweighted": found})
            return gap.model_copy(update={"consensus_detail": detail})
        student = self._measured.accuracies(self._factory.student())
        detail = ConsensusDetail(
            mean=self._config.training.resolved.consensus_mean,
            num_hints=self._config.probe.consensus_hints,
            estimator="reweight",
            student=student.estimate(),
            consensus=found.consensus or _UNKNOWN,
            reweighted=found,
        )
        return gap.model_copy(update={"consensus_gap": found.gap, "consensus_detail": detail})

    def _reweighted(self, hint: HintConfig, arm: Arm) -> ReweightedConsensus | None:
        """None before anything was scored."""
        if self._config.sampling.temperature == 0.0:
            return _refused("at temperature 0 stored rollouts have no sampling law to be reweighted from")
        if arm.key not in self._scores:
            return None
        arms = [proposal for proposal in proposal_arms(self._factory, hint) if self._measured.has(proposal)]
        rollouts = pd.concat([self._measured.frame(proposal) for proposal in arms])
        student = self._measured.accuracies(self._factory.student())
        examples, differences = scored_examples(self._scores[arm.key], rollouts, student)
        if not examples:
            return _refused("no example has both a judged student rollout and a scored one")
        return self._concluded(reweight(examples), len(examples), differences)

    def _concluded(self, found: Reweighting, num_examples: int, differences: list[float]) -> ReweightedConsensus:
        reason = self._refusal(found, num_examples)
        return ReweightedConsensus(
            consensus=None if reason else found.accuracy,
            gap=None if reason else found.gap,
            refused=reason,
            effective_rollouts=found.effective_rollouts,
            covered=found.covered,
            stderr_hints=found.stderr_hints,
            num_rollouts=found.num_rollouts,
            engine_difference=float(np.mean(differences)),
            engine_difference_p99=float(np.quantile(differences, 0.99)),
        )

    def _refusal(self, found: Reweighting, num_examples: int) -> str:
        least = self._config.probe.least_effective_rollouts * num_examples
        if not found.effective_rollouts >= least:
            return (
                f"effective sample size {found.effective_rollouts:.0f} of {found.num_rollouts} rollouts is below "
                f"{least:.0f} (probe.least_effective_rollouts for each of {num_examples} examples)"
            )
        if not _LEAST_COVERED <= found.covered.value <= _MOST_COVERED:
            return (
                f"the stored rollouts stand for {found.covered.value:.2f} of the consensus policy's mass, "
                f"not for {_LEAST_COVERED:.2f} to {_MOST_COVERED:.2f} of it"
            )
        return ""


def scored_examples(
    scores: pd.DataFrame, rollouts: pd.DataFrame, student: Accuracies
) -> tuple[list[ScoredExample], list[float]]:
    """Each scored example with its rollouts, and each rollout's difference between engines in nats per token.

    DataError when a rollout under a scored prompt has no score.
    """
    by_example = {str(name): group for name, group in rollouts.groupby("example_id", sort=False)}
    examples, differences = [], []
    for name, rows in scores.groupby("example_id", sort=False):
        if str(name) in student.by_example and str(name) in by_example:
            example, between = _scored_example(rows, by_example[str(name)], student.by_example[str(name)])
            examples.append(example)
            differences += between
    return examples, differences


def _scored_example(rows: pd.DataFrame, rollouts: pd.DataFrame, student: float) -> tuple[ScoredExample, list[float]]:
    proposals = list(rows["proposals"].iloc[0])
    place = {tuple(map(int, ids)): number for number, ids in enumerate(rows["completion_ids"])}
    raw_DQ = np.array(rows["raw_logprobs"].tolist(), dtype=np.float64)
    copies_D, correct_D = np.zeros(len(place)), np.full(len(place), math.nan)
    drawn_Q = np.zeros(len(proposals))
    between = []
    used = rollouts[rollouts["prompt_hash"].isin(proposals)]
    columns = (used[name] for name in ("prompt_hash", "completion_ids", "correct", "logprob_sum"))
    for prompt, ids, correct, logprob_sum in zip(*columns, strict=True):
        number = _place(place, ids, str(rows["example_id"].iloc[0]))
        proposal = proposals.index(prompt)
        copies_D[number] += 1
        drawn_Q[proposal] += 1
        correct_D[number] = math.nan if pd.isna(correct) else float(correct)
        between.append(abs(float(raw_DQ[number, proposal]) - logprob_sum) / len(ids))
    present_Q = drawn_Q > 0
    example = ScoredExample(
        unit=str(rollouts["unit"].iloc[0]),
        policy_D=rows["policy_logprob"].to_numpy(dtype=np.float64),
        without_DG=np.array(rows["without_logprobs"].tolist(), dtype=np.float64).reshape(len(rows), -1),
        proposals_DQ=np.array(rows["proposal_logprobs"].tolist(), dtype=np.float64)[:, present_Q],
        drawn_Q=drawn_Q[present_Q],
        copies_D=copies_D,
        correct_D=correct_D,
        student=student,
    )
    return example, between


def _place(place: dict[tuple[int, ...], int], ids: Any, example_id: str) -> int:
    number = place.get(tuple(map(int, ids)))
    if number is None:
        raise DataError(
            "a stored rollout has no score under the consensus policy",
            where=f"example `{example_id}`",
            fix="run `gapcast probe` again, which scores what is missing",
        )
    return number


def _refused(reason: str) -> ReweightedConsensus:
    return ReweightedConsensus(
        consensus=None,
        gap=None,
        refused=reason,
        effective_rollouts=0.0,
        covered=_UNKNOWN.model_copy(update={"kind": "mean"}),
        stderr_hints=math.nan,
        num_rollouts=0,
        engine_difference=math.nan,
        engine_difference_p99=math.nan,
    )
