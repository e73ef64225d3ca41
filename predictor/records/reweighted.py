"""The consensus gap as stored rollouts give it, without generating anything."""

from __future__ import annotations

from predictor.records.base import Record
from predictor.records.estimate import Estimate


class ReweightedConsensus(Record):
    """Stored rollouts reweighted to the consensus policy; refused where they say too little about it."""

    consensus: Estimate | None
    """Accuracy of the consensus policy, over examples that draw their hints independently; None when refused."""
    gap: Estimate | None
    """That accuracy minus the student's, paired over examples; None when refused."""
    refused: str = ""
    """Why there is no estimate; empty when there is one."""
    effective_rollouts: float
    """So many rollouts of the consensus policy itself would say as much (Kish's effective sample size)."""
    covered: Estimate
    """Share of the policy's mass that the stored rollouts stand for; 1 when they miss nothing."""
    stderr_hints: float
    """Part of the standard error that comes from which hints were drawn; NaN with fewer than two groups of hints."""
    num_rollouts: int
    """Stored rollouts that were reweighted."""
    engine_difference: float
    """Mean absolute difference in nats per token between the engine that sampled and the one that scored."""
    engine_difference_p99: float
    """99th percentile of the same over rollouts."""
