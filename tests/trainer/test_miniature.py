"""On the embedded miniature: thirty steps teach the hint-free student what its hinted self knew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from predictor.engines.model_files import load_tokenizer
from predictor.prompts import render_prompt
from predictor.records import ReverseKL, TaskConfig, resolve_training
from predictor.tasks import load_examples
from trainer.pretrain.exact import exact_accuracy
from trainer.train import train

MODEL_DIR = Path(__file__).parents[2] / "data" / "miniature" / "llama-s"
TASK = TaskConfig(source="strings", options={"rule": "reverse"}, eval_examples=128, train_examples=512)


def held_out_accuracy(model_dir: Path) -> float:
    """P(right answer) without a hint, averaged over held-out strings; no sampling noise."""
    tokenizer = load_tokenizer(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir, local_files_only=True).float().eval()
    examples = load_examples(TASK, MODEL_DIR).eval
    prompts = [render_prompt(example.conversation, tokenizer, thinking=None).ids for example in examples]
    answers = [tokenizer(example.answer, add_special_tokens=False)["input_ids"] for example in examples]
    return sum(exact_accuracy(model, tokenizer, prompts, answers)) / len(examples)


@pytest.mark.skipif(not (MODEL_DIR / "model.safetensors").exists(), reason="the miniature is not pre-trained here")
def test_thirty_steps_with_the_rule_as_hint_raise_held_out_accuracy(write_run: Callable[..., Path]) -> None:
    training = resolve_training("miniature", {}).model_dump()
    assert training["divergence"] == ReverseKL().model_dump()
    directory = write_run(training=training, num_steps=30, model_dir=str(MODEL_DIR), task=TASK)
    before = held_out_accuracy(MODEL_DIR)
    result = train(directory)
    assert 0.08 < before < 0.25
    assert held_out_accuracy(directory / "checkpoint") > 0.7
    assert result.truncated < 0.1
