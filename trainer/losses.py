"""Divergences between student and self-teacher, over the vocabulary or the student's top k, in chunks of positions.

Every function takes live positions only: batching packs the completion tokens of all rows into one axis N, so that
padding and rows without a hint can neither dilute a mean nor reach a logarithm. Log-probabilities are of
softmax(logits / T) with the sampling temperature T on both sides.

The tail bucket makes the top-k loss the exact divergence of a coarsened distribution, whose gradient vanishes where
teacher and student agree on the support and leaks no mass out of it (arXiv 2605.11182).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from predictor.records import Divergence, ForwardKL, ReverseKL, StudentTopK, Support
from trainer.model import LanguageModel

# Stands in for -inf: exp of it is 0, and 0 times it is 0 where 0 times -inf would be NaN.
FLOOR = -1e30


@dataclass(frozen=True, slots=True)
class Objective:
    """What the student is trained towards: a divergence, where it is taken, and the sampling temperature."""

    divergence: Divergence
    support: Support
    temperature: float


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Sums over live tokens, in nats, of what is logged; all over the full vocabulary."""

    forward_kl: float = 0.0
    reverse_kl: float = 0.0
    student_entropy: float = 0.0
    teacher_entropy: float = 0.0
    student_mass: float = 0.0
    """Student probability on the support; 1 per token when the support is the vocabulary."""
    teacher_mass: float = 0.0
    """Teacher probability on the student's support: how much of the teacher the top k can see."""

    def __add__(self, other: TokenSums) -> TokenSums:
        """Sums over both sets of tokens."""
        return TokenSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def means(self, num_tokens: int) -> dict[str, float]:
        """Means over `num_tokens` by name; NaN without tokens."""
        return {f.name: getattr(self, f.name) / num_tokens if num_tokens else math.nan for f in fields(self)}


def forward_kl(student_NK: Tensor, teacher_NK: Tensor) -> Tensor:
    """KL(teacher‖student) at every position from log-probabilities, in nats; zero where the two agree. Shape (N,)."""
    return (teacher_NK.exp() * (teacher_NK - student_NK)).sum(-1)


def reverse_kl(student_NK: Tensor, teacher_NK: Tensor) -> Tensor:
    """KL(student‖teacher) at every position from log-probabilities, in nats; zero where the two agree. Shape (N,)."""
    return forward_kl(teacher_NK, student_NK)


def jensen_shannon(student_NK: Tensor, teacher_NK: Tensor, alpha: float) -> Tensor:
    """(1-alpha)·KL(S‖M) + alpha·KL(T‖M) with M = (1-alpha)·S + alpha·T; symmetric at alpha = 1/2. Shape (N,).

    Divided by alpha it tends to the forward KL as alpha → 0, divided by 1-alpha to the reverse KL as alpha → 1:
    alpha scales the gradient as well as turning it.
    """
    weight = torch.tensor(alpha, dtype=student_NK.dtype, device=student_NK.device)
    mixture_NK = torch.logaddexp(torch.log1p(-weight) + student_NK, weight.log() + teacher_NK)
    student_N = (student_NK.exp() * (student_NK - mixture_NK)).sum(-1)
    teacher_N = (teacher_NK.exp() * (teacher_NK - mixture_NK)).sum(-1)
    return (1.0 - alpha) * student_N + alpha * teacher_N


def divergence_N(student_NK: Tensor, teacher_NK: Tensor, divergence: Divergence) -> Tensor:
    """The configured divergence at every position, from log-probabilities over the same K outcomes. Shape (N,)."""
    if isinstance(divergence, ForwardKL):
        return forward_kl(student_NK, teacher_NK)
    if isinstance(divergence, ReverseKL):
        return reverse_kl(student_NK, teacher_NK)
    return jensen_shannon(student_NK, teacher_NK, divergence.alpha)


def tempered_logprobs(logits_NV: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / T) in float32; an entry at -inf gets probability 0 and a finite logarithm. Shape (N, V)."""
    return torch.log_softmax((logits_NV.float() / temperature).clamp(min=FLOOR), dim=-1)


def coarsen(logprobs_NV: Tensor, ids_NK: Tensor) -> Tensor:
    """Log-probabilities of the tokens in `ids_NK` and of one bucket holding all the others. Shape (N, K+1).

    The tail is summed from its own entries, not taken as 1 minus the rest, so it is exact even when it is tiny.
    """
    kept_NK = logprobs_NV.gather(-1, ids_NK)
    tail_N1 = logprobs_NV.scatter(-1, ids_NK, FLOOR).logsumexp(-1, keepdim=True)
    return torch.cat([kept_NK, tail_N1], dim=-1)


def token_losses(student_NV: Tensor, teacher_NV: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """Loss and logged quantities at every position, from log-probabilities; shapes (N,) and (6, N).

    Gradients flow into the student's log-probabilities only, and not through the choice of its top k.
    """
    support = objective.support
    # With k at or above the vocabulary there is no tail, and an empty one would have no logarithm.
    if isinstance(support, StudentTopK) and support.k < student_NV.shape[-1]:
        ids_NK = student_NV.detach().topk(support.k, dim=-1).indices
        student_NK, teacher_NK = coarsen(student_NV, ids_NK), coarsen(teacher_NV, ids_NK)
        mass_2N = torch.stack([1.0 - x_NK[:, -1].detach().exp() for x_NK in (student_NK, teacher_NK)])
    else:
        student_NK, teacher_NK = student_NV, teacher_NV
        mass_2N = student_NV.new_ones(2, len(student_NV))
    loss_N = divergence_N(student_NK, teacher_NK, objective.divergence)
    return loss_N, torch.cat([_diagnostics(student_NV.detach(), teacher_NV), mass_2N])


def _diagnostics(student_NV: Tensor, teacher_NV: Tensor) -> Tensor:
    """Forward KL, reverse KL, student and teacher entropy at every position, without (N, V) temporaries kept."""
    student_p_NV = student_NV.exp()
    student_N = -torch.linalg.vecdot(student_p_NV, student_NV)
    reverse_N = -torch.linalg.vecdot(student_p_NV, teacher_NV) - student_N
    # These buffers are the peak of memory: the student's goes before the teacher's is made.
    del student_p_NV
    teacher_p_NV = teacher_NV.exp()
    teacher_N = -torch.linalg.vecdot(teacher_p_NV, teacher_NV)
    forward_N = -torch.linalg.vecdot(teacher_p_NV, student_NV) - teacher_N
    return torch.stack([forward_N, reverse_N, student_N, teacher_N])


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: hidden states of the live positions and the model whose head reads them."""

    model: LanguageModel
    hidden_NH: Tensor


def distillation_loss(student: Side, teacher: Side, objective: Objective, num_tokens: int) -> tuple[Tensor, TokenSums]:
    """Sum of the token losses divided by `num_tokens` (the global batch's live tokens), and the logged sums.

    Logits exist for one chunk of positions at a time, together with their gradient, which is formed at once (as in
    Liger's fused losses): nothing of size (N, V) is kept for the backward pass. Without positions the loss is 0
    with a live graph.
    """
    parameters = [p for p in student.model.head_parameters if p.requires_grad]
    loss, sums = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        student.hidden_NH, _Chunks(student.model, teacher, objective, max(1, num_tokens)), *parameters
    )
    return loss, TokenSums(*sums.tolist())


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Evaluates loss, logged sums and gradients one chunk of positions after the other."""

    student: LanguageModel
    teacher: Side
    objective: Objective
    num_tokens: int

    def evaluate(
        self, student_NH: Tensor, parameters: tuple[Tensor, ...]
    ) -> Iterator[tuple[Tensor, Tensor, tuple[Tensor, ...]]]:
        """For each chunk: its part of the loss, its (6,) logged sums, gradients of hidden states and parameters."""
        temperature, size = self.objective.temperature, self.objective.support.chunk
        for student_CH, teacher_CH in zip(
            student_NH.detach().split(size), self.teacher.hidden_NH.split(size), strict=True
        ):
            teacher_CV = tempered_logprobs(self.teacher.model.logits(teacher_CH), temperature)
            with torch.enable_grad():
                leaf_CH = student_CH.requires_grad_()
                student_CV = tempered_logprobs(self.student.logits(leaf_CH), temperature)
                loss_C, logged_6C = token_losses(student_CV, teacher_CV, self.objective)
                loss = loss_C.sum() / self.num_tokens
            gradients = torch.autograd.grad(loss, (leaf_CH, *parameters))
            yield loss.detach(), logged_6C.double().sum(-1), gradients


class _ChunkedLoss(torch.autograd.Function):
    """A scalar whose gradient was computed with it, chunk by chunk."""

    @staticmethod
    def forward(ctx: Any, student_NH: Tensor, chunks: _Chunks, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and logged sums; keeps only gradients, of the size of the hidden states and of the head."""
        if len(student_NH) != len(chunks.teacher.hidden_NH):
            raise AssertionError("student and teacher score different tokens")
        device = student_NH.device
        total, logged_6 = torch.zeros((), device=device), torch.zeros(6, dtype=torch.double, device=device)
        hidden_gradients: list[Tensor] = [torch.zeros_like(student_NH[:0])]
        head_gradients = [torch.zeros_like(p) for p in parameters]
        # split() gives one empty chunk for no positions, on which a gradient would be undefined.
        for loss, sums_6, gradients in chunks.evaluate(student_NH, parameters) if len(student_NH) else ():
            total, logged_6 = total + loss, logged_6 + sums_6
            hidden_gradients.append(gradients[0])
            for accumulated, gradient in zip(head_gradients, gradients[1:], strict=True):
                accumulated += gradient
        ctx.save_for_backward(torch.cat(hidden_gradients), *head_gradients)
        ctx.mark_non_differentiable(logged_6)
        return total, logged_6

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        """The stored gradients times that of the loss."""
        hidden_NH, *head = ctx.saved_tensors
        return (hidden_NH * outputs[0], None, *(gradient * outputs[0] for gradient in head))
