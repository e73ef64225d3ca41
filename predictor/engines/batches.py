"""How much work fits in one forward pass, and which rows share it; the same rows always share the same batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_CPU_BYTES = 2**30
# The trainer's optimiser or another engine may live on the same card.
GPU_SHARE = 1 / 8
# Float32 logits, two log-softmaxes, probabilities and their float64 running sum.
_BYTES_PER_LOGIT = 32
# Bounds a prefill's activations on cards whose key-value budget would allow more.
_MOST_TOKENS = 2**16


@dataclass(frozen=True, slots=True)
class Limits:
    """Most cached tokens, and most logit rows, that one batch may hold."""

    tokens: int
    logit_rows: int


@dataclass(frozen=True, slots=True)
class Size:
    """What one row costs: its streams (one for each prompt) and the longest of them, completion included."""

    streams: int
    length: int


def limits_for(model: Any) -> Limits:
    """Limits from the model's shape and the device's total memory: 1 GiB on a CPU, an eighth of a GPU."""
    config = model.config.get_text_config(decoder=True)
    on_gpu = model.device.type == "cuda"
    memory = torch.cuda.get_device_properties(model.device).total_memory * GPU_SHARE if on_gpu else _CPU_BYTES
    return Limits(
        tokens=max(1, min(_MOST_TOKENS, int(memory) // cache_bytes(config, model.dtype))),
        logit_rows=max(1, int(memory) // (config.vocab_size * _BYTES_PER_LOGIT)),
    )


def cache_bytes(config: Any, dtype: torch.dtype) -> int:
    """Bytes of keys and values that one token keeps, from a text configuration."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head_dim * dtype.itemsize)


def plan_batches(sizes: Sequence[Size], limits: Limits) -> Iterator[list[int]]:
    """Indices of the rows of each batch: equal numbers of streams together, longest first, ties in given order.

    A batch keeps streams · longest ≤ `tokens` and streams ≤ `logit_rows`; a single row may exceed both.
    """
    order = sorted(range(len(sizes)), key=lambda index: (-sizes[index].streams, -sizes[index].length))
    batch: list[int] = []
    for index in order:
        if batch and not _fits(sizes[batch[0]], len(batch) + 1, sizes[index], limits):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _fits(first: Size, count: int, new: Size, limits: Limits) -> bool:
    streams = count * first.streams
    within = streams * first.length <= limits.tokens and streams <= limits.logit_rows
    return within and new.streams == first.streams
