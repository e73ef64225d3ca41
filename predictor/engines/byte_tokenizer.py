"""A tokenizer of bytes and four markers, with the few methods of a Hugging Face tokenizer that gapcast calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_ROLES: Final = ("system", "user", "assistant")
_BYTES: Final = 256
_END: Final = "<|end|>"
_MARKERS: Final = {**{f"<|{role}|>": _BYTES + number for number, role in enumerate(_ROLES)}, _END: _BYTES + len(_ROLES)}


class ByteTokenizer:
    """Ids 0 to 255 are bytes, 256 to 258 open a turn, 259 ends one; any text survives a round trip."""

    eos_token: str = _END
    eos_token_id: int = _MARKERS[_END]
    bos_token_id: int | None = None
    vocab_size: int = _BYTES + len(_MARKERS)
    chat_template: str = "built in: <|role|>content<|end|>"

    def __len__(self) -> int:
        """Number of ids."""
        return self.vocab_size

    def encode(self, text: str, **_: Any) -> list[int]:
        """Ids of a text; markers in it become their single id."""
        ids: list[int] = []
        rest = text
        while rest:
            found = min(((rest.find(marker), marker) for marker in _MARKERS if marker in rest), default=None)
            head = rest if found is None else rest[: found[0]]
            ids.extend(head.encode())
            if found is None:
                break
            ids.append(_MARKERS[found[1]])
            rest = rest[found[0] + len(found[1]) :]
        return ids

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        """`input_ids` of a text, without any added token."""
        return {"input_ids": self.encode(text)}

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False, **_: Any) -> str:
        """Text of the ids; bytes that are no UTF-8 become replacement characters."""
        names = {number: marker for marker, number in _MARKERS.items()}
        parts: list[bytes] = []
        for number in ids:
            if number < _BYTES:
                parts.append(bytes([number]))
            elif not skip_special_tokens:
                parts.append(names[number].encode())
        return b"".join(parts).decode(errors="replace")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        **_: Any,
    ) -> Any:
        """Every turn as <|role|>content<|end|>, then <|assistant|> where a generation prompt is asked for."""
        text = "".join(f"<|{turn['role']}|>{turn['content']}{_END}" for turn in conversation)
        text += "<|assistant|>" if add_generation_prompt else ""
        return self.encode(text) if tokenize else text
