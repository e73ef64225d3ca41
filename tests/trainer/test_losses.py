"""The chunked losses equal a plain loop over full softmaxes, in value and gradient, and never hold all logits."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from predictor.records import Divergence, ForwardKL, FullVocabulary, JensenShannon, ReverseKL, StudentTopK, Support
from trainer.losses import (
    Objective,
    Side,
    coarsen,
    distillation_loss,
    forward_kl,
    jensen_shannon,
    reverse_kl,
    tempered_logprobs,
    token_losses,
)
from trainer.model import LanguageModel

DIVERGENCES: list[Divergence] = [ForwardKL(), ReverseKL(), JensenShannon(alpha=0.5), JensenShannon(alpha=0.2)]
SUPPORTS: list[Support] = [FullVocabulary(chunk=3), StudentTopK(k=4, chunk=3), StudentTopK(k=1, chunk=100)]
H, V = 6, 11


class Network(nn.Module):
    """A head without a body: all that the loss asks of a model."""

    def __init__(self, seed: int, *, bias: bool = True) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.config = SimpleNamespace()
        self.head = nn.Linear(H, V, bias=bias)
        for weight in self.head.parameters():
            weight.data = torch.randn(weight.shape, generator=generator)

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def model(seed: int = 0) -> LanguageModel:
    return LanguageModel(Network(seed))  # type: ignore[arg-type]


def random_logits(seed: int, *shape: int) -> Tensor:
    return 3.0 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def naive_token_loss(student_V: Tensor, teacher_V: Tensor, objective: Objective) -> Tensor:
    """One position with probabilities instead of logarithms, and the tail as what is missing from 1."""
    s_V = torch.softmax(student_V.double() / objective.temperature, 0)
    t_V = torch.softmax(teacher_V.double() / objective.temperature, 0)
    if isinstance(objective.support, StudentTopK):
        kept = s_V.topk(objective.support.k).indices
        s_V = torch.cat([s_V[kept], 1 - s_V[kept].sum()[None]])
        t_V = torch.cat([t_V[kept], 1 - t_V[kept].sum()[None]])
    if isinstance(objective.divergence, ForwardKL):
        return (t_V * (t_V / s_V).log()).sum()
    if isinstance(objective.divergence, ReverseKL):
        return (s_V * (s_V / t_V).log()).sum()
    alpha = objective.divergence.alpha
    m_V = (1 - alpha) * s_V + alpha * t_V
    return (1 - alpha) * (s_V * (s_V / m_V).log()).sum() + alpha * (t_V * (t_V / m_V).log()).sum()


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("support", SUPPORTS, ids=str)
@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
def test_value_and_gradient_equal_a_plain_loop(divergence: Divergence, support: Support, temperature: float) -> None:
    """F15: with temperature and with masked tokens, loss and gradient of the chunked path are the plain ones."""
    objective = Objective(divergence, support, temperature)
    student, teacher = model(0), model(1)
    hidden_NH = random_logits(2, 8, H) / 3
    teacher_NH = random_logits(3, 8, H) / 3
    live = [0, 2, 3, 7]

    ours_NH = hidden_NH.clone().requires_grad_()
    loss, _ = distillation_loss(Side(student, ours_NH[live]), Side(teacher, teacher_NH[live]), objective, len(live))
    loss.backward()
    ours = [p.grad.clone() for p in student.head_parameters if p.grad is not None]

    theirs_NH = hidden_NH.clone().requires_grad_()
    logits_NV = student.logits(theirs_NH)
    teacher_NV = teacher.logits(teacher_NH).detach()
    naive = sum(naive_token_loss(logits_NV[n], teacher_NV[n], objective) for n in live) / len(live)
    expected = torch.autograd.grad(naive, (theirs_NH, *student.head_parameters))

    assert loss.item() == pytest.approx(naive.item(), abs=1e-5)
    assert ours_NH.grad is not None
    for mine, plain in zip([ours_NH.grad, *ours], expected, strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-5, rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 15), st.integers(1, V + 3), st.data())
def test_chunks_do_not_change_the_loss(seed: int, n: int, chunk: int, k: int, data: st.DataObject) -> None:
    """F15: the chunked path computes the loss and the gradient of the plain one, at a temperature of its own."""
    divergence = data.draw(st.sampled_from(DIVERGENCES))
    student, teacher = Side(model(0), random_logits(seed, n, H)), Side(model(1), random_logits(seed + 1, n, H))
    whole, _ = distillation_loss(student, teacher, Objective(divergence, StudentTopK(k=k, chunk=100), 1.0), n)
    parts, _ = distillation_loss(student, teacher, Objective(divergence, StudentTopK(k=k, chunk=chunk), 1.0), n)
    assert parts.item() == pytest.approx(whole.item(), rel=1e-5, abs=1e-6)
    assert whole.item() >= -1e-6


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_top_k_of_the_whole_vocabulary_is_the_full_loss(divergence: Divergence) -> None:
    student_NV, teacher_NV = (tempered_logprobs(random_logits(seed, 5, V), 1.0) for seed in (0, 1))
    full_N, _ = token_losses(student_NV, teacher_NV, Objective(divergence, FullVocabulary(), 1.0))
    for k in (V, V + 5):
        top_N, _ = token_losses(student_NV, teacher_NV, Objective(divergence, StudentTopK(k=k), 1.0))
        assert torch.equal(top_N, full_N)
    # All but one token kept: the tail is that token, so nothing is coarsened.
    most_N, _ = token_losses(student_NV, teacher_NV, Objective(divergence, StudentTopK(k=V - 1), 1.0))
    torch.testing.assert_close(most_N, full_N, atol=1e-5, rtol=1e-5)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, V - 1), st.floats(0.01, 30.0))
def test_support_and_tail_sum_to_one(seed: int, k: int, scale: float) -> None:
    """F13: the support is the student's own top k, so it holds what the student samples; the rest is the tail."""
    logprobs_NV = tempered_logprobs(random_logits(seed, 4, V) * scale, 1.0)
    coarse_NK = coarsen(logprobs_NV, logprobs_NV.topk(k).indices)
    assert coarse_NK.shape == (4, k + 1)
    torch.testing.assert_close(coarse_NK.exp().sum(-1), torch.ones(4))


def test_a_tiny_tail_keeps_its_size() -> None:
    # As 1 minus the rest it would be 0 in float32.
    logprobs_NV = tempered_logprobs(torch.tensor([[0.0, -40.0, -40.0]]), 1.0)
    tail = coarsen(logprobs_NV, torch.tensor([[0]]))[0, -1]
    assert float(tail) == pytest.approx(-40.0 + math.log(2.0), abs=1e-4)


def test_jensen_shannon_is_symmetric_at_one_half() -> None:
    student_NV, teacher_NV = (tempered_logprobs(random_logits(seed, 9, V), 1.0) for seed in (4, 5))
    forth_N, back_N = jensen_shannon(student_NV, teacher_NV, 0.5), jensen_shannon(teacher_NV, student_NV, 0.5)
    torch.testing.assert_close(forth_N, back_N)
    assert (
        float((jensen_shannon(student_NV, teacher_NV, 0.2) - jensen_shannon(teacher_NV, student_NV, 0.2)).abs().max())
        > 0.01
    )


def test_jensen_shannon_tends_to_the_kls_at_its_ends() -> None:
    student_NV, teacher_NV = (tempered_logprobs(random_logits(seed, 9, V).double(), 1.0).double() for seed in (6, 7))
    alpha = 1e-7
    near_0_N = jensen_shannon(student_NV, teacher_NV, alpha) / alpha
    near_1_N = jensen_shannon(student_NV, teacher_NV, 1 - alpha) / alpha
    torch.testing.assert_close(near_0_N, forward_kl(student_NV, teacher_NV), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(near_1_N, reverse_kl(student_NV, teacher_NV), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_jensen_shannon_equals_trls_published_formula(alpha: float) -> None:
    student_NV, teacher_NV = (random_logits(seed, 7, V) for seed in (8, 9))
    log_s_NV, log_t_NV = student_NV.log_softmax(-1), teacher_NV.log_softmax(-1)
    weight = torch.tensor(alpha)
    mixture_NV = torch.logsumexp(torch.stack([log_s_NV + torch.log1p(-weight), log_t_NV + weight.log()]), dim=0)
    kl_teacher_NV = functional.kl_div(mixture_NV, log_t_NV, reduction="none", log_target=True)
    kl_student_NV = functional.kl_div(mixture_NV, log_s_NV, reduction="none", log_target=True)
    expected_N = (weight * kl_teacher_NV + (1 - weight) * kl_student_NV).sum(-1)
    torch.testing.assert_close(jensen_shannon(log_s_NV, log_t_NV, alpha), expected_N, atol=1e-6, rtol=1e-5)


def test_both_kls_equal_torchs_own() -> None:
    log_s_NV, log_t_NV = (random_logits(seed, 7, V).log_softmax(-1) for seed in (10, 11))
    expected_N = functional.kl_div(log_s_NV, log_t_NV, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(forward_kl(log_s_NV, log_t_NV), expected_N)
    expected_N = functional.kl_div(log_t_NV, log_s_NV, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(reverse_kl(log_s_NV, log_t_NV), expected_N)


def test_the_temperature_divides_the_logits_once() -> None:
    """F16: T = 0.5 left out would give .8808, applied after the softmax .7758, applied twice .9997."""
    assert tempered_logprobs(torch.tensor([[2.0, 0.0]]), 0.5).exp()[0, 0] == pytest.approx(0.98201, abs=1e-5)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_agreement_on_the_support_gives_no_gradient(divergence: Divergence) -> None:
    # arXiv 2605.11182: teacher and student agree on the student's top k but not inside the tail.
    student_NV = random_logits(12, 6, V).requires_grad_()
    k = 3
    teacher_NV = student_NV.detach().clone()
    outside = teacher_NV.argsort(-1, descending=True)[:, k:]
    teacher_NV.scatter_(-1, outside, teacher_NV.gather(-1, outside.roll(1, dims=-1)))
    log_s_NV, log_t_NV = tempered_logprobs(student_NV, 1.0), tempered_logprobs(teacher_NV, 1.0)
    loss_N, _ = token_losses(log_s_NV, log_t_NV, Objective(divergence, StudentTopK(k=k), 1.0))
    gradient = torch.autograd.grad(loss_N.sum(), student_NV, retain_graph=True)[0]
    assert loss_N.abs().max().item() < 1e-6
    assert float(gradient.abs().max()) < 1e-6

    kept = student_NV.detach().topk(k).indices
    biased_NK = log_s_NV.gather(-1, kept)
    leak = (biased_NK.exp() * (biased_NK - log_t_NV.gather(-1, kept))).sum()
    assert float(torch.autograd.grad(leak, student_NV)[0].abs().max()) > 1e-3


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("support", SUPPORTS, ids=str)
def test_infinite_logits_give_finite_losses_and_gradients(divergence: Divergence, support: Support) -> None:
    """F11, F15: an impossible token (-inf on both sides) and a position that is -inf throughout."""
    student_NV, teacher_NV = random_logits(13, 4, V), random_logits(14, 4, V)
    for logits_NV in (student_NV, teacher_NV):
        logits_NV[:, 2] = -math.inf
        logits_NV[3] = -math.inf
    student_NV.requires_grad_()
    loss_N, logged_6N = token_losses(
        tempered_logprobs(student_NV, 1.0), tempered_logprobs(teacher_NV, 1.0), Objective(divergence, support, 1.0)
    )
    gradient_NV = torch.autograd.grad(loss_N.sum(), student_NV)[0]
    assert float(tempered_logprobs(teacher_NV, 1.0)[:3, 2].exp().max()) == 0.0
    assert bool(torch.isfinite(loss_N).all())
    assert bool(torch.isfinite(logged_6N).all())
    assert bool(torch.isfinite(gradient_NV).all())
    assert abs(loss_N[3].item()) < 1e-7
    assert float(gradient_NV[:, 2].abs().max()) == 0.0


def test_dead_positions_cannot_reach_the_loss() -> None:
    """F11: NaN at masked positions; their gradient is zero."""
    hidden_NH = random_logits(15, 5, H)
    hidden_NH[[1, 4]] = math.nan
    hidden_NH.requires_grad_()
    live = torch.tensor([0, 2, 3])
    student = Side(model(0), hidden_NH.index_select(0, live))
    loss, _ = distillation_loss(
        student, Side(model(1), random_logits(16, 3, H)), Objective(ReverseKL(), SUPPORTS[0], 1.0), 3
    )
    loss.backward()
    assert hidden_NH.grad is not None
    assert math.isfinite(loss.item())
    assert float(hidden_NH.grad[[1, 4]].abs().max()) == 0.0
    assert float(hidden_NH.grad[live].abs().min(-1).values.max()) > 0.0


def test_no_live_position_gives_zero_loss_with_a_live_graph() -> None:
    student = model(0)
    hidden_NH = torch.zeros(0, H, requires_grad=True)
    loss, sums = distillation_loss(
        Side(student, hidden_NH), Side(model(1), torch.zeros(0, H)), Objective(ReverseKL(), FullVocabulary(), 1.0), 0
    )
    loss.backward()
    assert loss.item() == 0.0
    assert loss.requires_grad
    assert hidden_NH.grad is not None
    assert all(p.grad is not None and float(p.grad.abs().max()) == 0.0 for p in student.head_parameters)
    assert sums.reverse_kl == 0.0
    assert math.isnan(sums.means(0)["reverse_kl"])


def test_the_logged_quantities_are_those_of_the_full_vocabulary() -> None:
    student_NV, teacher_NV = (tempered_logprobs(random_logits(seed, 6, V), 1.0) for seed in (17, 18))
    _, logged_6N = token_losses(student_NV, teacher_NV, Objective(JensenShannon(), StudentTopK(k=2), 1.0))
    kept = student_NV.topk(2).indices
    expected = [
        forward_kl(student_NV, teacher_NV),
        reverse_kl(student_NV, teacher_NV),
        torch.distributions.Categorical(logits=student_NV).entropy(),
        torch.distributions.Categorical(logits=teacher_NV).entropy(),
        student_NV.gather(-1, kept).exp().sum(-1),
        teacher_NV.gather(-1, kept).exp().sum(-1),
    ]
    torch.testing.assert_close(logged_6N, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_one_chunk_of_logits_is_the_most_that_is_ever_held() -> None:
    """F19: logits exist for one chunk of completion positions at a time."""
    student, n, chunk = model(0), 64, 4
    rows_seen: list[int] = []
    student.network.head.register_forward_hook(lambda _m, _i, output: rows_seen.append(len(output)))
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    objective = Objective(ReverseKL(), FullVocabulary(chunk=chunk), 1.0)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden_NH = random_logits(19, n, H).requires_grad_()
        loss, _ = distillation_loss(Side(student, hidden_NH), Side(model(1), random_logits(20, n, H)), objective, n)
        loss.backward()
    assert max(rows_seen) == chunk
    assert max(kept) <= max(chunk * V, n * H, V * H) < n * V


def test_scoring_different_tokens_on_the_two_sides_is_refused() -> None:
    """F9: lengths that differ are an error, never cut to the shorter one."""
    sides: list[Any] = [Side(model(seed), torch.zeros(n, H)) for seed, n in ((0, 3), (1, 4))]
    with pytest.raises(AssertionError, match="different tokens"):
        distillation_loss(*sides, Objective(ReverseKL(), FullVocabulary(), 1.0), 3)
