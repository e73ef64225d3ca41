"""The loop: what a step computes, what changes it, and what does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from predictor.errors import RunError
from predictor.records import (
    Divergence,
    ForwardKL,
    FullVocabulary,
    HintConfig,
    JensenShannon,
    ReverseKL,
    StudentTopK,
    Support,
)
from trainer import train as train_module
from trainer.batching import Row, micro_batches, pad
from trainer.config import load_run
from trainer.losses import Objective, tempered_logprobs, token_losses
from trainer.train import Learner, load_learner, score_and_compare, take_step, train

WriteRun = Callable[..., Path]
DIVERGENCES: list[Divergence] = [ForwardKL(), ReverseKL(), JensenShannon(alpha=0.3)]
SUPPORTS: list[Support] = [FullVocabulary(), StudentTopK(k=5)]


def learner_of(directory: Path) -> Learner:
    return load_learner(load_run(directory), directory)


def gradient(learner: Learner, batches: list[list[Row]]) -> tuple[float, Tensor]:
    """Loss and its gradient, all weights in one vector, without a step."""
    num_tokens = sum(len(row.completion_ids) for rows in batches for row in rows)
    weights = list(learner.student.parameters.values())
    loss, total = 0.0, [torch.zeros_like(weight) for weight in weights]
    for rows in batches:
        part, _ = score_and_compare(learner, rows, num_tokens)
        loss += part.item()
        for sum_, new in zip(total, torch.autograd.grad(part, weights), strict=True):
            sum_ += new
    return loss, torch.cat([tensor.flatten() for tensor in total])


def as_if_hint_free(rows: tuple[Row, ...]) -> list[Row]:
    return [Row(row.student_ids, row.student_ids, row.completion_ids) for row in rows]


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.kind)
@pytest.mark.parametrize("support", SUPPORTS, ids=lambda s: s.kind)
def test_equal_prompts_give_zero_loss_at_every_live_token(
    write_run: WriteRun, divergence: Divergence, support: Support
) -> None:
    learner = learner_of(write_run())
    rows = as_if_hint_free(learner.sampler.sample(0).rows)
    batch = pad([r.student_ids for r in rows], [r.completion_ids for r in rows], learner.student.device)
    student_NV = tempered_logprobs(learner.student.logits(learner.student.hidden(batch)), 1.0)
    with torch.no_grad():
        teacher_NV = tempered_logprobs(learner.teacher.logits(learner.teacher.hidden(batch)), 1.0)
    loss_N, _ = token_losses(student_NV, teacher_NV, Objective(divergence, support, 1.0))
    assert len(loss_N) == sum(len(row.completion_ids) for row in rows)
    assert loss_N.abs().max().item() <= 1e-7
    loss, direction = gradient(learner, [rows])
    assert abs(loss) <= 1e-7
    assert direction.abs().max().item() <= 1e-6


def test_loss_and_gradient_ignore_micro_batches_padding_and_row_order(write_run: WriteRun) -> None:
    learner = learner_of(write_run(training={"prompts_per_step": 10}))
    rows = list(learner.sampler.sample(0).rows)
    # A row with a far longer prompt pads the others, and one without a completion must not count.
    rows.append(Row(rows[0].student_ids * 6, rows[0].teacher_ids * 9, rows[0].completion_ids))
    rows.append(Row(rows[0].student_ids, rows[0].teacher_ids, ()))
    loss, direction = gradient(learner, micro_batches(rows, 64))
    assert loss > 0.01
    ways = [micro_batches(rows, size) for size in (1, 3, 7)] + [[rows], [rows[::-1]], [rows[5:], rows[:5]]]
    for batches in ways:
        other_loss, other_direction = gradient(learner, batches)
        assert other_loss == pytest.approx(loss, rel=1e-5)
        torch.testing.assert_close(other_direction, direction, atol=1e-6, rtol=1e-4)


def test_a_teacher_of_noise_changes_loss_and_gradient(write_run: WriteRun) -> None:
    """F24: teacher data that is collected but never used would leave both alone."""
    learner = learner_of(write_run())
    rows = [list(learner.sampler.sample(0).rows)]
    loss, direction = gradient(learner, rows)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in learner.teacher.parameters.values():
            weight += torch.randn(weight.shape, generator=generator)
    other_loss, other_direction = gradient(learner, rows)
    assert abs(other_loss - loss) > 0.1
    assert (other_direction - direction).abs().max().item() > 1e-3


def test_a_step_moves_the_student_towards_its_hinted_self_and_leaves_a_frozen_teacher(write_run: WriteRun) -> None:
    learner = learner_of(write_run(num_steps=12))
    teacher = [weight.clone() for weight in learner.teacher.parameters.values()]
    steps = [take_step(learner, step, []) for step in range(12)]
    assert steps[-1].reverse_kl < 0.8 * steps[0].reverse_kl
    assert steps[0].loss == pytest.approx(steps[0].reverse_kl, rel=1e-5)
    assert steps[0].num_rollouts == 12
    assert 0 < steps[0].num_live_tokens == steps[0].num_tokens
    assert all(torch.equal(a, b) for a, b in zip(teacher, learner.teacher.parameters.values(), strict=True))


def test_an_ema_teacher_moves_with_the_student(write_run: WriteRun) -> None:
    learner = learner_of(write_run(training={"teacher": {"kind": "ema", "rate": 0.5}}))
    start = [weight.clone() for weight in learner.teacher.parameters.values()]
    take_step(learner, 0, [])
    pairs = zip(start, learner.teacher.parameters.values(), learner.student.parameters.values(), strict=True)
    for before, teacher, student in pairs:
        torch.testing.assert_close(teacher, (before + student.detach()) / 2)
        assert not torch.equal(teacher, before)


def test_a_step_without_any_hint_changes_nothing(write_run: WriteRun) -> None:
    learner = learner_of(write_run(hint=HintConfig(name="none", kind="none")))
    before = {name: weight.detach().clone() for name, weight in learner.student.parameters.items()}
    metrics = take_step(learner, 0, [])
    assert metrics.loss == 0.0
    assert metrics.coverage == 0.0
    assert metrics.num_live_tokens == 0 < metrics.num_tokens
    assert all(torch.equal(before[name], weight) for name, weight in learner.student.parameters.items())


def test_rollouts_without_a_token_change_nothing(write_run: WriteRun) -> None:
    learner = learner_of(write_run())
    sampled = learner.sampler.sample(0)
    silent = replace(sampled, rows=tuple(replace(row, completion_ids=()) for row in sampled.rows), num_tokens=0)
    learner.sampler.sample = lambda _step: silent  # type: ignore[method-assign]
    before = [weight.detach().clone() for weight in learner.student.parameters.values()]
    metrics = take_step(learner, 0, [])
    assert metrics.loss == 0.0
    assert metrics.coverage == 1.0
    assert math.isnan(metrics.reverse_kl)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.student.parameters.values(), strict=True))


def test_rows_without_a_hint_do_not_dilute_the_mean(write_run: WriteRun) -> None:
    learner = learner_of(write_run(hint=HintConfig(name="feedback", kind="feedback", template="tried {{ attempt }}")))
    sampled = learner.sampler.sample(0)
    half = replace(sampled, rows=sampled.rows[: len(sampled.rows) // 2])
    loss, _ = gradient(learner, [list(half.rows)])
    learner.sampler.sample = lambda _step: half  # type: ignore[method-assign]
    metrics = take_step(learner, 0, [])
    assert metrics.coverage == pytest.approx(len(half.rows) / 12)
    assert metrics.loss == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("supported", [True, False])
def test_bfloat16_forward_passes_keep_float32_weights_and_a_nearby_loss(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, *, supported: bool
) -> None:
    # Emulated bfloat16 is slow, not wrong, so both kinds of hardware are tested on any.
    monkeypatch.setattr(train_module, "has_bfloat16", lambda _device: supported)
    plain = learner_of(write_run("plain"))
    rows = [list(plain.sampler.sample(0).rows)]
    rounded = learner_of(
        write_run("rounded", training={"autocast": "bfloat16", "support": {"kind": "full", "chunk": 5}})
    )
    loss, direction = gradient(plain, rows)
    other_loss, other_direction = gradient(rounded, rows)
    assert other_loss == pytest.approx(loss, rel=0.05 if supported else 1e-5)
    assert (other_loss == pytest.approx(loss, rel=1e-5)) != supported
    assert torch.cosine_similarity(direction, other_direction, dim=0).item() > 0.99
    take_step(rounded, 0, [])
    assert all(weight.dtype == torch.float32 for weight in rounded.student.parameters.values())


def test_a_loss_that_is_not_finite_ends_the_run_without_an_update(write_run: WriteRun) -> None:
    learner = learner_of(write_run())
    rollouts = learner.sampler.sample(0)
    learner.sampler.sample = lambda _step: rollouts  # type: ignore[method-assign]
    with torch.no_grad():
        for weight in learner.teacher.parameters.values():
            weight.fill_(torch.nan)
    before = [weight.detach().clone() for weight in learner.student.parameters.values()]
    with pytest.raises(RunError, match="not finite"):
        take_step(learner, 0, [])
    assert all(torch.equal(a, b) for a, b in zip(before, learner.student.parameters.values(), strict=True))


@pytest.mark.parametrize(
    "training",
    [
        {"divergence": {"kind": "forward_kl"}, "teacher": {"kind": "ema", "rate": 0.05}},
        {"divergence": {"kind": "jsd", "alpha": 0.5}, "support": {"kind": "student_top_k", "k": 8}},
    ],
    ids=["forward KL, EMA", "JSD, top k"],
)
def test_every_variant_trains_to_the_end(write_run: WriteRun, training: dict[str, Any]) -> None:
    directory = write_run(training=training, num_steps=10)
    result = train(directory)
    steps = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(1, 11))
    assert steps[-1]["loss"] < 0.9 * steps[0]["loss"]
    assert result.num_steps == 10
    assert result.final_loss == steps[-1]["loss"]
    assert result.num_tokens == sum(step["num_tokens"] for step in steps)
    assert result.coverage == 1.0
