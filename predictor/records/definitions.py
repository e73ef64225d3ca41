"""What each number of the token diagnostics and of the reweighted consensus gap means, for `--explain` and the report.

Notation: S and T are student and self-teacher at one token of a stored student rollout, softmax(logits / sampling
temperature); y is the sampled token; r is 1 for a right rollout and 0 for a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Definition:
    """One number: what it is, its unit, how to read it, and where it comes from."""

    what: str
    unit: str
    reads: str
    source: str


_NATS = "nats per token"
_SHARE = "share of 1"
DEFINITIONS: Final[dict[str, Definition]] = {
    "forward_kl": Definition(
        "KL(T‖S) over the whole vocabulary, averaged over a rollout's tokens, then rollouts, then examples",
        _NATS,
        "size of the training signal of forward KL; large where the teacher wants what the student never does",
        "arXiv 2601.20802 (SDPO), section 3.1 with alpha 0; arXiv 2601.18734 (OPSD)",
    ),
    "reverse_kl": Definition(
        "KL(S‖T) over the whole vocabulary, averaged like forward_kl",
        _NATS,
        "size of the training signal of reverse KL; low values can also mean a teacher that follows a broken prefix "
        "(arXiv 2606.09471)",
        "arXiv 2601.20802 (SDPO), section 3.1 with alpha 1",
    ),
    "top1_disagreement": Definition(
        "share of tokens at which the most likely token of T is not that of S",
        _SHARE,
        "how often the hint changes the greedy choice",
        "this package; full-vocabulary comparison as in arXiv 2605.11182",
    ),
    "correctness_alignment": Definition(
        "mean over examples with both outcomes of: D of right rollouts minus D of wrong ones, D = mean over tokens of "
        "log T(y) - log S(y)",
        _NATS,
        "above 0 the hint prefers right rollouts: distillation pushes the right way; unlike KL it has a sign",
        "arXiv 2609.20612, C_k",
    ),
    "privilege_margin": Definition(
        "mean of (2r - 1) times D, undecided rollouts left out",
        _NATS,
        "above 0 the teacher rewards right rollouts and punishes wrong ones on average",
        "arXiv 2609.20612 (Delta_k); methods that weight by it are called LOPD",
    ),
    "format_share": Definition(
        "share of forward plus reverse KL that falls on tokens without a letter or digit, or special tokens",
        _SHARE,
        "near 1 the hint teaches layout and length rather than content",
        "this package, after the marker loss of arXiv 2609.20612",
    ),
    "marker_share": Definition(
        "share of forward plus reverse KL that falls on words of correction (wait, however, actually, …)",
        _SHARE,
        "high values go with style drift: the student learns to doubt, not to solve",
        "arXiv 2609.20612, marker pressure",
    ),
    "student_entropy": Definition(
        "entropy of S",
        _NATS,
        "a student without entropy samples nothing new to learn from",
        "arXiv 2601.20802, table 6",
    ),
    "teacher_entropy": Definition(
        "entropy of T at the student's tokens",
        _NATS,
        "falls as the hint decides the answer",
        "arXiv 2601.20802, table 6",
    ),
    "quarter_shares": Definition(
        "share of forward plus reverse KL in each quarter of the completion",
        _SHARE,
        "where the signal lies; a peak in the first quarter of thinking models often is a template mismatch",
        "arXiv 2609.20612, temporal KL allocation",
    ),
    "profile": Definition(
        "forward_kl and reverse_kl at each position over the rollouts that reach it",
        "nats",
        "a spike at the first token says that both prompts end differently",
        "this package",
    ),
    "answer_in_hint": Definition(
        "share of examples whose reference answer stands in the hint, as whole words",
        _SHARE,
        "at 1 the teacher can copy, and its accuracy says little about what a student can learn",
        "this package; arXiv 2609.20612 asserts teacher accuracy .97 for such hints",
    ),
    "ngram_overlap": Definition(
        "share of the word 4-grams of the teacher's rollouts that stand in the hint",
        _SHARE,
        "compare with student_ngram_overlap: the excess was copied",
        "this package",
    ),
    "student_ngram_overlap": Definition(
        "the same for the student's rollouts, which never saw the hint",
        _SHARE,
        "what repeats by chance",
        "this package",
    ),
    "last_step_overlap": Definition(
        "share of the words of the teacher's last line or sentence that stand in the hint's last one",
        _SHARE,
        "high values mean that the conclusion was copied",
        "this package",
    ),
    "effective_rollouts": Definition(
        "(sum w)^2 / sum w^2 over stored rollouts with weights w = consensus law / mixture of their sampling laws",
        "rollouts",
        "so many rollouts of the consensus policy itself would say as much",
        "Kish 1965",
    ),
    "covered": Definition(
        "mean over examples of the sum over distinct completions of p/pi, with p the consensus law and pi the "
        "probability that the completion was drawn at all",
        _SHARE,
        "1 when nothing is missed; below, a part of the policy was never seen",
        "Horvitz and Thompson 1952; arXiv 2002.06043",
    ),
    "stderr_hints": Definition(
        "delete-a-group jackknife over the hints that each example drew, as a standard error of the mean",
        _SHARE,
        "the part of the standard error that more probe.consensus_hints would shrink",
        "this package",
    ),
}
"""By the name under which `--json` prints it."""


def explain(name: str) -> str:
    """A definition as one paragraph; KeyError for an unknown name."""
    found = DEFINITIONS[name]
    return f"{name} ({found.unit}): {found.what}. Reads as: {found.reads}. Source: {found.source}."
