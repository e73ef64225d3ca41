"""Raw log-probabilities of given completions, with logits in memory only for a bounded block of their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from predictor.engines.base import ScoreRequest
from predictor.engines.batches import Limits, Size, plan_batches
from predictor.engines.streams import prefill, unique_prompts


@torch.no_grad()
def score_all(model: Any, requests: Sequence[ScoreRequest], limits: Limits) -> list[tuple[float, ...]]:
    """One tuple of log-probabilities (temperature 1, nats) for each request, in order."""
    scores: list[tuple[float, ...]] = [()] * len(requests)
    scored = [index for index, request in enumerate(requests) if request.completion_ids]
    sizes = [Size(1, len(requests[index].prompt_ids) + len(requests[index].completion_ids)) for index in scored]
    for batch in plan_batches(sizes, limits):
        indices = [scored[position] for position in batch]
        logprobs = _score_batch(model, [requests[index] for index in indices], limits)
        for index, row in zip(indices, logprobs, strict=True):
            scores[index] = row
    return scores


def _score_batch(model: Any, requests: Sequence[ScoreRequest], limits: Limits) -> list[tuple[float, ...]]:
    """Prefill distinct prompts once, then feed the completions in blocks; the last token is never fed."""
    prompts, index = unique_prompts([request.prompt_ids for request in requests])
    streams, logits_UV = prefill(model, prompts)
    index_S = torch.tensor(index, device=model.device)
    streams.select(index_S)
    lengths = [len(request.completion_ids) for request in requests]
    ids_ST = torch.zeros((len(requests), max(lengths)), dtype=torch.long)
    for row, request in enumerate(requests):
        ids_ST[row, : lengths[row]] = torch.tensor(request.completion_ids)
    ids_ST = ids_ST.to(model.device)
    counts_S = torch.tensor(lengths, device=model.device)
    scored = [_picked(logits_UV[index_S][:, None], ids_ST[:, :1])]
    block = max(1, limits.logit_rows // len(requests))
    for start in range(0, max(lengths) - 1, block):
        end = min(start + block, max(lengths) - 1)
        live_S = (counts_S - start).clamp(0, end - start)
        logits_STV = streams.extend(ids_ST[:, start:end], live_S)
        scored.append(_picked(logits_STV, ids_ST[:, start + 1 : end + 1]))
    rows = torch.cat(scored, dim=1).tolist()
    return [tuple(row[:length]) for row, length in zip(rows, lengths, strict=True)]


def _picked(logits_STV: Tensor, ids_ST: Tensor) -> Tensor:
    """Log-probability (S, T) of each id under the logits of its own position."""
    picked_ST = logits_STV.gather(-1, ids_ST[:, :, None])[:, :, 0]
    return picked_ST - logits_STV.logsumexp(dim=-1)
