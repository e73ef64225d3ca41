"""Losses that public trainers got wrong: terms clipped one by one, and a support that misses the student's tokens."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from predictor.errors import StudyError
from predictor.records import (
    PRESETS,
    Divergence,
    ForwardKL,
    FullVocabulary,
    JensenShannon,
    ReverseKL,
    StudentTopK,
    Support,
    resolve_training,
)
from trainer.losses import Objective, tempered_logprobs, token_losses

DIVERGENCES: list[Divergence] = [ForwardKL(), ReverseKL(), JensenShannon(alpha=0.5), JensenShannon(alpha=0.2)]
SUPPORTS: list[Support] = [FullVocabulary(chunk=3), StudentTopK(k=4, chunk=3), StudentTopK(k=1, chunk=100)]


def random_logits(seed: int) -> Tensor:
    return 3.0 * torch.randn((6, 11), generator=torch.Generator().manual_seed(seed))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(DIVERGENCES), st.sampled_from(SUPPORTS), st.floats(0.01, 30.0))
def test_no_token_has_a_negative_loss(seed: int, divergence: Divergence, support: Support, scale: float) -> None:
    """F12b: terms are never clipped one by one, so what is minimised stays a divergence."""
    student_NV, teacher_NV = (tempered_logprobs(scale * random_logits(s), 1.0) for s in (seed, seed + 1))
    loss_N, _ = token_losses(student_NV, teacher_NV, Objective(divergence, support, 1.0))
    assert float(loss_N.min()) >= -1e-5


def test_terms_clipped_on_one_side_would_be_no_divergence() -> None:
    """F12b: with positive terms cut at 0.05 the KL of a bold teacher reads negative; ours is the KL."""
    student_NV, teacher_NV = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.7, 0.3]]).log()
    terms_NV = teacher_NV.exp() * (teacher_NV - student_NV)
    assert float(terms_NV.clamp(max=0.05).sum()) < 0.0
    loss_N, _ = token_losses(student_NV, teacher_NV, Objective(ForwardKL(), FullVocabulary(), 1.0))
    assert float(loss_N) == pytest.approx(0.7 * math.log(1.4) + 0.3 * math.log(0.6), abs=1e-6)


def test_a_teacher_whose_top_tokens_the_student_does_not_keep_is_seen_in_tail_and_log() -> None:
    """F13: the support is the student's, by name; with disjoint top 2 the loss is the exact coarsened divergence."""
    student_NV, teacher_NV = torch.tensor([[0.45, 0.45, 0.05, 0.05]]).log(), torch.tensor([[0.1, 0.1, 0.4, 0.4]]).log()
    objective = Objective(ReverseKL(), StudentTopK(k=2), 1.0)
    loss_N, logged_6N = token_losses(student_NV, teacher_NV, objective)
    assert float(loss_N) == pytest.approx(0.9 * math.log(0.45 / 0.1) + 0.1 * math.log(0.1 / 0.8), abs=1e-5)
    assert logged_6N[4:, 0].tolist() == pytest.approx([0.9, 0.2], abs=1e-6), "mass of student and teacher on it"
    assert PRESETS["sdpo_lcb"].divergence == ReverseKL()
    assert isinstance(PRESETS["sdpo_lcb"].support, StudentTopK)
    with pytest.raises(StudyError, match="not valid"):
        resolve_training("sdpo_lcb", {"support": {"kind": "teacher_top_k"}})
