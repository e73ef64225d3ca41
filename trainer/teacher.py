"""The self-teacher's weights: a copy of the student's initial ones, which stays or follows."""

from __future__ import annotations

import copy

import torch

from predictor.records import EmaTeacher, Teacher
from trainer.model import LanguageModel


def make_teacher(student: LanguageModel) -> LanguageModel:
    """A copy of the very weights in memory that takes no gradient: before the first step it IS the student.

    It stays in float32 even under autocast, so that without a hint the loss starts at exactly zero.
    """
    return LanguageModel(copy.deepcopy(student.network).requires_grad_(requires_grad=False).eval())


@torch.no_grad()
def follow(teacher: LanguageModel, student: LanguageModel, config: Teacher) -> None:
    """After a step: teacher ← (1 - rate)·teacher + rate·student for EMA, nothing for a frozen teacher.

    From a start at 0 and a student at 1, k steps give 1 - (1 - rate)^k.
    """
    if not isinstance(config, EmaTeacher):
        return
    # One call for all weights: on small models a loop over names costs more than the arithmetic.
    torch._foreach_lerp_(list(teacher.parameters.values()), list(student.parameters.values()), config.rate)
