"""Text to token ids and back, through the tokenizer's own library.

Around it, the Hugging Face class sets options anew in every call; beside a small model that is a share of the probe's
time. Where an option is set that the library alone would not honour, the class is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def text_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Ids of the text: no special token added, nothing cut, nothing padded."""
    library = getattr(tokenizer, "backend_tokenizer", None)
    if library is None or library.truncation or library.padding or tokenizer.split_special_tokens:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    return tuple(library.encode(text, add_special_tokens=False).ids)


def ids_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of the ids without special tokens; the ids stay the truth."""
    library = getattr(tokenizer, "backend_tokenizer", None)
    if library is None or tokenizer.clean_up_tokenization_spaces:
        return str(tokenizer.decode(list(ids), skip_special_tokens=True))
    return str(library.decode(list(ids), skip_special_tokens=True))
