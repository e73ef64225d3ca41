"""Raw log-probabilities of given completions, with logits in memory only for a bounded block of their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from predictor.engines.base import Panel, ScoreRequest
from predictor.engines.batches import Limits
from predictor.engines.panels import reduced_tokens


def score_all(model: Any, requests: Sequence[ScoreRequest], limits: Limits) -> list[tuple[float, ...]]:
    """One tuple of log-probabilities (temperature 1, nats) for each request, in order."""
    scores: list[tuple[float, ...]] = [()] * len(requests)
    scored = [index for index, request in enumerate(requests) if request.completion_ids]
    panels = [Panel((requests[index].prompt_ids,), requests[index].completion_ids) for index in scored]
    for index, values_T1 in zip(scored, reduced_tokens(model, panels, limits, _picked), strict=True):
        scores[index] = tuple(values_T1[:, 0].tolist())
    return scores


def _picked(logits_N1V: Tensor, ids_N: Tensor) -> Tensor:
    """Log-probability (N, 1) of each token under the logits of its one prompt."""
    return logits_N1V.gather(-1, ids_N[:, None, None])[:, :, 0] - logits_N1V.logsumexp(dim=-1)
