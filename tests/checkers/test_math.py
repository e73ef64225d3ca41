"""Mathematics: boxes, units, percent and separators by policy, exact arithmetic, and a worker that may fail."""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.checkers import build_checker
from predictor.checkers.answers import find_answer
from predictor.checkers.arithmetic import exact_value
from predictor.checkers.mathematics import same_answer
from predictor.errors import CheckerError
from predictor.records import Example, MathChecker, Verdict


def judged(text: str, answer: str, **config: Any) -> Verdict:
    checker = build_checker(MathChecker(**({"equality": "numbers"} | config)))
    return checker.check(text, Example(example_id="e", prompt="q", answer=answer))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"first \boxed{3}, then \boxed{4}", "4"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{ {a} \{ b }", r"{a} \{ b"),
        (r"\fbox{7}", "7"),
        ("6 * 7 = 42\n#### 42", "42"),
        ("The answer is 12. Check: 5", "12"),
        ("**Answer:** 1,234", "1,234"),
        ("we get 3, then 5", "5"),
        ("10-7", "7"),
        ("3/4", "3/4"),
    ],
)
def test_the_answer_is_found_where_the_policy_says(text: str, answer: str) -> None:
    found, _ = find_answer(text, boxed_only=False)
    assert found is not None
    assert found.strip() == answer


@pytest.mark.parametrize("text", [r"\boxed{4} and then \boxed{5", r"\boxed{4}, no: \boxed{\frac{1}{2}"])
def test_a_later_broken_box_takes_the_earlier_one_back(text: str) -> None:
    """tinker-cookbook #895: evaluation and training must read the same box."""
    verdict = judged(text, "4")
    assert (verdict.correct, verdict.reason) == (False, "the last box is not closed")


def test_a_reference_may_be_boxed_itself() -> None:
    """slime #543: a grader that strips the box and then expects one."""
    assert judged(r"\boxed{4}", r"\boxed{4}").correct
    assert judged(r"\fbox{4}", "so $\\boxed{4}$").correct
    assert judged("5", r"\boxed{4}").correct is False


def test_an_answer_outside_the_box_counts_only_when_allowed() -> None:
    assert judged("The answer is 4", "4").correct
    assert judged("The answer is 4", "4", boxed_only=True).correct is False
    assert judged("nothing", "4").reason == "no answer"


@pytest.mark.parametrize(
    ("written", "wanted", "same"),
    [
        ("1,234", "1234", True),
        ("1{,}234", "1234", True),
        (r"1\,234", "1234", True),
        ("1,234,567.5", "1234567.5", True),
        ("1,2", "12", None),
        ("(1,2)", "(1, 2)", True),
        ("50%", r"50\%", True),
        ("50%", "50", True),
        ("50%", "0.5", False),
        ("0.5", "50%", False),
        ("12 cm", "12", True),
        (r"12\text{ cm}", r"12 \mathrm{cm}", True),
        ("12cm", "12", True),
        ("12 cm", "12 m", False),
        ("3 apples", "3 apple", True),
        (r"\$12.50", "12.5", True),
        (r"90^\circ", "90", True),
        ("x = 5", "5", True),
        ("x=5", "y=5", None),
        (r"\dfrac{1}{2}", r"\frac{1}{2}", True),
        (r"\frac12", "0.5", True),
        ("2/4", "1/2", True),
        ("0.3333", "1/3", False),
        ("0.3333333333", "1/3", True),
        ("2^{25} * 26!", "26!", False),
        ("2^10", "1024", True),
        (r"3 \times 10^{2}", "300", True),
        ("-3", "\N{MINUS SIGN}3", True),
        ("1e3", "1000", None),
        ("2ab", "2", None),
        ("2 sin x", "2", None),
        ("x+1", "1+x", None),
        ("4.", "4", True),
        (r"\text{Monday}", "Monday", True),
        ("10000000001", "10000000000", False),
    ],
)
def test_units_percent_and_separators_follow_the_documented_policy(
    written: str, wanted: str, same: bool | None
) -> None:
    assert same_answer(written, wanted) is same


def test_without_algebra_what_is_not_a_number_must_be_written_the_same() -> None:
    assert judged(r"\boxed{x + 1}", "x+1").correct
    assert judged(r"\boxed{1+x}", "x+1").correct is False


@given(st.fractions(max_denominator=1000), st.integers(-50, 50))
def test_arithmetic_agrees_with_fractions(value: Fraction, other: int) -> None:
    assert exact_value(f"{value.numerator}/{value.denominator} + {other}") == value + other
    assert exact_value(f"\\frac{{{value.numerator}}}{{{value.denominator}}}*({other})") == value * other


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2^3^2", 512), ("-2^2", -4), ("2*-3", -6), ("3!!", 720), ("(1+2)*3", 9), (".5*4", 2), ("2^-1", Fraction(1, 2))],
)
def test_operators_bind_as_in_mathematics(expression: str, value: Fraction) -> None:
    assert exact_value(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "1/0", "0^-1", "(1", "1)", "1 2", "x", "9^9^9^9", "9999!", "(" * 150, "2^0.5", "1" * 500, "1+", "^2", "!"],
)
def test_arithmetic_refuses_what_it_cannot_do_at_once(expression: str) -> None:
    started = time.process_time()
    assert exact_value(expression) is None
    assert time.process_time() - started < 1.0


def test_algebra_is_asked_only_where_arithmetic_does_not_decide() -> None:
    checker = build_checker(MathChecker(timeout_s=60.0))
    assert checker.version.startswith("1+math-verify ")

    def judge(text: str, answer: str) -> Verdict:
        return checker.check(text, Example(example_id="e", prompt="q", answer=answer))

    assert judge(r"\boxed{1+x}", "x+1").correct is True
    assert judge(r"\boxed{2+x}", "x+1").correct is False
    assert judge(r"\boxed{x}", "?").reason == "math-verify cannot read the reference"
    assert judge(r"\boxed{hang}", "hang").correct is True
    assert judge(r"\boxed{raise}", "raise").correct is True


def test_a_worker_that_hangs_dies_or_raises_is_undecided_and_the_next_answer_is_judged() -> None:
    checker = build_checker(MathChecker(timeout_s=2.0))
    example = Example(example_id="e", prompt="q", answer="x+1")
    started = time.monotonic()
    hanging = checker.check(r"\boxed{x hang}", example)
    assert (hanging.correct, hanging.reason) == (None, "the checker took more than 2 s")
    assert time.monotonic() - started < 60.0
    raising = checker.check(r"\boxed{raise x}", example)
    assert (raising.correct, raising.reason) == (None, "the checker raised RuntimeError: cannot parse this")
    dying = checker.check(r"\boxed{die x}", example)
    assert dying.correct is None
    assert "died" in dying.reason


def test_a_missing_library_is_one_clear_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('No module named math_verify')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    with pytest.raises(CheckerError, match="needs math-verify, which is not installed") as caught:
        build_checker(MathChecker())
    assert caught.value.fix == 'pip install "gapcast[math]"'
    assert build_checker(MathChecker(equality="numbers")).version == "1"
