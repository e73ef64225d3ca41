"""A random one-layer model on the miniature's vocabulary, and run directories that train it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from predictor.records import (
    HintConfig,
    ModelConfig,
    RunConfig,
    RunSpec,
    SamplingConfig,
    TaskConfig,
    TrainingConfig,
)
from trainer.pretrain.tokenizer import build_tokenizer

WriteRun = Callable[..., Path]

TINY_TRAINING: dict[str, Any] = {
    "optimizer": {"lr": 1e-2, "warmup_steps": 2},
    "prompts_per_step": 6,
    "rollouts_per_prompt": 2,
    "micro_batch": 5,
    "checkpoint_every": 2,
}


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory whose weights are random; it has every file that a trained one has."""
    directory = tmp_path_factory.mktemp("tiny") / "model"
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture
def write_run(tmp_path: Path, tiny_model_dir: Path) -> WriteRun:
    """Writes run.json into a new directory; `training` is laid over small defaults, the rest over the tiny run."""

    def write(name: str = "run", *, training: dict[str, Any] | None = None, **changes: Any) -> Path:
        hint = changes.pop("hint", HintConfig(name="rule", kind="static", template="rule reverse"))
        spec = RunSpec(
            model="tiny",
            family="tiny",
            task="strings",
            hint=hint.name,
            preset="miniature",
            num_steps=changes.pop("num_steps", 6),
            seed=changes.pop("seed", 0),
            config_key="key",
        )
        config: dict[str, Any] = {
            "spec": spec,
            "model": ModelConfig(path="tiny"),
            "model_dir": str(tiny_model_dir),
            "task": TaskConfig(source="strings", options={"rule": "reverse"}, eval_examples=8, train_examples=16),
            "task_dir": ".",
            "hint": hint,
            "sampling": SamplingConfig(max_tokens=6),
            "training": TrainingConfig.model_validate(TINY_TRAINING | (training or {})),
        }
        run = RunConfig.model_validate(config | changes)
        directory = tmp_path / name
        directory.mkdir()
        (directory / "run.json").write_text(run.model_dump_json(indent=2))
        return directory

    return write
