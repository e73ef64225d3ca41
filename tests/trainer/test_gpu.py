"""On an NVIDIA GPU the trainer computes what it computes on a CPU, in the memory that its chunks promise."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from predictor.records import Divergence, ForwardKL, FullVocabulary, JensenShannon, ReverseKL, StudentTopK, Support
from trainer.losses import Objective, Side, distillation_loss
from trainer.model import LanguageModel
from trainer.train import train

pytestmark = pytest.mark.gpu

DIVERGENCES: tuple[Divergence, ...] = (ForwardKL(), ReverseKL(), JensenShannon(alpha=0.3))
SUPPORTS: tuple[Support, ...] = (FullVocabulary(chunk=64), StudentTopK(k=20, chunk=64))
GIB = 2**30


class Head(nn.Module):
    """A model that is nothing but its output head."""

    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.config = type("Config", (), {})()
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def loss_and_gradients(head: Head, hidden_2NH: Tensor, objective: Objective) -> tuple[float, Tensor, Tensor]:
    """Loss, gradient of the student's hidden states and of the head, all on the CPU."""
    model = LanguageModel(head)  # type: ignore[arg-type]
    student_NH = hidden_2NH[0].clone().requires_grad_()
    loss, _ = distillation_loss(Side(model, student_NH), Side(model, hidden_2NH[1]), objective, len(student_NH))
    head.zero_grad()
    loss.backward()
    assert student_NH.grad is not None
    assert head.head.weight.grad is not None
    return loss.item(), student_NH.grad.cpu(), head.head.weight.grad.cpu()


@pytest.mark.parametrize(("divergence", "support"), list(itertools.product(DIVERGENCES, SUPPORTS)))
def test_loss_and_gradients_equal_the_cpus(divergence: Divergence, support: Support) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden_2NH = torch.randn(2, 200, 48, generator=generator)
    head = Head(48, 1000)
    head.head.weight.data = torch.randn(1000, 48, generator=generator) / 7.0
    objective = Objective(divergence, support, 0.8)
    here = loss_and_gradients(head, hidden_2NH, objective)
    there = loss_and_gradients(copy.deepcopy(head).cuda(), hidden_2NH.cuda(), objective)
    assert there[0] == pytest.approx(here[0], rel=1e-5)
    torch.testing.assert_close(there[1:], here[1:], rtol=1e-4, atol=1e-6)


def test_a_large_vocabulary_costs_one_chunk_of_logits_and_not_all_of_them(record_property: Callable[..., None]) -> None:
    positions, hidden, vocabulary, chunk = 8192, 1024, 151_936, 512
    head = Head(hidden, vocabulary).cuda()
    hidden_2NH = torch.randn(2, positions, hidden, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    loss, student, _ = loss_and_gradients(head, hidden_2NH, Objective(ReverseKL(), FullVocabulary(chunk=chunk), 1.0))
    peak = torch.cuda.max_memory_allocated() - before
    record_property("peak_gib", peak / GIB)
    assert loss > 0.0
    assert torch.isfinite(student).all()
    # The head's gradient exists up to three times; of logits, at most ten float32 copies of one chunk.
    head_bytes, chunk_bytes = 4 * hidden * vocabulary, 4 * chunk * vocabulary
    assert peak < 3.2 * head_bytes + 10 * chunk_bytes + GIB // 4
    assert 10 * chunk_bytes < 4 * positions * vocabulary


def test_a_run_on_the_gpu_teaches_the_student(write_run: Callable[..., Path]) -> None:
    directory = write_run(num_steps=40, training={"optimizer": {"lr": 5e-3, "warmup_steps": 2}})
    result = train(directory)
    losses = [json.loads(line)["loss"] for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == 40
    assert result.final_loss == losses[-1]
    assert sum(losses[-5:]) < sum(losses[:5])
