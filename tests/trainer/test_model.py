"""Head and body give the model's own logits, or the model is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    PreTrainedModel,
)

from predictor.errors import ModelError
from trainer.model import LanguageModel, load_model

SMALL = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
}


def small(kind: str) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "soft cap":
            return Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=16, final_logit_softcapping=2.0))
        if kind == "scaling":
            return GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=8.0))
        return GPTNeoXForCausalLM(GPTNeoXConfig(**{k: v for k, v in SMALL.items() if k != "num_key_value_heads"}))


@pytest.mark.parametrize("kind", ["soft cap", "scaling", "separate head"])
def test_logits_are_the_models_own_however_it_scales_them(kind: str) -> None:
    LanguageModel(small(kind).eval()).check_split()


def test_a_model_that_does_something_else_with_its_logits_is_refused() -> None:
    network = small("soft cap").eval()
    capped = LanguageModel(network)
    network.lm_head.register_forward_hook(lambda _m, _i, output: output + output[..., :1])
    capped.check_split()
    network.register_forward_hook(lambda _m, _i, output: output.__setitem__("logits", output.logits * 1.5))
    with pytest.raises(ModelError, match="changes its logits"):
        capped.check_split()


def test_a_tied_head_is_one_weight(tiny_model_dir: Path) -> None:
    model = load_model(tiny_model_dir)
    assert sum("embed" in name or "lm_head" in name for name in model.parameters) == 1
    assert model.head_parameters[0] is model.parameters["model.embed_tokens.weight"]
    assert not model.network.training


def test_a_directory_without_weights_is_refused(tiny_model_dir: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_model_dir / "config.json", tmp_path)
    with pytest.raises(ModelError, match="safetensors"):
        load_model(tmp_path)
