"""The six miniature models: two architectures in three sizes, each with the recipe that suits its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from trainer.pretrain.tokenizer import BOS, EOS, MAX_LENGTH, PAD, VOCABULARY

# vLLM's CPU attention has kernels for heads of 32 and wider.
HEAD_DIM: Final = 32
INIT_STD: Final = 0.05
# Prompts are under 50 tokens; the usual 10,000 would leave most rotations too slow to tell positions apart.
ROPE_THETA: Final = 1_000.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One model and how it is pre-trained."""

    name: str
    architecture: Literal["llama", "qwen3"]
    width: int
    num_heads: int
    mlp_width: int
    num_layers: int
    num_steps: int


def _shape(architecture: Literal["llama", "qwen3"], size: Literal["s", "m", "l"]) -> Shape:
    # Reading a demonstration is a chain (places, matching symbols, the rule, its use): it takes four layers and several
    # heads, while width matters less. The L models stay under 1.02 M parameters: float16 files of less than 2 MiB.
    width, num_heads, mlp_width, num_layers, num_steps = {
        "s": (64, 4, 128, 4, 2600),
        "m": (96, 4, 192, 5, 1900),
        "l": (128, 4, 320, 5, 1400),
    }[size]
    return Shape(
        name=f"{architecture}-{size}",
        architecture=architecture,
        width=width,
        num_heads=num_heads,
        mlp_width=mlp_width,
        num_layers=num_layers,
        num_steps=num_steps,
    )


# Small models first: whatever waits for a checkpoint can start on them.
SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        shape.name: shape
        for shape in (
            _shape("llama", "s"),
            _shape("qwen3", "s"),
            _shape("llama", "m"),
            _shape("qwen3", "m"),
            _shape("llama", "l"),
            _shape("qwen3", "l"),
        )
    }
)
"""All models by name, in the order in which they are trained."""


def build_model(shape: Shape, *, seed: int) -> PreTrainedModel:
    """A freshly initialised model whose weights the seed fixes."""
    settings: dict[str, Any] = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": shape.width,
        "intermediate_size": shape.mlp_width,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_heads,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": MAX_LENGTH,
        "tie_word_embeddings": True,
        "initializer_range": INIT_STD,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
        "pad_token_id": VOCABULARY.index(PAD),
        "bos_token_id": VOCABULARY.index(BOS),
        "eos_token_id": VOCABULARY.index(EOS),
    }
    # transformers initialises from torch's global generator; the fork keeps the caller's state untouched.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if shape.architecture == "llama":
            return LlamaForCausalLM(LlamaConfig(**settings))
        return Qwen3ForCausalLM(Qwen3Config(**settings))
