"""The libraries that judge for us, themselves and no stand-ins: math-verify, and reasoning-gym where installed."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from predictor.checkers import build_checker
from predictor.records import Example, MathChecker, ReasoningGymChecker


@pytest.fixture
def real_libraries(monkeypatch: pytest.MonkeyPatch, stand_ins: Path) -> None:
    """Takes the stand-ins off the worker's path."""
    kept = [part for part in os.environ["PYTHONPATH"].split(os.pathsep) if part != str(stand_ins)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(kept))


def by_math(text: str, answer: str, **config: Any) -> bool | None:
    checker = build_checker(MathChecker(**({"timeout_s": 60.0} | config)))
    return checker.check(text, Example(example_id="e", prompt="q", answer=answer)).correct


@pytest.mark.parametrize(
    ("text", "answer", "correct"),
    [
        (r"so \boxed{x^2+2x+1}", "(x+1)^2", True),
        (r"\boxed{\sqrt{8}}", r"2\sqrt{2}", True),
        (r"\boxed{\{1,2\}}", r"\{2,1\}", True),
        (r"\boxed{[0,1)}", "[0,1)", True),
        (r"\boxed{x=3}", "3", True),
        (r"\boxed{(x-1)^2}", "(x+1)^2", False),
        (r"\boxed{10^{100000}}", "3", False),
    ],
)
@pytest.mark.usefixtures("real_libraries")
def test_math_verify_decides_what_exact_arithmetic_cannot(text: str, answer: str, correct: bool) -> None:
    assert by_math(text, answer) is correct


@pytest.mark.usefixtures("real_libraries")
def test_a_tower_of_powers_is_undecided_in_time_and_the_next_answer_is_judged() -> None:
    started = time.monotonic()
    assert by_math(r"\boxed{9^{9^{9^9}}}", "3", timeout_s=3.0) is None
    assert time.monotonic() - started < 60.0
    assert by_math(r"\boxed{\sqrt{8}}", r"2\sqrt{2}") is True


@pytest.mark.usefixtures("real_libraries")
def test_every_task_of_reasoning_gym_accepts_its_own_answer_and_refuses_nonsense() -> None:
    library = pytest.importorskip("reasoning_gym")
    checker = build_checker(ReasoningGymChecker(timeout_s=60.0))
    for name in ("spell_backward", "letter_counting", "basic_arithmetic", "leg_counting", "number_sorting"):
        entry = importlib.import_module(library.__name__).create_dataset(name, size=1, seed=7)[0]
        example = Example(
            example_id=name,
            prompt=entry["question"],
            answer=entry["answer"],
            metadata={"source_dataset": name, **entry["metadata"]},
        )
        assert checker.check(f"<answer>{entry['answer']}</answer>", example).correct is True
        assert checker.check("<answer>surely not</answer>", example).correct is False
