"""AdamW over every weight, its learning-rate schedule, and its state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from predictor.errors import StoreError
from predictor.records import OptimizerConfig
from trainer.model import LanguageModel

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def learning_rate(step: int, num_steps: int, config: OptimizerConfig) -> float:
    """Rate of step 0 … num_steps-1: linear warm-up, constant, then linear decay that would reach 0 at num_steps.

    The first warm-up step has rate lr / warmup_steps, and the last step of a decay is small but not zero.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    decay_start = config.decay_from * num_steps
    decay = min(1.0, (num_steps - step) / (num_steps - decay_start)) if decay_start < num_steps else 1.0
    return config.lr * warmup * decay


class Optimizer:
    """AdamW on float32 weights, with clipping by the global gradient norm."""

    def __init__(self, model: LanguageModel, config: OptimizerConfig) -> None:
        self._weights = model.parameters
        self._clip_norm = config.clip_norm
        # Fused: one pass over weights and moments, without temporaries of the model's size.
        self._adamw = torch.optim.AdamW(
            self._weights.values(), lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True
        )

    def clip(self) -> float:
        """Scale the gradient to at most the configured norm, and return the norm before."""
        return float(torch.nn.utils.clip_grad_norm_(self._weights.values(), self._clip_norm))

    def step(self, lr: float) -> None:
        """One update at this rate; the gradient is cleared."""
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        self._adamw.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        """Step count and both moments of every weight, named `weight/moment`; empty before the first step."""
        state = self._adamw.state
        return {
            f"{name}/{moment}": state[weight][moment]
            for name, weight in self._weights.items()
            if weight in state
            for moment in _MOMENTS
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave; StoreError when it belongs to other weights."""
        names = {key.rpartition("/")[0] for key in tensors}
        if not names <= set(self._weights) or len(tensors) != len(names) * len(_MOMENTS):
            raise StoreError(
                "the optimiser's state does not fit the model",
                fix="remove the run's `state` directory to train it from the start",
            )
        for name in names:
            self._adamw.state[self._weights[name]] = {m: tensors[f"{name}/{m}"] for m in _MOMENTS}
