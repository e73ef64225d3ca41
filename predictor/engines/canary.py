"""The canary that proves a weight update: fixed tokens, scored by the engine and by an independent forward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from predictor.engines.base import ScoreRequest
from predictor.engines.noise import uniforms
from predictor.errors import EngineError

_LENGTH = 24
_SEED = 20260530
_SHAPE = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")


def canary_request(vocab_size: int, max_model_len: int) -> ScoreRequest:
    """At most 24 fixed tokens, spread over the vocabulary; the first half is the prompt."""
    length = max(2, min(_LENGTH, max_model_len))
    ids = tuple(int(u * vocab_size) for u in uniforms(_SEED, 0, length))
    return ScoreRequest(ids[: length // 2], ids[length // 2 :])


def plain_scores(model: Any, request: ScoreRequest) -> tuple[float, ...]:
    """The request's log-probabilities from one uncached, unpadded forward pass of a transformers model."""
    import torch

    ids = torch.tensor([request.prompt_ids + request.completion_ids], device=model.device)
    with torch.no_grad():
        logprobs_TV = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(dim=-1)
    first = len(request.prompt_ids)
    return tuple(float(logprobs_TV[position - 1, ids[0, position]]) for position in range(first, ids.shape[1]))


def reference_scores(model_dir: Path, dtype: Any, served: Any, canary: ScoreRequest) -> tuple[float, ...]:
    """The canary under the directory's weights, by transformers on the CPU; EngineError unless `served` has its shape.

    `served` is the text configuration of the running model.
    """
    import torch

    from predictor.engines.loading import load_model

    model = load_model(model_dir, dtype, torch.device("cpu"))
    found = model.config.get_text_config(decoder=True)
    if any(getattr(found, name, None) != getattr(served, name, None) for name in _SHAPE):
        raise EngineError(
            "the directory holds another model than the one served",
            where=str(model_dir),
            expected=f"the same {', '.join(_SHAPE)}",
            fix="open a new engine on it",
        )
    scores = plain_scores(model, canary)
    prove_update(scores, scores, scores, tolerance=0.0, must_change=False)
    return scores


def prove_update(
    before: Sequence[float],
    after: Sequence[float],
    reference: Sequence[float],
    *,
    tolerance: float,
    must_change: bool,
) -> None:
    """EngineError unless `after` is finite, agrees with `reference` on average, and moved where it must.

    `tolerance` is the mean absolute difference in nats that two implementations of the same weights may show. An
    update smaller than that is caught by `must_change`: an engine that still serves the old weights repeats
    `before` to the last bit.
    """
    if not all(math.isfinite(value) for value in (*after, *reference)):
        raise _unproven("the weights give log-probabilities that are not finite", "finite numbers", "NaN or infinity")
    difference = float(np.mean(np.abs(np.subtract(after, reference))))
    if difference > tolerance:
        raise _unproven(
            "the engine does not serve the weights of the directory",
            f"a mean difference of at most {tolerance:g} nats from an independent forward pass",
            f"{difference:.4g} nats",
        )
    if must_change and tuple(after) == tuple(before):
        raise _unproven(
            "the engine still serves the old weights",
            "other log-probabilities, because the weights differ",
            "the same log-probabilities to the last bit",
        )


def _unproven(what: str, expected: str, found: str) -> EngineError:
    return EngineError(
        what,
        where="weight update, canary prompt",
        found=found,
        expected=expected,
        fix="open a new engine on the directory; if that fails too, the checkpoint is damaged",
    )
