"""Which tokens carry content, which only form, and which are words of correction."""

from __future__ import annotations

from typing import Any, Final

from predictor.engines.texts import ids_text

CONTENT: Final = 0
FORMAT: Final = 1
MARKER: Final = 2
MARKERS: Final = frozenset(
    {
        *("wait", "hmm", "oops", "sorry", "hold"),
        *("but", "however", "although", "instead", "rather", "alternatively"),
        *("actually", "mistake", "wrong", "incorrect", "correction"),
        *("check", "recheck", "verify", "perhaps", "maybe"),
    }
)
"""Words of correction and doubt (after the correction words of arXiv 2609.20612)."""


class TokenKinds:
    """The kind of every token id of one tokenizer, decided once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, int] = {}

    def of(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """0 for content, 1 for format (no letter or digit, or a special token), 2 for a word of correction."""
        for token in ids:
            if token not in self._known:
                self._known[token] = self._kind(token)
        return tuple(self._known[token] for token in ids)

    def _kind(self, token: int) -> int:
        text = ids_text(self._tokenizer, [token])
        if text.strip().lower() in MARKERS:
            return MARKER
        # Half a character decodes to the replacement character: it belongs to some letter.
        return CONTENT if any(c.isalnum() or c == "\N{REPLACEMENT CHARACTER}" for c in text) else FORMAT
