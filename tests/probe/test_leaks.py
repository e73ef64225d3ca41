"""The leak audit on texts whose overlaps can be counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.probe.diagnostics.leaks import Shown, audit, contains, last_step_overlap, ngram_overlap, words

HINT = "Add three and four first.\nThat gives seven, so the answer is 7."


def test_an_answer_is_in_a_hint_as_whole_words_only() -> None:
    assert contains(words(HINT), words("the answer"))
    assert contains(words(HINT), words("7"))
    assert not contains(words(HINT), words("answer 7"))
    assert not contains(words("seventeen"), words("seven"))


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("so the answer is 7", 1.0),
        ("so the answer is 8", 1 / 2),
        ("I add three and four now", 1 / 3),
        ("seven", 1.0),
        ("eight", 0.0),
    ],
)
def test_overlap_counts_four_words_in_a_row(text: str, share: float) -> None:
    assert ngram_overlap(HINT, text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "share"),
    [("First I guess.\nSo the answer is 9", 4 / 5), ("three and four", 0.0), ("It is 7! Or 8? The answer.", 1.0)],
)
def test_the_last_step_is_the_last_line_or_sentence(text: str, share: float) -> None:
    assert last_step_overlap(HINT, text) == pytest.approx(share)


def test_examples_count_once_and_rollouts_without_words_not_at_all() -> None:
    teacher = [
        Shown("a", "a", HINT, "so the answer is 7"),
        Shown("a", "a", HINT, "no such words stand there"),
        Shown("b", "b", HINT, "so the answer is 7"),
        Shown("b", "b", HINT, " …"),
    ]
    student = [Shown("a", "a", HINT, "perhaps nine or ten")]
    found = audit(teacher, student, [(teacher[0], "7"), (teacher[2], "eleven"), (teacher[3], "?")])
    assert found.ngram_overlap is not None
    assert found.student_ngram_overlap is not None
    assert found.answer_in_hint is not None
    assert found.ngram_overlap.value == pytest.approx(0.75)
    assert found.ngram_overlap.num_units == 2
    assert found.student_ngram_overlap.value == 0.0
    assert found.answer_in_hint.value == pytest.approx(0.5)


def test_nothing_to_compare_gives_no_numbers() -> None:
    found = audit([], [], [])
    assert found.answer_in_hint is found.ngram_overlap is found.last_step_overlap is None


@given(text=st.text(max_size=60))
def test_a_text_repeats_itself_entirely(text: str) -> None:
    if words(text):
        assert ngram_overlap(text, text) == 1.0
        assert last_step_overlap(text, text) == 1.0
