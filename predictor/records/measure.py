"""What the probe concludes about one hint config."""

from __future__ import annotations

from predictor.records.base import Provenance, Record
from predictor.records.data import HintKind, Mean
from predictor.records.estimate import Estimate
from predictor.records.reweighted import ReweightedConsensus


class ConsensusDetail(Record):
    """How a consensus gap was obtained."""

    mean: Mean
    """Which mean of the teachers' distributions; it follows the divergence that training minimises."""
    num_hints: int
    """Other examples' hints averaged for each example."""
    estimator: str
    """`ensemble` (decoded from the mean), `reweight` (from stored rollouts), or `identical` (one hint for all)."""
    student: Estimate
    """The student measured by the same engine on the same examples; the consensus gap subtracts this one."""
    consensus: Estimate
    """Accuracy of the consensus policy; its standard error is over examples, each with its own draw of hints."""
    reweighted: ReweightedConsensus | None = None
    """The same from stored rollouts, where the study asks for it."""


class GapEstimate(Record):
    """Gap of one hint config (or of one of its controls) at initialisation, paired over examples.

    Every difference is macro-averaged: each example counts once, whatever its number of rollouts.
    """

    model: str
    family: str
    task: str
    """Key of the task: its questions and its checker."""
    hint: str
    kind: HintKind
    is_control: bool = False
    control_of: str | None = None
    """The hint config that a control belongs to."""
    student: Estimate
    teacher: Estimate
    gap: Estimate
    net_gap: Estimate | None = None
    """Gap minus the gap of the `none` arm (a bare resample with fresh seeds)."""
    transferable_gap: Estimate | None = None
    """Accuracy under another example's hint minus student accuracy."""
    consensus_gap: Estimate | None = None
    """Accuracy of the consensus policy minus student accuracy."""
    consensus_detail: ConsensusDetail | None = None
    recovery: Estimate | None = None
    """P(teacher right | student wrong), over examples weighted by their failures."""
    harm: Estimate | None = None
    """P(teacher wrong | student right), over examples weighted by their successes."""
    copy_rate: Estimate | None = None
    """Share of the teacher's rollouts whose text stands verbatim in the hint."""
    coverage: float = 1.0
    """Share of examples for which the hint could be built."""
    truncated: float = 0.0
    """Share of the teacher's rollouts with finish reason `length`."""
    undecided: float = 0.0
    """Share of the teacher's rollouts that the checker could not judge."""
    num_rollouts: int
    baseline_id: str
    """Identity of the student arm: equal ids share one measurement."""
    decoding: str
    """Hash of the sampling settings."""
    provenance: Provenance
