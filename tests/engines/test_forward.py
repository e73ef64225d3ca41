"""Prefill, cache and padding against one plain forward pass, over several architectures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from predictor.engines import Request, ScoreRequest
from predictor.engines.batches import Limits, Size, limits_for, plan_batches
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.canary import plain_scores
from predictor.engines.scoring import score_all
from predictor.engines.transformers import TransformersEngine
from predictor.records import SamplingConfig

STOP = 2
SHARED = {"vocab_size": 40, "eos_token_id": STOP, "bos_token_id": 1, "pad_token_id": STOP}
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    **SHARED,
}


def build(name: str) -> Any:
    """A small random model; `gpt2` has absolute positions, `mistral` and `gemma2` have sliding windows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name == "gpt2":
            return GPT2LMHeadModel(
                GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.3, **SHARED)
            )
        if name == "mistral":
            return MistralForCausalLM(MistralConfig(sliding_window=5, **SMALL))
        if name == "gemma2":
            return Gemma2ForCausalLM(Gemma2Config(sliding_window=5, head_dim=16, **SMALL))
        if name == "qwen3":
            return Qwen3ForCausalLM(Qwen3Config(head_dim=16, **SMALL))
        return LlamaForCausalLM(LlamaConfig(**SMALL))


@pytest.fixture(scope="module", params=["gpt2", "llama", "qwen3", "mistral", "gemma2"])
def engine(request: pytest.FixtureRequest) -> Iterator[TransformersEngine]:
    tokenizer = ByteTokenizer()
    tokenizer.eos_token_id = STOP
    return TransformersEngine.from_model(build(request.param), tokenizer)


def requests(count: int = 12, n: int = 2) -> list[Request]:
    rng = np.random.default_rng(0)
    prompts = [tuple(int(t) for t in rng.integers(0, 40, size=rng.integers(1, 20))) for _ in range(count)]
    return [Request(f"r{i}", prompt, n, i) for i, prompt in enumerate(prompts)]


def test_generated_logprobs_equal_a_plain_forward_pass_whatever_the_padding(engine: TransformersEngine) -> None:
    """F10: to 1e-5, in decoding and in scoring, whatever the model's positions are."""
    batch = requests()
    completions = engine.generate(batch, SamplingConfig(max_tokens=10))
    pairs = [ScoreRequest(r.prompt_ids, c.ids) for r, cs in zip(batch, completions, strict=True) for c in cs]
    scores = engine.score(pairs)
    flat = [c for samples in completions for c in samples]
    for pair, score, sample in zip(pairs, scores, flat, strict=True):
        plain = plain_scores(engine.model.eval(), pair)
        assert np.allclose(score, plain, atol=1e-5)
        assert np.allclose(sample.logprobs, plain, atol=1e-5)


def test_greedy_decoding_equals_transformers_own(engine: TransformersEngine) -> None:
    batch = requests(count=5, n=1)
    found = engine.generate(batch, SamplingConfig(temperature=0.0, max_tokens=10))
    engine.model.eval()
    for request, samples in zip(batch, found, strict=True):
        prompt = torch.tensor([request.prompt_ids])
        own = engine.model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=10, do_sample=False)
        assert samples[0].ids == tuple(own[0, len(request.prompt_ids) :].tolist())


def test_a_stop_token_that_is_also_the_padding_token_counts(engine: TransformersEngine) -> None:
    """F5: masks come from lengths, so the stop token keeps its log-probability."""
    prompt, completion = (STOP, 7, STOP, STOP, 9), (STOP, 5, STOP)
    alone = engine.score([ScoreRequest(prompt, completion)])[0]
    padded = engine.score([ScoreRequest(prompt, completion), ScoreRequest((3,) * 30, (4,) * 12)])[0]
    assert np.allclose(alone, plain_scores(engine.model.eval(), ScoreRequest(prompt, completion)), atol=1e-5)
    assert np.allclose(alone, padded, atol=1e-5)


def test_scores_do_not_depend_on_the_size_of_blocks_and_batches() -> None:
    """F19: scoring in blocks gives what scoring at once gives."""
    model = build("llama").eval()
    rng = np.random.default_rng(1)
    pairs = [
        ScoreRequest(
            tuple(int(t) for t in rng.integers(0, 40, size=rng.integers(1, 12))),
            tuple(int(t) for t in rng.integers(0, 40, size=rng.integers(0, 14))),
        )
        for _ in range(15)
    ]
    whole = score_all(model, pairs, Limits(tokens=10_000, logit_rows=10_000))
    pieces = score_all(model, pairs, Limits(tokens=40, logit_rows=3))
    for one, other in zip(whole, pieces, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_small_batches_give_the_samples_of_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ByteTokenizer()
    engine = TransformersEngine.from_model(build("llama"), tokenizer)
    sampling = SamplingConfig(max_tokens=10)
    large = engine.generate(requests(), sampling)
    monkeypatch.setattr("predictor.engines.transformers.limits_for", lambda _model: Limits(tokens=64, logit_rows=3))
    small = engine.generate(requests(), sampling)
    assert [c.ids for samples in small for c in samples] == [c.ids for samples in large for c in samples]


def test_a_live_model_is_served_with_its_current_weights_and_left_in_its_mode() -> None:
    model = build("llama")
    model.train()
    model.model.layers[0].eval()
    engine = TransformersEngine.from_model(model, ByteTokenizer())
    pair = ScoreRequest((1, 2, 3), (4, 5))
    before = engine.score([pair])[0]
    with torch.no_grad():
        model.lm_head.weight.mul_(1.5)
    after = engine.score([pair])[0]
    assert before != after
    assert model.training
    assert not model.model.layers[0].training
    assert model.model.layers[1].training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_limits_follow_the_models_shape() -> None:
    limits = limits_for(build("llama"))
    assert limits.tokens == 65_536
    assert limits.logit_rows == 2**30 // (40 * 32)


@given(
    sizes=st.lists(st.builds(Size, streams=st.integers(1, 3), length=st.integers(1, 50)), max_size=40),
    tokens=st.integers(1, 200),
    logit_rows=st.integers(1, 12),
)
def test_batches_hold_every_row_once_and_keep_the_limits(sizes: list[Size], tokens: int, logit_rows: int) -> None:
    batches = list(plan_batches(sizes, Limits(tokens, logit_rows)))
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        streams = {sizes[index].streams for index in batch}
        assert len(streams) == 1
        total = sum(sizes[index].streams for index in batch)
        longest = max(sizes[index].length for index in batch)
        assert len(batch) == 1 or (total * longest <= tokens and total <= logit_rows)
