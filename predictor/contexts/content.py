"""What a hint says about one example: the values its template sees, before they are placed in a prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.contexts.attempts import Attempt, choose_peer, peer_text, without_thinking
from predictor.contexts.corrupt import corrupt
from predictor.fields import lookup_field
from predictor.records import PEER_KINDS, Example, HintConfig, derive_seed

DEFAULT_TEMPLATES: dict[str, str] = {
    "solution": "A worked solution:\n{{ hint }}",
    "partial": "The beginning of a worked solution:\n{{ hint }}",
    "answer": "The answer is: {{ hint }}",
    "feedback": "An earlier attempt:\n{{ attempt }}\nFeedback on it:\n{{ hint }}",
    "own_attempt": "An earlier attempt:\n{{ hint }}",
    "peer_solution": "A worked solution:\n{{ hint }}",
    "key_hints": "Key hints:\n{{ hint }}",
    "all": (
        "{% if peer %}A worked solution:\n{{ peer }}\n{% endif %}"
        "{% if message %}Feedback on an earlier attempt:\n{{ message }}{% endif %}"
    ),
    "demonstrations": "{{ hint }}",
}
_DEFAULT_SOURCES: dict[str, str] = {
    "solution": "solution",
    "partial": "solution",
    "answer": "answer",
    "demonstrations": "answer",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Whose hint is written: the example, the student's attempt it answers to, and the attempts of the same group."""

    example: Example
    attempt: Attempt | None = None
    group: Sequence[Attempt] = ()
    message: str | None = None
    """Feedback that stands for the attempt's own (the `shuffled` control)."""
    corrupted: bool = False
    """Whether what the hint works out is made wrong (the `corrupted` control)."""


@dataclass(frozen=True, slots=True)
class HintValues:
    """Fills a hint's template; kind `none` has none to fill; everything random is derived from names and `seed`."""

    hint: HintConfig
    seed: int

    def of(self, situation: Situation) -> dict[str, str] | None:
        """Template values beside the example's fields; None when there is nothing to say.

        A name that means nothing to the kind stays undefined, so that a template using it is refused.
        """
        kind, attempt = self.hint.kind, situation.attempt
        if kind in ("static", "messages"):
            return {}
        # A demonstration works out another example's answer; it speaks of no attempt.
        shown = {"attempt": self._attempt_text(attempt)} if attempt and self.hint.reads_attempts else {}
        if kind == "all":
            return self._all(situation, shown)
        content = self._content(situation)
        return None if content is None else shown | {"hint": content}

    def peer(self, situation: Situation) -> Attempt | None:
        """The rollout that stands as solution for this attempt; None without one, or for other kinds."""
        if self.hint.kind not in PEER_KINDS or situation.attempt is None:
            return None
        return choose_peer(situation.example.example_id, situation.attempt, situation.group, self.hint, self.seed)

    def _all(self, situation: Situation, shown: dict[str, str]) -> dict[str, str] | None:
        chosen = self.peer(situation)
        peer = "" if chosen is None else self._corrupted(peer_text(chosen, self.hint), situation)
        if situation.corrupted and not peer:
            return None
        hides = bool(peer) and self.hint.feedback_only_without_solution
        failed = situation.attempt is not None and situation.attempt.failed
        message = self._message(situation) if failed and not hides else ""
        if not peer and not message:
            return None
        return shown | {"peer": peer or "", "message": message, "hint": peer or message}

    def _content(self, situation: Situation) -> str | None:
        kind, attempt = self.hint.kind, situation.attempt
        if kind == "feedback":
            return self._feedback(situation)
        if kind == "own_attempt":
            return None if attempt is None else self._attempt_text(attempt) or None
        if kind in PEER_KINDS:
            chosen = self.peer(situation)
            return None if chosen is None else self._from_peer(chosen, situation)
        text = str(lookup_field(situation.example, self.hint.source or _DEFAULT_SOURCES[kind]))
        return self._corrupted(_first_words(text, self.hint.fraction) if kind == "partial" else text, situation)

    def _feedback(self, situation: Situation) -> str | None:
        if situation.attempt is None or not situation.attempt.failed:
            return None
        if self.hint.source is not None and situation.message is None:
            return str(lookup_field(situation.example, self.hint.source))
        return self._message(situation)

    def _from_peer(self, peer: Attempt, situation: Situation) -> str | None:
        if self.hint.kind == "peer_solution":
            return self._corrupted(peer_text(peer, self.hint), situation)
        if peer.key_hints is None:
            raise ValueError("key hints must be extracted before they can be shown")
        return without_thinking(peer.key_hints) or None

    def _attempt_text(self, attempt: Attempt) -> str:
        strips = self.hint.kind != "feedback" and self.hint.remove_thinking
        return without_thinking(attempt.text) if strips else attempt.text

    def _corrupted(self, text: str, situation: Situation) -> str | None:
        if not situation.corrupted:
            return text
        return corrupt(text, derive_seed(self.seed, "corrupted", situation.example.example_id))

    @staticmethod
    def _message(situation: Situation) -> str:
        """The checker's words on the attempt; it has always something to say about a failed one."""
        if situation.message is not None:
            return situation.message
        reason = "" if situation.attempt is None else situation.attempt.verdict.reason
        return reason or "It is not correct."


def _first_words(text: str, fraction: float) -> str:
    words = list(re.finditer(r"\S+", text))
    return text[: words[math.ceil(len(words) * fraction) - 1].end()]
