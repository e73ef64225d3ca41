"""Multiple choice: the last stated option counts, by letter or by text; naming two is policy, not luck."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.checkers import build_checker
from predictor.records import Example, MultipleChoiceChecker, Verdict

CAPITALS = ["Paris", "London", "Rome", "New York"]
ANIMALS = ["a dog", "a cat", "a hot dog", "no animal"]


def judged(text: str, choices: Any = CAPITALS, answer: str = "B", **config: Any) -> Verdict:
    checker = build_checker(MultipleChoiceChecker(**config))
    return checker.check(text, Example(example_id="e", prompt="q", answer=answer, metadata={"choices": choices}))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("B.", "B"),
        ("**C**", "C"),
        ("b) London", "B"),
        ("London", "B"),
        ("It is london.", "B"),
        ("The answer is B.", "B"),
        ("The answer is: (C)", "C"),
        ("**Answer:** D", "D"),
        ("Answer: New York", "D"),
        ("The correct option is B) London", "B"),
        (r"so \boxed{B}", "B"),
        (r"\boxed{\text{C}}", "C"),
        ("I choose A because Paris is lovely", "A"),
        ("The answer is A. Wait, the answer is C.", "C"),
        ("Answer: A\nNo.\nAnswer: B", "B"),
        ("A) Paris\nB) London\nThe answer is B", "B"),
        ("I think of a city.\nC", "C"),
        ("A is wrong, since a capital is meant.\nThe answer is not A.\nThe answer is B", "B"),
        ("The answer is B. I am sure.", "B"),
    ],
)
def test_the_last_statement_decides(text: str, letter: str) -> None:
    verdict = judged(text)
    assert verdict.extracted == letter, verdict
    assert verdict.correct is (letter == "B")


@pytest.mark.parametrize(
    "text", ["The answer is A or B", "Answer: B, C", "The answer is (B) and (C).", "London or Rome", "Answer: A London"]
)
@pytest.mark.parametrize(("policy", "correct"), [("wrong", False), ("undecided", None)])
def test_naming_several_options_follows_the_policy(text: str, policy: str, correct: bool | None) -> None:
    verdict = judged(text, several=policy)
    assert verdict.correct is correct
    assert verdict.reason == "names 2 options"


@pytest.mark.parametrize("text", ["", "I do not know", "E", "The answer is E", "Parisian", "The answer is not B"])
def test_stating_no_option_is_wrong(text: str) -> None:
    verdict = judged(text)
    assert (verdict.correct, verdict.reason) == (False, "states no option")


def test_an_article_is_no_letter_and_a_longer_option_is_not_the_shorter_one() -> None:
    assert judged("The answer is a cat", ANIMALS).extracted == "B"
    assert judged("a hot dog", ANIMALS).extracted == "C"
    assert judged("The answer is a dog.", ANIMALS).extracted == "A"
    assert judged("The answer is A", ANIMALS).extracted == "A"


@pytest.mark.parametrize("answer", ["B", "b", "(B)", "London", " london. "])
def test_the_reference_may_be_a_letter_or_a_text(answer: str) -> None:
    assert judged("B", answer=answer).correct
    assert judged("B", {"a": "Paris", "b": "London"}, answer).correct


@pytest.mark.parametrize(
    "choices", [None, [], ["one"], "AB", {"AA": "x", "B": "y"}, ["same", "Same."], ["", "x"], list(map(str, range(27)))]
)
def test_options_that_cannot_be_told_apart_are_undecided(choices: Any) -> None:
    assert judged("A", choices).correct is None


def test_a_reference_that_is_no_option_is_undecided() -> None:
    for answer in ("E", "Berlin", ""):
        assert judged("A", answer=answer).correct is None


@given(st.permutations("ABCD"), st.sampled_from(["The answer is {}.", "Answer: {}", "({})", "\\boxed{{{}}}"]))
def test_only_the_last_of_many_statements_counts(order: list[str], form: str) -> None:
    text = "\n".join(form.format(letter) for letter in order)
    assert judged(text).extracted == order[-1]
