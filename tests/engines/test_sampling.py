"""Sampled frequencies against probabilities that are known exactly."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import LlamaConfig, LlamaForCausalLM

from predictor.engines import Completion, ConsensusRequest, Ids, Request
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.decoding import Policy
from predictor.engines.means import mean_logprobs
from predictor.engines.noise import uniforms
from predictor.engines.scripted import ScriptedEngine, ScriptedRule, ScriptedTable, mean_probs, plant
from predictor.engines.transformers import TransformersEngine
from predictor.errors import EngineError
from predictor.records import Mean, SamplingConfig, derive_seed

MEANS: tuple[Mean, ...] = ("arithmetic", "geometric", "jsd")
VOCABULARY, STOP = 6, 5
PROMPTS: tuple[Ids, ...] = ((1, 2, 3), (4, 4), (0, 3, 1, 2))
SAMPLES = 6000


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    """A random model of six tokens with marked preferences."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        eos_token_id=STOP,
        initializer_range=0.6,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(config)
    tokenizer = ByteTokenizer()
    tokenizer.eos_token_id = STOP
    return TransformersEngine.from_model(model, tokenizer)


def next_logprobs(engine: TransformersEngine, ids: Ids, temperature: float) -> torch.Tensor:
    with torch.no_grad():
        logits = engine.model(torch.tensor([ids])).logits[0, -1]
    return (logits / temperature).log_softmax(dim=-1)


def exact_pairs(engine: TransformersEngine, prompts: Sequence[Ids], temperature: float, mean: Mean) -> dict[Ids, float]:
    """Probability of every completion of at most two tokens under the mean policy, by enumeration."""

    def policy(prefix: Ids) -> list[float]:
        rows = torch.stack([next_logprobs(engine, prompt + prefix, temperature) for prompt in prompts])
        return mean_logprobs(rows[None], mean)[0].exp().tolist()

    first = policy(())
    exact: dict[Ids, float] = {(STOP,): first[STOP]}
    for token in range(VOCABULARY - 1):
        for second, probability in enumerate(policy((token,))):
            exact[token, second] = first[token] * probability
    return exact


def p_value(counts: Mapping[Ids, int], exact: Mapping[Ids, float]) -> float:
    """Chi-square p-value; cells with fewer than five expected samples are pooled."""
    total = sum(counts.values())
    assert set(counts) <= {ids for ids, probability in exact.items() if probability > 0.0}
    small = [ids for ids, probability in exact.items() if total * probability < 5.0]
    large = [ids for ids in exact if ids not in small]
    observed = [counts.get(ids, 0) for ids in large] + [sum(counts.get(ids, 0) for ids in small)]
    expected = [total * exact[ids] for ids in large] + [total * sum(exact[ids] for ids in small)]
    keep = [index for index, value in enumerate(expected) if value > 0.0]
    return float(chisquare([observed[i] for i in keep], [expected[i] for i in keep], sum_check=False).pvalue)


def count(completions: Sequence[Completion]) -> Counter[Ids]:
    return Counter(sample.ids for sample in completions)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_pairs_of_tokens_have_the_models_own_frequencies(
    engine: TransformersEngine, temperature: float
) -> None:
    sampling = SamplingConfig(temperature=temperature, max_tokens=2)
    samples = engine.generate([Request("r", PROMPTS[0], SAMPLES, derive_seed("plain"))], sampling)[0]
    assert p_value(count(samples), exact_pairs(engine, PROMPTS[:1], temperature, "arithmetic")) > 1e-3


def test_top_p_keeps_the_smallest_sufficient_set_in_its_own_proportions(engine: TransformersEngine) -> None:
    sampling = SamplingConfig(temperature=1.0, top_p=0.7, max_tokens=1)
    samples = engine.generate([Request("r", PROMPTS[1], SAMPLES, derive_seed("nucleus"))], sampling)[0]
    probs = next_logprobs(engine, PROMPTS[1], 1.0).exp().tolist()
    kept: dict[Ids, float] = {}
    for token in sorted(range(VOCABULARY), key=lambda token: -probs[token]):
        if sum(kept.values()) < 0.7:
            kept[token,] = probs[token]
    assert len(kept) < VOCABULARY
    exact = {ids: probability / sum(kept.values()) for ids, probability in kept.items()}
    assert p_value(count(samples), exact) > 1e-3


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_consensus_samples_have_the_frequencies_of_the_mean_policy(
    engine: TransformersEngine, mean: Mean, temperature: float
) -> None:
    sampling = SamplingConfig(temperature=temperature, max_tokens=2)
    request = ConsensusRequest("r", PROMPTS, SAMPLES, derive_seed("consensus", mean))
    samples = engine.generate_consensus([request], sampling, mean)[0]
    assert p_value(count(samples), exact_pairs(engine, PROMPTS, temperature, mean)) > 1e-3


@pytest.mark.parametrize("mean", MEANS)
def test_consensus_logprobs_are_those_of_the_mean_at_temperature_one(engine: TransformersEngine, mean: Mean) -> None:
    request = ConsensusRequest("r", PROMPTS, 20, 5)
    exact = exact_pairs(engine, PROMPTS, 1.0, mean)
    sampling = SamplingConfig(temperature=0.7, max_tokens=2)
    for sample in engine.generate_consensus([request], sampling, mean)[0]:
        assert sum(sample.logprobs) == pytest.approx(np.log(exact[sample.ids]), abs=1e-4)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_the_consensus_of_identical_prompts_is_plain_sampling_token_for_token(
    engine: TransformersEngine, mean: Mean, temperature: float
) -> None:
    sampling = SamplingConfig(temperature=temperature, max_tokens=12)
    plain = [Request(f"r{i}", prompt, 4, derive_seed("same", i)) for i, prompt in enumerate(PROMPTS)]
    consensus = [ConsensusRequest(r.request_id, (r.prompt_ids,) * 3, r.n, r.seed) for r in plain]
    for once, thrice in zip(
        engine.generate(plain, sampling), engine.generate_consensus(consensus, sampling, mean), strict=True
    ):
        assert [c.ids for c in once] == [c.ids for c in thrice]
        assert [c.finish_reason for c in once] == [c.finish_reason for c in thrice]
        for a, b in zip(once, thrice, strict=True):
            assert np.allclose(a.logprobs, b.logprobs, atol=1e-4)


def test_consensus_requests_with_different_numbers_of_prompts_share_a_call(engine: TransformersEngine) -> None:
    sampling = SamplingConfig(max_tokens=6)
    mixed = [ConsensusRequest(f"r{m}", PROMPTS[:m], 3, m) for m in (1, 3, 2)]
    together = engine.generate_consensus(mixed, sampling, "geometric")
    for request, samples in zip(mixed, together, strict=True):
        alone = engine.generate_consensus([request], sampling, "geometric")[0]
        assert [c.ids for c in alone] == [c.ids for c in samples]


def test_the_temperature_divides_the_logits_and_what_is_recorded_is_raw() -> None:
    """F16: logits [2, 0] at T = 0.5 are sampled at .982 and recorded at .881."""
    policy = Policy(SamplingConfig(temperature=0.5), frozenset())
    sampling_RV, raw_RV = policy.logprobs(torch.tensor([[[2.0, 0.0]]]))
    assert float(sampling_RV[0, 0].exp()) == pytest.approx(0.98201, abs=1e-5)
    assert float(raw_RV[0, 0].exp()) == pytest.approx(0.88080, abs=1e-5)


def test_more_samples_of_a_request_keep_the_first_ones(engine: TransformersEngine) -> None:
    sampling = SamplingConfig(max_tokens=8)
    few, many = (engine.generate([Request("r", PROMPTS[0], n, 11)], sampling)[0] for n in (3, 40))
    assert [c.ids for c in few] == [c.ids for c in many[:3]]


def test_noise_is_fixed_by_seed_and_index_and_a_shorter_draw_is_a_prefix() -> None:
    assert np.array_equal(uniforms(1, 2, 5), uniforms(1, 2, 9)[:5])
    drawn = [uniforms(seed, index, 4) for seed, index in itertools.product((1, 2, 2**63 - 1), (0, 1, 2))]
    assert len({tuple(row) for row in drawn}) == len(drawn)
    assert abs(np.concatenate([uniforms(7, index, 50) for index in range(200)]).mean() - 0.5) < 0.01


def test_a_scripted_law_is_sampled_at_its_exact_probabilities() -> None:
    table = ScriptedTable(rules=(ScriptedRule(completions={"ab": 0.5, "a": 0.2, "b": 0.3}),))
    engine = ScriptedEngine(table)
    exact = {
        (*engine.tokenizer.encode(text), engine.tokenizer.eos_token_id): p
        for text, p in table.rules[0].completions.items()
    }
    prompt = tuple(engine.tokenizer.encode("anything"))
    samples = engine.generate([Request("r", prompt, 3000, derive_seed("script"))], SamplingConfig(max_tokens=8))[0]
    assert p_value(count(samples), exact) > 1e-3
    for sample in samples[:50]:
        assert sum(sample.logprobs) == pytest.approx(np.log(exact[sample.ids]), abs=1e-12)


def test_a_planted_accuracy_is_the_one_found() -> None:
    rules = plant("Is it so?", ("yes", "no"), 0.2, {"rule A": 0.5, "rule B": 0.9})
    engine = ScriptedEngine(ScriptedTable(rules=rules))
    found = {}
    for hint in ("", "rule A", "rule B"):
        prompt = tuple(engine.tokenizer.encode(f"{hint} Is it so?"))
        samples = engine.generate([Request("r", prompt, 2000, derive_seed("plant", hint))], SamplingConfig())[0]
        texts = [engine.tokenizer.decode(c.ids, skip_special_tokens=True) for c in samples]
        found[hint] = texts.count("yes") / len(texts)
    assert found == pytest.approx({"": 0.2, "rule A": 0.5, "rule B": 0.9}, abs=0.035)


@pytest.mark.parametrize("mean", MEANS)
def test_the_scripted_means_equal_those_of_the_transformers_engine(mean: Mean) -> None:
    logprobs = torch.randn((1, 4, 9), generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(-1)
    expected = mean_logprobs(logprobs, mean)[0].exp().numpy()
    assert np.allclose(mean_probs(logprobs[0].exp().numpy(), mean), expected, atol=1e-4)


def test_a_scripted_consensus_without_a_common_token_is_an_error_under_the_geometric_mean() -> None:
    table = ScriptedTable(
        rules=(ScriptedRule(contains=("1",), completions={"a": 1.0}), ScriptedRule(completions={"b": 1.0}))
    )
    engine = ScriptedEngine(table)
    request = ConsensusRequest("r", ((49,), (50,)), 1, 0)
    with pytest.raises(EngineError, match="share no token"):
        engine.generate_consensus([request], SamplingConfig(), "geometric")
    samples = engine.generate_consensus([request], SamplingConfig(), "arithmetic")[0]
    assert engine.tokenizer.decode(samples[0].ids, skip_special_tokens=True) in ("a", "b")


def test_prompts_that_no_rule_covers_are_an_error() -> None:
    engine = ScriptedEngine(ScriptedTable(rules=(ScriptedRule(contains=("x",), completions={"a": 1.0}),)))
    with pytest.raises(EngineError, match="no rule"):
        engine.generate([Request("r", (49,), 1, 0)], SamplingConfig())


def test_the_byte_tokenizer_gives_every_text_back_and_renders_turns() -> None:
    tokenizer: Any = ByteTokenizer()
    for text in ("plain", "ümlaut → 漢字", "<|user|>hi<|end|><|assistant|>"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    conversation = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    text = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    assert text == "<|system|>s<|end|><|user|>q<|end|><|assistant|>"
    ids = tokenizer.apply_chat_template(conversation, add_generation_prompt=True)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "sq"
    assert max(ids) < len(tokenizer)
