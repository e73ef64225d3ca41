"""The question files of the templates: enough, balanced, and no question asked twice."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TEMPLATES = Path(__file__).parents[1] / "predictor" / "templates"
WITH_QUESTIONS = ("format-rules", "hidden-rules")
RULE_TEXTS = {
    "one_word": "Answer with one word only: yes or no.",
    "long_sentence": "Answer with a long and complete sentence that explains why.",
}
# Words that carry no topic; two questions alike in all other words would be one fact asked twice.
FUNCTION_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        "a an the is are was do does did can will to of in on at by for from with and or than not one it its be "
        "most some usually people we our your there",
    )
)


def rows(template: str) -> list[dict[str, Any]]:
    text = (TEMPLATES / template / "examples.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def topic(question: str) -> frozenset[str]:
    """The content words of a question, without plural endings."""
    words = re.findall(r"[a-z]+", question.lower())
    return frozenset(word.removesuffix("s") for word in words if word not in FUNCTION_WORDS)


@pytest.mark.parametrize("template", WITH_QUESTIONS)
def test_every_row_has_exactly_the_documented_fields(template: str) -> None:
    for row in rows(template):
        assert set(row) == {"example_id", "prompt", "answer", "split", "metadata"}
        assert row["prompt"].endswith("?")
        assert row["prompt"] == " ".join(row["prompt"].split())


@pytest.mark.parametrize("template", WITH_QUESTIONS)
def test_there_are_enough_questions_in_both_splits(template: str) -> None:
    counts = Counter(row["split"] for row in rows(template))
    assert set(counts) == {"train", "eval"}
    assert counts["train"] >= 160
    assert counts["eval"] >= 80


@pytest.mark.parametrize("template", WITH_QUESTIONS)
def test_yes_and_no_are_balanced_within_each_split(template: str) -> None:
    counts = Counter((row["split"], row["answer"]) for row in rows(template))
    assert set(counts) == set(itertools.product(("train", "eval"), ("yes", "no")))
    for split in ("train", "eval"):
        assert counts[split, "yes"] == counts[split, "no"]


@pytest.mark.parametrize("template", WITH_QUESTIONS)
def test_ids_count_from_q001(template: str) -> None:
    assert [row["example_id"] for row in rows(template)] == [
        f"q{number:03d}" for number in range(1, len(rows(template)) + 1)
    ]


@pytest.mark.parametrize("template", WITH_QUESTIONS)
def test_no_question_is_asked_twice_in_other_words(template: str) -> None:
    topics = {row["prompt"]: topic(row["prompt"]) for row in rows(template)}
    assert len(topics) == len(rows(template))
    alike = [
        (first, second)
        for first, second in itertools.combinations(topics, 2)
        if len(topics[first] & topics[second]) / len(topics[first] | topics[second]) > 0.7
    ]
    assert not alike


def test_both_templates_ask_the_same_questions() -> None:
    asked = [
        [(row["example_id"], row["prompt"], row["answer"], row["split"]) for row in rows(template)]
        for template in WITH_QUESTIONS
    ]
    assert asked[0] == asked[1]


def test_format_rules_need_no_metadata() -> None:
    assert all(row["metadata"] == {} for row in rows("format-rules"))


def test_a_hidden_rule_is_independent_of_split_and_answer() -> None:
    counts = Counter((row["split"], row["answer"], row["metadata"]["rule"]) for row in rows("hidden-rules"))
    assert len(counts) == 8
    for split, answer in itertools.product(("train", "eval"), ("yes", "no")):
        assert counts[split, answer, "one_word"] == counts[split, answer, "long_sentence"]


def test_a_hidden_rule_comes_with_its_instruction() -> None:
    for row in rows("hidden-rules"):
        assert row["metadata"] == {
            "rule": row["metadata"]["rule"],
            "rule_text": RULE_TEXTS[row["metadata"]["rule"]],
        }
