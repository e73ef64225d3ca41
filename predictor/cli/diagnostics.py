"""Token diagnostics and leak audit as two tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from predictor.cli.show import nulls, print_table
from predictor.records import Estimate
from predictor.records.diagnostics import HintDiagnostics

TOKEN_COLUMNS = ("hint config", "fwd KL", "rev KL", "top-1", "alignment", "margin", "format", "marker", "H(S)", "H(T)")
LEAK_COLUMNS = ("hint config", "answer in hint", "4-grams", "by chance", "last step", "KL by quarter")
_TOKEN_FIELDS = (
    "forward_kl",
    "reverse_kl",
    "top1_disagreement",
    "correctness_alignment",
    "privilege_margin",
    "format_share",
    "marker_share",
    "student_entropy",
    "teacher_entropy",
)
_LEAK_FIELDS = ("answer_in_hint", "ngram_overlap", "student_ngram_overlap", "last_step_overlap")


def print_diagnostics(found: Sequence[HintDiagnostics], level: float) -> None:
    """Tokens (nats per token, shares of 1, half-widths behind ±) and leaks; nothing without diagnostics."""
    if not found:
        return
    tokens = [
        [item.hint, *(brief(getattr(item.tokens, name) if item.tokens else None, level) for name in _TOKEN_FIELDS)]
        for item in found
    ]
    print_table(f"Student against teacher, per token (± half of {100 * level:.0f} %)", TOKEN_COLUMNS, tokens)
    leaks = []
    for item in found:
        quarters = "–" if item.tokens is None else " ".join(f"{share:.2f}" for share in item.tokens.quarter_shares)
        leaks.append([item.hint, *(brief(getattr(item.leaks, name), level) for name in _LEAK_FIELDS), quarters])
    print_table("How much of the hint is repeated", LEAK_COLUMNS, leaks)


def brief(estimate: Estimate | None, level: float) -> str:
    """`0.31 ±0.04`: the value and half the width of its interval; a dash where there is none."""
    if estimate is None:
        return "–"
    low, high = estimate.interval(level)
    return f"{estimate.value:.2f} ±{(high - low) / 2:.2f}"


def diagnostics_json(found: Sequence[HintDiagnostics], level: float) -> list[dict[str, Any]]:
    """One object for each hint config; unknown numbers are null."""
    shown = []
    for item in found:
        leaks = {name: _json(getattr(item.leaks, name), level) for name in _LEAK_FIELDS}
        tokens: dict[str, Any] | None = None
        if item.tokens is not None:
            tokens = {name: _json(getattr(item.tokens, name), level) for name in _TOKEN_FIELDS}
            rest = ("quarter_shares", "profile", "num_rollouts", "num_tokens")
            tokens |= nulls(item.tokens.model_dump(mode="json", include=set(rest)))
        shown.append({"hint": item.hint, "tokens": tokens, "leaks": leaks})
    return shown


def _json(estimate: Estimate | None, level: float) -> dict[str, Any] | None:
    return None if estimate is None else estimate.as_json(level)
