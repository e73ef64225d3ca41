"""Token streams on one KV cache: prompts are prefilled once, repeated, and extended; decoding and scoring share it.

Padding is on the left of prompts and on the right of appended blocks. Masks and positions come from lengths, never
from token ids, so a stop token that equals the padding token stays live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from predictor.engines.base import Ids

# Room for new tokens when a buffer grows: this many positions, or this share of its length if that is more.
_ROOM = 32
_ROOM_SHARE = 0.25


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A cache layer that appends in place; the stock layer copies all keys and values for every token."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append (B, heads, T, head_dim) states and return all of them as views of the buffers."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states, value_states
            return self.keys, self.values
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < end:
            self._buffers = (_roomy(self.keys, end), _roomy(self.values, end))
        keys, values = self._buffers
        keys[..., start:end, :] = key_states
        values[..., start:end, :] = value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these batch entries; the copies have no room, so the next `update` makes some."""
        super().batch_select_indices(indices)
        self._buffers = None


def _roomy(states: Tensor, length: int) -> Tensor:
    batch, heads, used, width = states.shape
    buffer = states.new_empty((batch, heads, length + max(_ROOM, int(_ROOM_SHARE * length)), width))
    buffer[..., :used, :] = states
    return buffer


def new_cache(model: Any) -> DynamicCache:
    """An empty cache for the model's own layer types (sliding windows stay as they are)."""
    cache = DynamicCache(config=model.config)
    cache.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


@dataclass(slots=True)
class Streams:
    """S token sequences with their keys and values; grows by `extend`, shrinks or repeats by `select`."""

    model: Any
    cache: DynamicCache
    live_SL: Tensor
    """1 for tokens, 0 for padding."""
    lengths_S: Tensor
    """Live tokens of each stream: the position of its next token."""

    def select(self, index_S: Tensor) -> None:
        """Keep the streams at these indices, in this order; an index may occur several times."""
        self.cache.batch_select_indices(index_S)
        self.live_SL = self.live_SL[index_S]
        self.lengths_S = self.lengths_S[index_S]

    def extend(self, ids_ST: Tensor, counts_S: Tensor | None = None) -> Tensor:
        """Append T tokens to every stream and return float32 logits (S, T, V) for the tokens after each.

        `counts_S` says how many of the T are live where the rest is padding on the right.
        """
        steps_T = torch.arange(ids_ST.shape[1], device=ids_ST.device)
        live_ST = torch.ones_like(ids_ST) if counts_S is None else (steps_T < counts_S[:, None]).long()
        self.live_SL = torch.cat([self.live_SL, live_ST], dim=1)
        output = self.model(
            input_ids=ids_ST,
            attention_mask=self.live_SL,
            position_ids=self.lengths_S[:, None] + steps_T * live_ST,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.lengths_S = self.lengths_S + live_ST.sum(dim=1)
        logits_STV: Tensor = output.logits.float()
        return logits_STV


def prefill(model: Any, prompts: Sequence[Ids]) -> tuple[Streams, Tensor]:
    """One stream for each prompt, and the float32 logits (S, V) of the token after it."""
    width = max(map(len, prompts))
    ids_SL = torch.zeros((len(prompts), width), dtype=torch.long)
    live_SL = torch.zeros_like(ids_SL)
    for row, prompt in enumerate(prompts):
        ids_SL[row, width - len(prompt) :] = torch.tensor(prompt)
        live_SL[row, width - len(prompt) :] = 1
    ids_SL, live_SL = ids_SL.to(model.device), live_SL.to(model.device)
    cache = new_cache(model)
    output = model(
        input_ids=ids_SL,
        attention_mask=live_SL,
        position_ids=(live_SL.cumsum(dim=1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return Streams(model, cache, live_SL, live_SL.sum(dim=1)), output.logits[:, -1].float()


def unique_prompts(prompts: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
    """The distinct prompts in order of first use, and for each given prompt its index among them."""
    order: dict[Ids, int] = {}
    index = [order.setdefault(prompt, len(order)) for prompt in prompts]
    return list(order), index
