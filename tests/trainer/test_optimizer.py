"""The schedule is a pure function; AdamW's state survives as named tensors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import StoreError
from predictor.records import OptimizerConfig
from trainer.model import load_model
from trainer.optimizer import Optimizer, learning_rate


def test_the_miniature_schedule_warms_up_holds_and_decays() -> None:
    config = OptimizerConfig(lr=5e-4, warmup_steps=5, decay_from=0.5)
    rates = [learning_rate(step, 50, config) / 5e-4 for step in range(50)]
    assert rates[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert rates[24:27] == pytest.approx([1.0, 1.0, 24 / 25])
    assert rates[-1] == pytest.approx(1 / 25)


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(0, 50), st.floats(0.0, 1.0), st.floats(1e-7, 1e-2, allow_nan=False), st.data())
def test_the_rate_stays_in_bounds(
    num_steps: int, warmup: int, decay_from: float, lr: float, data: st.DataObject
) -> None:
    config = OptimizerConfig(lr=lr, warmup_steps=warmup, decay_from=decay_from)
    step = data.draw(st.integers(0, num_steps - 1))
    rate = learning_rate(step, num_steps, config)
    assert 0.0 < rate <= lr
    if warmup <= step <= decay_from * num_steps:
        assert rate == pytest.approx(lr)


def test_without_warm_up_and_decay_the_rate_is_constant() -> None:
    assert {learning_rate(step, 9, OptimizerConfig(lr=1e-3)) for step in range(9)} == {1e-3}


def test_a_step_is_clipped_to_the_norm_and_moves_by_at_most_the_rate(tiny_model_dir: Path) -> None:
    model = load_model(tiny_model_dir)
    optimizer = Optimizer(model, OptimizerConfig(clip_norm=0.1))
    before = {name: weight.detach().clone() for name, weight in model.parameters.items()}
    for weight in model.parameters.values():
        weight.grad = torch.ones_like(weight)
    num_weights = sum(weight.numel() for weight in model.parameters.values())
    assert optimizer.clip() == pytest.approx(math.sqrt(num_weights), rel=1e-4)
    norms = [float(weight.grad.norm()) for weight in model.parameters.values() if weight.grad is not None]
    assert math.hypot(*norms) == pytest.approx(0.1, rel=1e-3)
    optimizer.step(1e-3)
    moved = max((weight - before[name]).abs().max().item() for name, weight in model.parameters.items())
    assert moved == pytest.approx(1e-3, rel=1e-2)
    assert all(weight.grad is None for weight in model.parameters.values())


def test_restored_moments_take_the_same_next_step(tiny_model_dir: Path) -> None:
    one, other = load_model(tiny_model_dir), load_model(tiny_model_dir)
    first, second = Optimizer(one, OptimizerConfig(lr=1e-2)), Optimizer(other, OptimizerConfig(lr=1e-2))
    assert first.tensors() == {}

    def give_gradient(model: object, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for weight in model.parameters.values():  # type: ignore[attr-defined]
            weight.grad = torch.randn(weight.shape, generator=generator)

    give_gradient(one, 0)
    first.step(1e-2)
    with torch.no_grad():
        for name, weight in other.parameters.items():
            weight.copy_(one.parameters[name])
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for model, optimizer in ((one, first), (other, second)):
        give_gradient(model, 1)
        optimizer.step(1e-2)
    assert all(torch.equal(weight, other.parameters[name]) for name, weight in one.parameters.items())


def test_moments_of_other_weights_are_refused(tiny_model_dir: Path) -> None:
    optimizer = Optimizer(load_model(tiny_model_dir), OptimizerConfig())
    with pytest.raises(StoreError, match="does not fit the model"):
        optimizer.restore({"elsewhere/step": torch.tensor(1.0)})
