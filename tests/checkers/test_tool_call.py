"""Tool calls: names and arguments as values, however the call is wrapped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.checkers import build_checker
from predictor.records import Example, ToolCallChecker, Verdict

CALL = {"name": "search", "arguments": {"city": "Oslo", "days": 3}}
OTHER = {"name": "stop", "arguments": {}}


def judged(text: str, wanted: Any = CALL, **config: Any) -> Verdict:
    checker = build_checker(ToolCallChecker(**config))
    return checker.check(text, Example(example_id="e", prompt="q", answer=json.dumps(wanted)))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CALL),
        '{"arguments": {"days": 3.0, "city": "Oslo"}, "name": "search"}',
        '{"tool": "search", "parameters": {"city": "Oslo", "days": 3}}',
        '{"action": "search", "action_input": "{\\"city\\": \\"Oslo\\", \\"days\\": 3}"}',
        f"I will call it.\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>\nDone.",
        f"```json\n{json.dumps(CALL, indent=2)}\n```",
        f"Sure, {json.dumps(CALL)} is it",
        json.dumps([CALL]),
        json.dumps(
            {
                "tool_calls": [
                    {"type": "function", "function": {"name": "search", "arguments": json.dumps(CALL["arguments"])}}
                ]
            }
        ),
        'Thought: look it up\nAction: search\nAction Input: {"city": "Oslo", "days": 3}\nObservation: …',
        'Action: search\nAction Input: {"city": "Oslo",\n "days": 3}',
    ],
)
def test_the_same_call_is_right_in_every_form(text: str) -> None:
    assert judged(text).correct is True, judged(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("search(city='Oslo')", "makes no tool call that can be read"),
        (json.dumps(CALL)[:-1], "makes no tool call that can be read"),
        ('{"name": "find", "arguments": {"city": "Oslo", "days": 3}}', "calls 'find', expected 'search'"),
        ('{"name": "search", "arguments": {"city": "Oslo", "days": "3"}}', "arguments of 'search' are"),
        ('{"name": "search", "arguments": {"city": "Oslo"}}', "arguments of 'search' are"),
        ('{"name": "search"}', "arguments of 'search' are"),
        (json.dumps([CALL, CALL]), "makes 2 calls, expected 1"),
        ("Action: search\nAction Input: Oslo", "arguments of 'search' are"),
    ],
)
def test_another_call_is_wrong_and_told_why(text: str, reason: str) -> None:
    verdict = judged(text)
    assert verdict.correct is False
    assert verdict.reason.startswith(reason)


def test_order_of_calls_counts_unless_it_does_not() -> None:
    text = json.dumps([OTHER, CALL])
    assert judged(text, [CALL, OTHER]).reason == "calls 'stop', expected 'search'"
    assert judged(text, [CALL, OTHER], ordered=False).correct is True
    assert judged(text, [OTHER, CALL]).correct is True


def test_true_is_not_one() -> None:
    assert judged('{"name": "f", "arguments": {"x": 1}}', {"name": "f", "arguments": {"x": True}}).correct is False


@pytest.mark.parametrize("answer", ["no JSON", "3", "[]", "{}", '{"arguments": {}}'])
def test_a_reference_that_is_no_call_is_undecided(answer: str) -> None:
    verdict = build_checker(ToolCallChecker()).check(
        json.dumps(CALL), Example(example_id="e", prompt="q", answer=answer)
    )
    assert (verdict.correct, verdict.reason) == (None, "the example's answer is no JSON tool call")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=3))
def test_any_arguments_survive_being_written(arguments: dict[str, Any]) -> None:
    call = {"name": "f", "arguments": arguments}
    assert judged(json.dumps(call, indent=1), call).correct is True
