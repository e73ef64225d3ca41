"""Code: hidden tests score, public tests speak, and neither does the other's work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from predictor.checkers import build_checker
from predictor.contexts import Attempt, ContextBuilder
from predictor.records import CodeChecker, Example, HintConfig, Verdict

HIDDEN = "assert add(2, 40) == 42, 'SECRET'"
PUBLIC = "assert add(1, 1) == 2, 'one and one'"
RIGHT = "def add(a, b):\n    return a + b"
ONLY_PUBLIC = "def add(a, b):\n    return 2"


def example(tests: tuple[str, ...] = (HIDDEN,), public: Any = (PUBLIC,)) -> Example:
    return Example(example_id="e", prompt="Write add.", tests=tests, metadata={"public_tests": list(public)})


def judged(text: str, asked: Example | None = None, **config: Any) -> Verdict:
    return build_checker(CodeChecker(**({"timeout_s": 20.0} | config))).check(text, asked or example())


def test_only_hidden_tests_decide_and_only_public_ones_speak() -> None:
    assert judged(RIGHT).correct is True
    assert judged(RIGHT, example(public=["assert add(1, 1) == 3"])).correct is True
    public_only = judged(ONLY_PUBLIC)
    assert public_only.correct is False
    assert public_only.reason == "The program passes the public tests, but not all hidden ones."
    both = judged("def add(a, b):\n    return 0")
    assert both.correct is False
    assert both.reason == f"wrong: test 1 of 1 failed: {PUBLIC}\nAssertionError: one and one"


@pytest.mark.parametrize("text", [ONLY_PUBLIC, "def add(a, b): return 0", "nonsense(", "import os; os._exit(0)"])
def test_no_verdict_and_no_feedback_hint_shows_a_hidden_test(text: str) -> None:
    verdict = judged(text)
    assert "SECRET" not in verdict.to_json()
    assert "add(2, 40)" not in verdict.to_json()
    context = ContextBuilder(HintConfig(name="feedback", kind="feedback")).build(example(), Attempt(text, verdict))
    assert context is not None
    assert verdict.reason in context.content
    assert "SECRET" not in context.content


def test_without_public_tests_nothing_is_given_away() -> None:
    for public in ([], [3], "text"):
        asked = Example(example_id="e", prompt="q", tests=(HIDDEN,), metadata={"public_tests": public})
        assert judged("def add(a, b): return 0", asked).reason == "The program does not pass the hidden tests."


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"```python\n{RIGHT}\n```",
        f"First:\n```\ndef add(a, b): return 0\n```\nBetter:\n```python\n{RIGHT}\n```\nThat adds.",
        f"```py\n{RIGHT}\n",
    ],
)
def test_the_last_block_is_the_program(text: str) -> None:
    assert judged(text).correct is True


def test_zero_tests_broken_tests_and_a_missing_sandbox_are_undecided() -> None:
    """F27: an empty list of tests is not a pass, and an outage is neither pass nor fail."""
    for verdict in (
        judged(RIGHT, example(tests=())),
        judged(RIGHT, example(tests=("assert (",))),
        judged(RIGHT, python="/nowhere/python"),
    ):
        assert verdict.correct is None
        assert verdict.reason.startswith("infra: ")


def test_programs_that_read_and_print_are_compared_outside() -> None:
    case = json.dumps({"input": "2 40", "output": "42"})
    public = json.dumps({"input": "1 1", "output": "2"})
    asked = example(tests=(case,), public=[public])
    assert judged("print(sum(map(int, input().split())))", asked, style="stdin").correct is True
    wrong = judged("print(3)", asked, style="stdin")
    assert wrong.reason == "wrong: test 1 of 1: input '1 1': expected '2', got '3'"
    assert "42" not in wrong.reason


def test_a_program_that_never_ends_is_wrong_in_time() -> None:
    verdict = judged("while True: pass", timeout_s=1.0)
    assert verdict.correct is False
    assert verdict.extracted.startswith("timeout")
