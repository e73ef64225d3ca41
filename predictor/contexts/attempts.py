"""The student's own rollouts as material for hints: which of them may speak, and what is left of their text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.records import HintConfig, Verdict, derive_seed

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_ANSWER_BLOCK = re.compile(r"\\boxed\s*\{|<answer>")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout of the student with its verdict: what feedback and peer hints talk about."""

    text: str
    verdict: Verdict
    index: int = 0
    """Its place among the rollouts of its example."""
    key_hints: str | None = None
    """Key hints that the model extracted from it; None until the extraction has run."""

    @property
    def failed(self) -> bool:
        """Judged and wrong; an undecided attempt has not failed."""
        return self.verdict.correct is False

    @property
    def succeeded(self) -> bool:
        """Judged and right."""
        return self.verdict.correct is True


def without_thinking(text: str) -> str:
    """The text without its think blocks, stripped.

    The prompt may have opened the first block, so text before a lone `</think>` is thought too; a block that was never
    closed was cut off, and everything from its start is thought.

    >>> without_thinking("<think>hm</think> 4")
    '4'
    >>> without_thinking("hm</think> 4 <think>or 5")
    '4'
    """
    rest = _THOUGHT.sub("", text).rpartition("</think>")[2]
    return rest.partition("<think>")[0].strip()


def num_answer_blocks(text: str) -> int:
    r"""How often the text gives a final answer: `\boxed{` and `<answer>` blocks."""
    return len(_ANSWER_BLOCK.findall(text))


def peer_text(peer: Attempt, hint: HintConfig) -> str:
    """What of a peer's rollout a hint shows: without its think blocks unless the hint keeps them."""
    return without_thinking(peer.text) if hint.remove_thinking else peer.text.strip()


def choose_peer(
    example_id: str, attempt: Attempt, group: Sequence[Attempt], hint: HintConfig, seed: int
) -> Attempt | None:
    """The correct rollout of the same group that stands as solution; None when there is none to show.

    Drawn at random (the shortest or the first one biases length), by a seed that depends on example, attempt and peer
    alone. A rollout with several answer blocks, or nothing outside its think blocks, is never shown.
    """
    if attempt.succeeded and hint.self_success == "skip_row":
        return None
    if attempt.succeeded and hint.self_success == "own":
        return attempt if _is_showable(attempt, hint) else None
    peers = [peer for peer in group if peer.succeeded and peer.index != attempt.index and _is_showable(peer, hint)]
    return min(
        peers,
        key=lambda peer: derive_seed(seed, "peer", example_id, attempt.index, peer.index, peer.text),
        default=None,
    )


def speaker(group: Sequence[Attempt]) -> Attempt | None:
    """The attempt that speaks for an example whose hint is shown to others: its last failed one, else its last."""
    failed = [attempt for attempt in group if attempt.failed]
    return failed[-1] if failed else (group[-1] if group else None)


def _is_showable(peer: Attempt, hint: HintConfig) -> bool:
    text = peer_text(peer, hint)
    return bool(text) and num_answer_blocks(text) <= 1
