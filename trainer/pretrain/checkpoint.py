"""A finished miniature on disk: float16 weights, tokenizer, and a card that says what it can do."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from trainer.pretrain.evaluate import TARGET_RULE, Accuracy, hint_accuracies
from trainer.pretrain.shapes import Shape
from trainer.pretrain.tokenizer import build_tokenizer

PACKAGES: Final = ("torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a checkpoint came to be."""

    shape: Shape
    seed: int
    num_steps: int
    seconds: float
    cpu_seconds: float
    last_loss: float
    command: str


def save_checkpoint(model: PreTrainedModel, folder: Path, training: Training) -> str:
    """Write weights, tokenizer and card; the card's numbers come from the files, not from the model in memory."""
    model.to(torch.float16).save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    stored = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    any_rule = hint_accuracies(stored, tokenizer)
    target_rule = hint_accuracies(stored, tokenizer, rules=(TARGET_RULE,))
    card = _card(training, any_rule, target_rule, num_parameters=stored.num_parameters())
    (folder / "README.md").write_text(card, encoding="utf-8")
    for path in folder.iterdir():
        # safetensors writes files that only their owner may read.
        path.chmod(0o644)
    return card


def _card(
    training: Training,
    any_rule: Mapping[str, Accuracy],
    target_rule: Mapping[str, Accuracy],
    *,
    num_parameters: int,
) -> str:
    shape = training.shape
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    num_documents = next(iter(any_rule.values())).num_documents
    rows = "\n".join(f"| {kind} | {_cell(any_rule[kind])} | {_cell(target_rule[kind])} |" for kind in any_rule)
    return f"""# miniature {shape.name}

A {shape.architecture} model of {num_parameters:,} parameters ({shape.width} wide, {shape.num_layers} layers, heads of
32) that reads hints about string rules. It was pre-trained from scratch on generated strings; no outside data.

- made by: `{training.command}`
- seed {training.seed}, {training.num_steps} steps, last training loss {training.last_loss:.3f}
- {training.cpu_seconds:.0f} s of processor time on one core ({training.seconds:.0f} s by the clock)
- made with {versions}; weights stored as float16

Accuracy with each kind of hint: the exact probability of the right answer at temperature 1, computed in float32 from
the stored weights on {num_documents} held-out strings per cell; standard error over strings in brackets.

| hint | all rules equally often | rule is {TARGET_RULE} |
| --- | --- | --- |
{rows}

A perfect reader would have 0.50 with `either`; 0.57, 0.27 and 0.11 with `maybe75`, `maybe50` and `maybe25`, whose rule
is right only that often; and without a hint 0.083 over all rules and 0.13 where the rule is reverse (the prior).
"""


def _cell(accuracy: Accuracy) -> str:
    return f"{accuracy.value:.3f} ({accuracy.stderr:.3f})"
