"""What the probe concludes about one hint config."""

from __future__ import annotations

from typing import Literal

from predictor.records.base import Provenance, Record
from predictor.records.data import Mean
from predictor.records.estimate import Estimate
from predictor.records.hints import Gating, HintKind
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


class Estimands(Record):
    """Every number of a hint config under the name of what it estimates.

    `macro` counts each example once, whatever its number of rollouts; `pooled` counts each rollout once. Both have
    standard errors over examples or clusters, never over rollouts.
    """

    gap_macro: Estimate | None = None
    """Mean over examples of teacher accuracy minus student accuracy: the headline `gap`."""
    gap_pooled: Estimate | None = None
    """Share of correct teacher rollouts minus share of correct student rollouts, all rollouts pooled."""
    net_gap_macro: Estimate | None = None
    """Mean over examples of teacher accuracy minus accuracy of the bare resample under the same gating."""
    transferable_gap_macro: Estimate | None = None
    """Mean over examples of accuracy under another example's hint minus student accuracy."""
    consensus_gap_macro: Estimate | None = None
    """Mean over examples of the consensus policy's accuracy minus student accuracy."""
    recovery_pooled: Estimate | None = None
    """P(teacher right | student rollout wrong), every failed rollout counted once: the headline `recovery`."""
    recovery_macro: Estimate | None = None
    """The same, averaged over the examples with at least one failed rollout, each counted once."""
    net_recovery_pooled: Estimate | None = None
    """`recovery_pooled` minus that of the bare resample on the same failed rollouts: without it, luck looks like
    teaching."""
    harm_pooled: Estimate | None = None
    """P(teacher wrong | student rollout right), every correct rollout counted once: the headline `harm`."""
    harm_macro: Estimate | None = None
    """The same, averaged over the examples with at least one correct rollout, each counted once."""
    coverage_pooled: Estimate | None = None
    """Share of rollouts that were answered under a context: the others could not be given one, or the gating hid it."""
    copy_rate_macro: Estimate | None = None
    """Mean over examples of the share of teacher rollouts whose whole text stands verbatim in the hint."""
    same_output_pooled: Estimate | None = None
    """P(the teacher gives the very answer of the failed attempt | student rollout wrong), failed rollouts pooled."""
    truncated_pooled: Estimate | None = None
    """Share of teacher rollouts with finish reason `length`."""
    undecided_pooled: Estimate | None = None
    """Share of teacher rollouts that the checker could not judge; they are in no accuracy."""
    repeated_pooled: Estimate | None = None
    """Share of examples whose several rollouts are all token for token the same: at temperature above 0, near 1 means
    that a seed was used twice."""


class Stopping(Record):
    """How an adaptive probe ended for one hint config, and the rule that made it valid to look often."""

    rule: str
    """The stopping rule in one sentence, with its numbers."""
    decided: Literal["above", "below", "open"]
    """Against the study's threshold; `open` when all examples and rollouts were used up."""
    threshold: float
    """plan.threshold when it stopped."""
    examples: int
    """Held-out examples that the hint config and its controls answered."""
    rollouts: int
    """Rollouts of each of them."""
    looks: int
    """How often the rule looked."""
    low: float
    """Lower end of the interval that holds at every look at once."""
    high: float
    """Upper end of it."""
    level: float
    """Its coverage."""


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
    """Student accuracy without a hint: mean over held-out examples of the share of rollouts judged correct."""
    teacher: Estimate
    """The same weights' accuracy with the hint: mean over the examples that this hint config answered."""
    gap: Estimate
    """Mean over examples of teacher accuracy minus student accuracy, at initialisation, with the same decoding."""
    net_gap: Estimate | None = None
    """Gap minus the gap of the `none` arm (a bare resample with fresh seeds) under the same gating, paired by example;
    with `failed` gating this one predicts."""
    transferable_gap: Estimate | None = None
    """Accuracy under another example's hint minus student accuracy."""
    consensus_gap: Estimate | None = None
    """Accuracy of the consensus policy minus student accuracy."""
    consensus_detail: ConsensusDetail | None = None
    """How the consensus gap was obtained."""
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
    estimands: Estimands | None = None
    """Every number under a name that says what it averages; None in records of earlier versions."""
    gating: Gating = "all"
    """Which rollouts saw the hint."""
    stopping: Stopping | None = None
    """How an adaptive probe ended here; None for a fixed design."""
    num_rollouts: int
    """Rollouts that the teacher's numbers are made of, bare resamples behind a gate included."""
    baseline_id: str
    """Identity of the student arm: equal ids share one measurement."""
    decoding: str
    """Hash of the sampling settings."""
    provenance: Provenance
