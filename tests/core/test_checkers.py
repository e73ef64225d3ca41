"""Checkers: one contract for all kinds, and every rule kept and broken."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from predictor.checkers import Checker, build_checker
from predictor.errors import CheckerError
from predictor.records import CheckerConfig, Example, Verdict

CONFIGS: list[dict[str, Any]] = [
    {"kind": "exact"},
    {"kind": "exact", "case_sensitive": False},
    {"kind": "regex", "pattern": r"answer is (\w+)"},
    {"kind": "regex", "pattern": r"-?\d+"},
    {"kind": "numeric"},
    {"kind": "constraint", "rule": {"one_of": ["yes", "no"], "max_words": 3, "case": "lower", "final_line": "[a-z]+"}},
    {"kind": "constraint", "by": "metadata.rule", "rules": {"short": {"max_words": 1}}},
]
each_kind = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join([c["kind"], *map(str, c)][:3]))
HOSTILE = ["", " ", "\n", "\x00", "\ufeff", "\u2028", "a" * 1_000_000, "9" * 5000, "1e999", "-", ",,,", "‮", "\\", "("]


def checker(**config: Any) -> Checker:
    return build_checker(TypeAdapter(CheckerConfig).validate_python(config))


def judged(config: dict[str, Any], text: str, answer: str | None = "4", **metadata: Any) -> Verdict:
    return checker(**config).check(text, Example(example_id="e", prompt="q", answer=answer, metadata=metadata))


@each_kind
@settings(max_examples=40, deadline=None)
@given(st.text(), st.none() | st.text(max_size=20), st.none() | st.text(max_size=5))
def test_no_checker_raises_for_any_text_answer_or_field(
    config: dict[str, Any], text: str, answer: str | None, rule: str | None
) -> None:
    made = checker(**config)
    verdict = made.check(text, Example(example_id="e", prompt="q", answer=answer, metadata={"rule": rule}))
    assert verdict == made.check(text, Example(example_id="e", prompt="q", answer=answer, metadata={"rule": rule}))
    assert (verdict.checker, verdict.checker_version) == (config["kind"], made.version)
    assert made.version
    assert verdict.correct is not None or verdict.reason


@each_kind
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:10]))
def test_no_checker_trips_over_hostile_text(config: dict[str, Any], text: str) -> None:
    assert judged(config, text, rule="short").correct in (True, False)


@pytest.mark.parametrize("config", CONFIGS[:5], ids=str)
@pytest.mark.parametrize("answer", [None, "", "  \n"])
def test_without_a_reference_everything_is_undecided_even_an_empty_text(
    config: dict[str, Any], answer: str | None
) -> None:
    for text in ("", "4", "answer is 4"):
        verdict = judged(config, text, answer)
        assert verdict.correct is None
        assert verdict.reason == "the example has no usable answer"


@pytest.mark.parametrize("answer", ["four", "1e999"])
def test_a_reference_that_is_no_finite_number_is_undecided(answer: str) -> None:
    assert judged({"kind": "numeric"}, "1e999", answer).correct is None


@pytest.mark.parametrize(
    ("text", "answer", "strict", "folded"),
    [
        ("d c b a", "d c b a", True, True),
        ("  d  c\nb a ", "d c b a", True, True),
        ("D c b a", "d c b a", False, True),
        ("d c b", "d c b a", False, False),
        ("Straße", "STRASSE", False, True),
    ],
)
def test_exact_ignores_white_space_and_case_when_asked(text: str, answer: str, strict: bool, folded: bool) -> None:
    assert judged({"kind": "exact"}, text, answer).correct is strict
    assert judged({"kind": "exact", "case_sensitive": False}, text, answer).correct is folded


@pytest.mark.parametrize(
    ("pattern", "text", "correct"),
    [
        (r"\\boxed\{(.*?)\}", r"first \boxed{5}, then \boxed{ 4 }", True),
        (r"\\boxed\{(.*?)\}", r"first \boxed{4}, then \boxed{5}", False),
        (r"\d", "3, 4", True),
        (r"\d", "none", False),
        (r"x(\d)?", "x", False),
        (r"(a)|(4)", "4", False),
        ("", "4", False),
    ],
)
def test_regex_compares_the_first_group_of_the_last_match(pattern: str, text: str, correct: bool) -> None:
    assert judged({"kind": "regex", "pattern": pattern}, text).correct is correct


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", "42"),
        ("so 1,234,567.5 in all", "1234567.5"),
        ("between 3 and 12,3456", "3456"),
        ("1,234,5678", "5678"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("x = -3", "-3"),
        ("(-3)", "-3"),
        ("10-7", "7"),
        ("f(2)-7", "7"),
        ("\N{MINUS SIGN}8", "-8"),
        ("6.02e23", "6.02e23"),
        ("1.5E-3", "0.0015"),
        ("+7", "7"),
        ("1.2.3", "3"),
        ("٤", "4"),
    ],
)
def test_numeric_takes_the_last_number_as_written(text: str, number: str) -> None:
    verdict = judged({"kind": "numeric"}, text, number)
    assert verdict.correct, verdict


def test_numeric_keeps_to_its_tolerance_and_shows_numbers_in_full() -> None:
    assert judged({"kind": "numeric", "tolerance": 0.5}, "4.5").correct
    assert not judged({"kind": "numeric", "tolerance": 0.5}, "4.51").correct
    verdict = judged({"kind": "numeric"}, "1234567", "1234568")
    assert (verdict.correct, verdict.extracted, verdict.reason) == (False, "1234567", "expected 1234568")
    assert judged({"kind": "numeric"}, "no digits here").reason == "no number"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numeric_reads_back_any_number_python_writes(value: float) -> None:
    assert judged({"kind": "numeric", "tolerance": 0.0}, f"it is {value!r}", repr(value)).correct


RULES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"one_of": ["Yes.", "no"]}, ["yes", "Yes.", " NO... "], ["", ".", "yes no", "yess"]),
    ({"min_words": 2}, ["a b", "a\nb c"], ["", "a"]),
    ({"max_words": 2}, ["a", "a b"], ["", "a b c"]),
    ({"min_words": 2, "max_words": 2}, ["a b"], ["a", "a b c"]),
    ({"case": "upper"}, ["ABC 1!"], ["ABc", "123", ""]),
    ({"case": "lower"}, ["abc 1!"], ["Abc", "123", ""]),
    ({"prefix": "Dear "}, ["Dear all", "  Dear all"], ["dear all", "Oh Dear all", ""]),
    ({"final_line": r"Answer: \d+"}, ["so\nAnswer: 4", "Answer: 4\n\n"], ["Answer: 4 or so", "Answer: 4\nbye", ""]),
    ({"forbidden": ["sorry", "as an AI"]}, ["fine", ""], ["Sorry!", "well, AS AN ai"]),
    ({"max_words": 3, "forbidden": ["no"]}, ["yes"], ["no", "a b c d"]),
]


@pytest.mark.parametrize(("rule", "kept", "broken"), RULES, ids=lambda part: str(part)[:40])
def test_every_rule_is_kept_and_broken(rule: dict[str, Any], kept: list[str], broken: list[str]) -> None:
    config = {"kind": "constraint", "rule": rule}
    assert [text for text in kept if not judged(config, text).correct] == []
    assert [text for text in broken if judged(config, text).correct] == []
    names = {judged(config, text).reason.split()[1] for text in broken}
    assert names <= set(rule)


def test_the_rule_follows_the_examples_field_and_an_unknown_one_is_undecided() -> None:
    config = {"kind": "constraint", "by": "metadata.rule", "rules": {"1": {"max_words": 1}, "long": {"min_words": 3}}}
    assert judged(config, "a b c", rule="long").correct
    assert not judged(config, "a b c", rule=1).correct
    assert judged(config, "a b c", rule="other").correct is None
    undecided = judged(config, "a b c")
    assert (undecided.correct, undecided.reason) == (None, "example `e` has no field `metadata.rule`")


@pytest.mark.parametrize(
    "config",
    [{"kind": "regex", "pattern": "(a+)+$"}, {"kind": "constraint", "rule": {"final_line": "(a|aa)+"}}],
    ids=lambda config: config["kind"],
)
def test_a_pattern_that_backtracks_without_end_is_undecided_soon(config: dict[str, Any]) -> None:
    started = time.process_time()
    verdict = judged(config, "a" * 60 + "b")
    assert verdict.correct is None
    assert "0.5 s" in verdict.reason
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 2000 + ")" * 2000, "(?P<x>a)(?P<x>b)"])
def test_a_pattern_python_cannot_compile_is_a_checker_error(pattern: str) -> None:
    for config in ({"kind": "regex", "pattern": pattern}, {"kind": "constraint", "rule": {"final_line": pattern}}):
        with pytest.raises(CheckerError) as caught:
            checker(**config)
        assert "task.checker" in caught.value.where
        assert caught.value.exit_code == 2
