"""What is scored is what was sampled, and two engines agree on it: faults of public trainers, with the right values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from predictor.engines import Request, ScoreRequest
from predictor.engines import vllm as vllm_engine
from predictor.engines.loading import within_memory
from predictor.engines.texts import ids_text, text_ids
from predictor.errors import EngineError, PromptError
from predictor.records import SamplingConfig, derive_seed

HOT = SamplingConfig(temperature=2.0, max_tokens=12)
"""So hot that markers and stop tokens come where a text would not have them."""


def sampled(served: Any) -> list[tuple[tuple[int, ...], Any]]:
    """(prompt ids, completion) of several hot samples of every prompt."""
    requests = [
        Request(f"r{index}", prompt, 4, derive_seed("hot", index)) for index, prompt in enumerate(served.prompts)
    ]
    found = served.engine.generate(requests, HOT)
    return [(request.prompt_ids, c) for request, samples in zip(requests, found, strict=True) for c in samples]


def test_f9_ids_travel_and_are_never_rebuilt_from_their_text(served: Any) -> None:
    """F9: text made into ids again differs from what was sampled; one log-probability for each sampled id."""
    pairs = sampled(served)
    engine = served.engine
    rebuilt = [text_ids(engine.tokenizer, ids_text(engine.tokenizer, c.ids)) for _, c in pairs]
    assert any(ids != c.ids for ids, (_, c) in zip(rebuilt, pairs, strict=True)), "the samples show the drift"
    scores = engine.score([ScoreRequest(prompt, c.ids) for prompt, c in pairs])
    for (_, completion), score in zip(pairs, scores, strict=True):
        assert len(score) == len(completion.ids) == len(completion.logprobs)
        assert np.allclose(score, completion.logprobs, atol=served.tolerance)


def test_f17_vllm_and_transformers_give_the_same_ids_the_same_logprobs(
    vllm_served: Any, transformers_served: Any
) -> None:
    """F17: .012 nats a token compound to a factor of 3.3 over 100 tokens; in float32 the engines agree far closer."""
    pairs = sampled(vllm_served)
    scores = transformers_served.engine.score([ScoreRequest(prompt, c.ids) for prompt, c in pairs])
    away = np.abs(np.concatenate([np.subtract(s, c.logprobs) for s, (_, c) in zip(scores, pairs, strict=True)]))
    assert away.mean() < 1e-5
    assert np.quantile(away, 0.99) < 1e-4


def test_f18_the_same_prompt_twice_in_a_batch_and_again_later_has_one_score(served: Any) -> None:
    """F18: log-probabilities of a prompt that is in the prefix cache already."""
    prompt, completion = sampled(served)[0]
    pair = ScoreRequest(prompt, completion.ids)
    served.engine.generate([Request("warm", prompt, 2, 5)], HOT)
    first, second = served.engine.score([pair, pair])
    assert np.allclose(first, second, atol=1e-6)
    assert np.allclose(first, served.engine.score([pair])[0], atol=1e-6)


def test_f19_a_sequence_whose_logits_would_not_fit_is_refused_before_any_work(
    vllm_served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F19: vLLM holds all logits of a scored sequence at once: 8 bytes x tokens x vocabulary."""
    prompt = vllm_served.prompts[0]
    pair = ScoreRequest(prompt, prompt[:3])
    needed = 8 * (len(prompt) + 3) * vllm_served.engine.tokenizer.vocab_size
    monkeypatch.setattr(vllm_engine, "_MOST_SCORE_BYTES", needed)
    vllm_served.engine.score([pair])
    monkeypatch.setattr(vllm_engine, "_MOST_SCORE_BYTES", needed // 2)
    with pytest.raises(PromptError, match="too long to be scored") as caught:
        vllm_served.engine.score([pair])
    assert "model.engine: transformers" in caught.value.fix


def test_f19_what_does_not_fit_in_memory_is_one_clear_error() -> None:
    """F19: an allocation that fails names the setting to lower."""
    with pytest.raises(EngineError, match="out of memory") as caught, within_memory():
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert "lower sampling.max_tokens" in caught.value.fix


def test_decoding_that_vllm_does_not_know_is_one_clear_error(vllm_served: Any) -> None:
    with pytest.raises(EngineError, match="refuses the decoding") as caught:
        vllm_served.engine.generate([Request("r", vllm_served.prompts[0], 1, 0)], SamplingConfig(temperature=3.0))
    assert "temperature" in caught.value.found
