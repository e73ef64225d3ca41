"""One contract for every checker: right, wrong and undecided are three things, and hostile text is only text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from predictor.checkers import Checker, build_checker
from predictor.records import CheckerConfig, Example, Verdict


@dataclass(frozen=True)
class Case:
    """One kind of checker: its settings, an example's fields, and texts that are right and wrong for it."""

    name: str
    config: dict[str, Any]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    fields: dict[str, Any] = field(default_factory=lambda: {"answer": "4"})
    without: dict[str, Any] = field(default_factory=dict)
    """The fields of an example that lacks what the checker needs."""
    is_process: bool = False
    """Whether each verdict starts a process, so that few texts have to do."""


OPTIONS = {"choices": ["Paris", "London", "Rome"]}
TESTS = {"tests": ("assert f(1) == 2",), "metadata": {"public_tests": ["assert f(0) == 1"]}}
CALL = '{"name": "add", "arguments": {"a": 1, "b": [2, "x"]}}'
CASES = [
    Case("exact", {"kind": "exact"}, ("4", " 4 "), ("5", "44")),
    Case("regex", {"kind": "regex", "pattern": r"is (\d+)"}, ("it is 4",), ("it is 5", "4")),
    Case("numeric", {"kind": "numeric"}, ("so 4.0", "5 then 4"), ("five", "4 then 5")),
    Case(
        "constraint",
        {"kind": "constraint", "by": "metadata.rule", "rules": {"short": {"max_words": 1}}},
        ("word",),
        ("two words", ""),
        {"metadata": {"rule": "short"}},
    ),
    Case(
        "multiple_choice",
        {"kind": "multiple_choice"},
        ("B", "The answer is (B).", "London"),
        ("A", "Answer: C", "Rome"),
        {"answer": "B", "metadata": OPTIONS},
        {"answer": "B"},
    ),
    Case(
        "math", {"kind": "math", "timeout_s": 30.0}, (r"\boxed{4}", "x+1 is 2 so the answer is 8/2"), (r"\boxed{5}", "")
    ),
    Case("math_numbers", {"kind": "math", "equality": "numbers"}, (r"\boxed{4}", "#### 4"), (r"\boxed{x}", "none")),
    Case("tool_call", {"kind": "tool_call"}, (CALL, f"Sure: {CALL}"), ("{}", "add(1)"), {"answer": CALL}),
    Case(
        "code",
        {"kind": "code", "timeout_s": 20.0},
        ("def f(x): return x + 1", "Like so:\n```python\ndef f(x):\n    return x + 1\n```\nDone."),
        ("def f(x): return x", "I do not know", "import os; os._exit(0)"),
        TESTS,
        is_process=True,
    ),
    Case(
        "reasoning_gym",
        {"kind": "reasoning_gym", "timeout_s": 30.0},
        ("nus", "well <answer>nus</answer>"),
        ("sun", "<answer>snu</answer>", ""),
        {"answer": "nus", "metadata": {"source_dataset": "spell_backward"}},
        {"answer": "nus"},
    ),
    Case(
        "function",
        {"kind": "function", "function": "rewards:score", "timeout_s": 30.0},
        ("4",),
        ("5", ""),
        without={},
    ),
    Case("http", {"kind": "http", "url": "SERVER/right", "timeout_s": 30.0}, ("so 4",), ("5", "")),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

HOSTILE = [
    "", " ", "\n", "\x00", "\ufeff", "\u2028", "\x1b[31m\x1b]0;title\x07", "\u202e", "a" * 1_000_000, "9" * 5000,
    "1e999", "{{ 7*7 }}{{ ''.__class__.__mro__ }}", "\\boxed{" * 20_000, "{" * 50_000, "[" * 50_000, "(" * 50_000,
    "```" * 1000, "<answer>" * 20_000, "Answer: " * 20_000, "A B C " * 20_000, '{"name": "\\ud800"}',
    "2^" * 1000 + "2", "9" * 100 + "!" * 100, "\\frac{" * 5000, "Action: x\nAction Input: " + "{" * 1000,
]  # fmt: skip


@pytest.fixture(scope="module")
def checkers(reward_server: str) -> dict[str, Checker]:
    def make(config: dict[str, Any]) -> Checker:
        text = json.dumps(config).replace("SERVER", reward_server)
        return build_checker(TypeAdapter(CheckerConfig).validate_json(text))

    return {case.name: make(case.config) for case in CASES}


@pytest.fixture(scope="module", autouse=True)
def _workers_end(checkers: dict[str, Checker]) -> Iterator[None]:
    yield
    checkers.clear()


def example(fields: dict[str, Any]) -> Example:
    return Example(example_id="e", prompt="q", **fields)


def assert_sound(case: Case, verdict: Verdict, checker: Checker) -> None:
    """A verdict that can be stored, names its judge, and says why it is undecided or wrong."""
    assert (verdict.checker, verdict.checker_version) == (case.config["kind"], checker.version)
    assert checker.version
    assert verdict.correct is True or verdict.reason
    assert Verdict.model_validate_json(verdict.to_json()) == verdict
    (verdict.extracted + verdict.reason).encode()


@each_case
def test_right_and_wrong_are_told_apart_the_same_way_twice(case: Case, checkers: dict[str, Checker]) -> None:
    checker = checkers[case.name]
    for texts, correct in ((case.right, True), (case.wrong, False)):
        for text in texts:
            verdict = checker.check(text, example(case.fields))
            assert verdict.correct is correct, (text, verdict)
            assert verdict == checker.check(text, example(case.fields))
            assert_sound(case, verdict, checker)


@each_case
def test_an_example_without_a_usable_reference_is_undecided(case: Case, checkers: dict[str, Checker]) -> None:
    for text in (*case.right, *case.wrong, ""):
        verdict = checkers[case.name].check(text, example(case.without))
        assert verdict.correct is None, verdict
        assert_sound(case, verdict, checkers[case.name])


@each_case
def test_hostile_text_is_never_right_and_never_slow(case: Case, checkers: dict[str, Checker]) -> None:
    checker = checkers[case.name]
    for text in HOSTILE[::6] if case.is_process else HOSTILE:
        started = time.process_time()
        verdict = checker.check(text, example(case.fields))
        assert verdict.correct is not True or case.name == "constraint", (text[:50], verdict)
        assert_sound(case, verdict, checker)
        assert time.process_time() - started < 3.0


@each_case
def test_a_reference_of_hostile_text_raises_nothing(case: Case, checkers: dict[str, Checker]) -> None:
    if case.is_process:
        return
    for text in HOSTILE:
        fields = {**case.fields, "answer": text.encode("utf-8", "replace").decode()}
        assert_sound(case, checkers[case.name].check(case.right[0], example(fields)), checkers[case.name])


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_process], ids=lambda case: case.name)
@settings(max_examples=30)
@given(text=st.text(max_size=60), answer=st.none() | st.text(max_size=20))
def test_no_text_and_no_reference_makes_a_checker_raise(
    case: Case, checkers: dict[str, Checker], text: str, answer: str | None
) -> None:
    checker = checkers[case.name]
    verdict = checker.check(text, example({**case.fields, "answer": answer}))
    assert verdict == checker.check(text, example({**case.fields, "answer": answer}))
    assert_sound(case, verdict, checker)


def test_the_contract_covers_every_kind_there_is() -> None:
    kinds = {variant["properties"]["kind"]["const"] for variant in schema_variants()}
    assert {case.config["kind"] for case in CASES} == kinds


def schema_variants() -> list[dict[str, Any]]:
    schema = TypeAdapter(CheckerConfig).json_schema()
    return [schema["$defs"][item["$ref"].rpartition("/")[2]] for item in schema["oneOf"]]
