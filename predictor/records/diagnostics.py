"""Where student and self-teacher differ token by token, and how much of a hint its answers repeat."""

from __future__ import annotations

from predictor.records.base import Provenance, Record
from predictor.records.estimate import Estimate


class PositionProfile(Record):
    """Mean divergence at each position of the completion, first token first, in nats."""

    forward_kl: tuple[float, ...]
    """KL(teacher‖student)."""
    reverse_kl: tuple[float, ...]
    """KL(student‖teacher)."""
    num_rollouts: tuple[int, ...]
    """Rollouts that are at least so long."""


class TokenDiagnostics(Record):
    """The student's stored rollouts, scored after its own prompt and after the hinted one.

    Macro-averaged over examples; distributions are softmax(logits / sampling temperature), as in training.
    """

    forward_kl: Estimate
    """KL(teacher‖student) per token, in nats."""
    reverse_kl: Estimate
    """KL(student‖teacher) per token, in nats."""
    top1_disagreement: Estimate
    """Share of tokens at which the most likely tokens differ."""
    correctness_alignment: Estimate | None
    """Mean log-ratio of right rollouts minus that of wrong ones; None when no example has both."""
    privilege_margin: Estimate
    """Mean of (2r-1) times the log-ratio per token, r = 1 for a right rollout and 0 for a wrong one."""
    format_share: Estimate
    """Share of the divergence (forward plus reverse) on format tokens: no letter or digit, or special."""
    marker_share: Estimate
    """Share of the divergence (forward plus reverse) on words of correction (`wait`, `however`, …)."""
    student_entropy: Estimate
    teacher_entropy: Estimate
    """Entropy of the next-token distribution, in nats per token."""
    quarter_shares: tuple[float, float, float, float]
    """Share of the divergence in each quarter of the completion."""
    profile: PositionProfile
    num_rollouts: int
    num_tokens: int


class LeakAudit(Record):
    """How much of the hint the teacher's stored rollouts repeat, beside the same for the student's rollouts."""

    answer_in_hint: Estimate | None
    """Share of examples whose reference answer stands in the hint; None when no example has a reference."""
    ngram_overlap: Estimate | None
    """Share of the teacher's word 4-grams that stand in the hint; None without a completion that has words."""
    student_ngram_overlap: Estimate | None
    """The same for rollouts that never saw the hint: what repeats by chance."""
    last_step_overlap: Estimate | None
    """Share of the words of the teacher's last step that stand in the hint's last step."""


class HintDiagnostics(Record):
    """Token diagnostics and leak audit of one hint config; one line of diagnostics.jsonl."""

    hint: str
    tokens: TokenDiagnostics | None
    """None when the hint could be built for no scored rollout."""
    leaks: LeakAudit
    provenance: Provenance
