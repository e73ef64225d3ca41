"""The question sets of the templates with checkers of their own: every reference is right by its own checker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from predictor.checkers import Checker, build_checker
from predictor.config import load_study_config
from predictor.records import Example
from predictor.records.base import derive_seed
from predictor.tasks.rows import read_jsonl

TEMPLATES = Path(__file__).parents[1] / "predictor" / "templates"
NAMES = ("multiple-choice", "math", "code", "tool-use", "reasoning-gym")
each_template = pytest.mark.parametrize("name", NAMES)


def examples(name: str) -> list[Example]:
    return read_jsonl(TEMPLATES / name / "examples.jsonl")


def checker_of(name: str) -> Checker:
    return build_checker(load_study_config(TEMPLATES / name).task.checker)


@each_template
def test_there_are_forty_different_questions_with_ids_in_order(name: str) -> None:
    rows = examples(name)
    assert len(rows) >= 40
    assert len({row.question for row in rows}) == len(rows)
    assert [row.example_id for row in rows] == [f"q{number:03d}" for number in range(1, len(rows) + 1)]
    splits = Counter(row.split for row in rows)
    assert splits["eval"] >= 19
    assert splits["train"] >= splits["eval"]


@pytest.mark.parametrize("name", ["multiple-choice", "math", "tool-use"])
def test_the_solution_is_right_and_another_examples_is_wrong(name: str) -> None:
    checker, rows = checker_of(name), examples(name)
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        assert row.solution is not None
        assert checker.check(row.solution, row).correct is True, row
        if other.answer != row.answer:
            assert checker.check(other.answer or "", row).correct is False, row


def test_options_are_four_the_letters_balanced_and_the_text_of_the_right_one_counts_too() -> None:
    checker, rows = checker_of("multiple-choice"), examples("multiple-choice")
    for split in ("train", "eval"):
        letters = Counter(row.answer for row in rows if row.split == split)
        assert set(letters) == set("ABCD")
        assert max(letters.values()) - min(letters.values()) <= 1
    for row in rows:
        choices = row.metadata["choices"]
        assert len(set(choices)) == 4
        assert checker.check(f"It is {choices['ABCD'.index(row.answer or '')]}.", row).correct is True


def test_programs_pass_their_public_and_hidden_tests_which_differ() -> None:
    for row in examples("code"):
        public = row.metadata["public_tests"]
        assert len(public) == 1
        assert len(row.tests) == 3
        assert not set(public) & set(row.tests)
        names: dict[str, Any] = {}
        program = (row.solution or "").removeprefix("```python\n").removesuffix("```")
        exec(compile(program, row.example_id, "exec"), names)
        for test in (*public, *row.tests):
            exec(compile(test, row.example_id, "exec"), names)


def test_one_program_passes_in_the_sandbox_and_an_empty_one_does_not() -> None:
    rows = examples("code")
    row = rows[derive_seed("sandboxed") % len(rows)]
    checker = checker_of("code")
    assert checker.check(row.solution or "", row).correct is True
    assert checker.check("pass", row).correct is False


def test_calls_name_a_tool_that_the_question_offers() -> None:
    for row in examples("tool-use"):
        call = json.loads(row.answer or "")
        assert set(call) == {"name", "arguments"}
        assert f"- {call['name']}(" in row.question
        assert all(f"{argument}: " in row.question for argument in call["arguments"])
        assert call["name"] == row.metadata["tool"]


def test_reasoning_rows_have_the_librarys_fields_and_right_answers() -> None:
    checker = checker_of("reasoning-gym")
    for row in examples("reasoning-gym"):
        assert row.answer is not None
        if row.metadata["source_dataset"] == "spell_backward":
            assert row.answer == row.metadata["word"][::-1]
        else:
            assert row.answer == str(row.metadata["text"].count(row.metadata["target_letter"]))
        assert (row.solution or "").endswith(row.answer)
        assert checker.check(row.answer.upper(), row).correct is True
        assert checker.check(f"The answer is {row.answer}", row).correct is False
