"""The exact instrument against sampling and against a computation token by token."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from trainer.pretrain.documents import HINT_KINDS, RULE_NAMES, WORD_IDS, answer_ids, prompt_ids
from trainer.pretrain.evaluate import held_out_documents
from trainer.pretrain.exact import exact_accuracy, exact_consensus_accuracy

LLAMA_S = Path(__file__).parents[2] / "data" / "miniature" / "llama-s"
EOS = WORD_IDS["<eos>"]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(LLAMA_S, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(LLAMA_S)


def words(text: str) -> list[int]:
    return [WORD_IDS[word] for word in text.split()]


@torch.inference_mode()
def sample_endings(model: PreTrainedModel, prompt: list[int], count: int, *, num_tokens: int) -> torch.Tensor:
    """Completions drawn token by token at temperature 1."""
    generator = torch.Generator().manual_seed(5)
    ids_BT = torch.tensor([prompt]).repeat(count, 1)
    for _ in range(num_tokens):
        # Many rows are still alike; each distinct one is computed once.
        distinct, row_of = torch.unique(ids_BT, dim=0, return_inverse=True)
        logits_BV = model(input_ids=distinct).logits[row_of, -1]
        drawn_B1 = torch.multinomial(torch.softmax(logits_BV, dim=-1), 1, generator=generator)
        ids_BT = torch.cat([ids_BT, drawn_B1], dim=1)
    return ids_BT[:, len(prompt) :]


@torch.inference_mode()
def next_token_probabilities(model: PreTrainedModel, ids: list[int]) -> np.ndarray:
    return torch.softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].double(), dim=-1).numpy()


def test_exact_accuracy_is_what_sampling_finds(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    num_samples = 200
    rules = [RULE_NAMES[place % len(RULE_NAMES)] for place in range(len(HINT_KINDS))]
    documents = [held_out_documents(kind, [rule], 1, seed=11)[0] for kind, rule in zip(HINT_KINDS, rules, strict=True)]
    exact = exact_accuracy(model, tokenizer, [prompt_ids(d) for d in documents], [answer_ids(d) for d in documents])
    for document, probability in zip(documents, exact, strict=True):
        right = [*answer_ids(document), EOS]
        sampled = sample_endings(model, prompt_ids(document), num_samples, num_tokens=len(right))
        share = float((sampled == torch.tensor(right)).all(dim=1).float().mean())
        # Fifteen comparisons: 4.5 standard deviations, and room for a rare event at the edges.
        allowed = 4.5 * math.sqrt(probability * (1 - probability) / num_samples) + 2 / num_samples
        assert abs(share - probability) <= allowed, (document, share, probability)


@pytest.mark.parametrize("mean", ["geometric", "arithmetic"])
def test_consensus_of_one_prompt_with_itself_is_that_prompts_accuracy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, mean: str
) -> None:
    documents = held_out_documents("either", RULE_NAMES, 12, seed=2)
    prompts, answers = [prompt_ids(d) for d in documents], [answer_ids(d) for d in documents]
    alone = exact_accuracy(model, tokenizer, prompts, answers)
    repeated = exact_consensus_accuracy(model, tokenizer, [[p, p, p] for p in prompts], answers, mean=mean)
    np.testing.assert_allclose(repeated, alone, rtol=1e-4, atol=1e-7)


@settings(deadline=None, max_examples=5)
@given(rules=st.lists(st.sampled_from(RULE_NAMES), min_size=2, max_size=4))
def test_consensus_is_the_mean_of_the_next_token_distributions(rules: list[str]) -> None:
    model = AutoModelForCausalLM.from_pretrained(LLAMA_S, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(LLAMA_S)
    prompts = [words(f"<bos> rule {rule} <q> d a c b <a>") for rule in rules]
    answer = words("b c a d")
    expected = {"geometric": 1.0, "arithmetic": 1.0}
    for place, token in enumerate([*answer, EOS]):
        rows_MV = np.stack([next_token_probabilities(model, [*prompt, *answer[:place]]) for prompt in prompts])
        geometric_V = np.exp(np.log(rows_MV).mean(axis=0))
        expected["geometric"] *= geometric_V[token] / geometric_V.sum()
        expected["arithmetic"] *= rows_MV.mean(axis=0)[token]
    for mean, value in expected.items():
        measured = exact_consensus_accuracy(model, tokenizer, [prompts], [answer], mean=mean)
        assert measured == pytest.approx([value], rel=1e-3, abs=1e-9)


def test_neither_batching_nor_padding_changes_an_accuracy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    documents = [d for kind in HINT_KINDS for d in held_out_documents(kind, RULE_NAMES[8:], 4, seed=4)]
    prompts, answers = [prompt_ids(d) for d in documents], [answer_ids(d) for d in documents]
    together = exact_accuracy(model, tokenizer, prompts, answers)
    alone = [exact_accuracy(model, tokenizer, [p], [a])[0] for p, a in zip(prompts, answers, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-7)
