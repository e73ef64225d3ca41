"""The teacher starts as the student in memory, takes no gradient, and follows as it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from predictor.records import EmaTeacher, FrozenTeacher
from trainer.model import LanguageModel, load_model
from trainer.teacher import follow, make_teacher


@torch.no_grad()
def fill(model: LanguageModel, value: float) -> None:
    for weight in model.parameters.values():
        weight.fill_(value)


def value(model: LanguageModel) -> float:
    return next(iter(model.parameters.values())).flatten()[0].item()


def test_an_ema_teacher_has_moved_the_stated_share_after_one_and_after_ten_steps(tiny_model_dir: Path) -> None:
    """F23: student 1, teacher 0, rate .05 give .05 after one step and .401 after ten."""
    student = load_model(tiny_model_dir)
    teacher = make_teacher(student)
    fill(teacher, 0.0)
    fill(student, 1.0)
    follow(teacher, student, EmaTeacher(rate=0.05))
    assert value(teacher) == pytest.approx(0.05)
    for _ in range(9):
        follow(teacher, student, EmaTeacher(rate=0.05))
    assert value(teacher) == pytest.approx(0.401, abs=5e-4)
    assert all(weight.min() == weight.max() for weight in teacher.parameters.values())


def test_a_frozen_teacher_stays(tiny_model_dir: Path) -> None:
    student = load_model(tiny_model_dir)
    teacher = make_teacher(student)
    before = value(teacher)
    fill(student, 1.0)
    follow(teacher, student, FrozenTeacher())
    assert value(teacher) == before


def test_the_teacher_is_a_copy_of_the_weights_in_memory_and_takes_no_gradient(tiny_model_dir: Path) -> None:
    """F23: the teacher starts as the student and is never trained itself."""
    student = load_model(tiny_model_dir)
    fill(student, 0.25)
    teacher = make_teacher(student)
    assert value(teacher) == 0.25
    assert not any(weight.requires_grad for weight in teacher.parameters.values())
    assert all(weight.requires_grad for weight in student.parameters.values())
    assert not {w.data_ptr() for w in teacher.parameters.values()} & {w.data_ptr() for w in student.parameters.values()}
