"""Hints made from the student's own rollouts, the gate, and the controls: who is shown what, and what never."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from predictor.contexts import (
    Attempt,
    ContextBuilder,
    HintContext,
    corrupt,
    num_answer_blocks,
    without_thinking,
)
from predictor.errors import HintError
from predictor.records import CONTROLS, Example, HintConfig, Verdict
from predictor.records.presets import PRESETS

PAPER = ("none", "static_teacher1", "feedback_only", "correct_solution_processed", "correct_solution_only", "all")


def example(name: str = "e", **fields: object) -> Example:
    base = {"prompt": f"question {name}", "answer": f"{name} 7", "solution": f"first {name}, then 7"}
    return Example.model_validate({"example_id": name, **base, **fields})


def attempt(index: int, correct: bool | None, text: str = "", key_hints: str | None = None) -> Attempt:
    verdict = Verdict(correct=correct, reason=f"wrong at {index}", checker="c", checker_version="1")
    return Attempt(text or f"try {index}", verdict, index, key_hints)


def builder(kind: str, seed: int = 0, **fields: object) -> ContextBuilder:
    hint = HintConfig.model_validate({"name": "h", "kind": kind, **fields})
    return ContextBuilder(hint, [example(f"t{i}") for i in range(8)], seed)


def shown(context: HintContext | None) -> str:
    assert context is not None
    return context.content


GROUP = [attempt(0, False), attempt(1, True), attempt(2, True), attempt(3, None), attempt(4, True)]


def test_an_own_attempt_is_shown_as_it_stands_without_its_thoughts() -> None:
    made = builder("own_attempt")
    assert shown(made.build(example(), attempt(0, True, "<think>hm</think> 4"))) == "An earlier attempt:\n4"
    kept = builder("own_attempt", remove_thinking=False)
    assert "<think>" in shown(kept.build(example(), attempt(0, True, "<think>hm</think> 4")))
    assert made.build(example(), attempt(0, False, "<think>never closed")) is None


def test_a_peer_solution_is_a_correct_rollout_of_the_same_group_and_never_the_own_one() -> None:
    made = builder("peer_solution", template="{{ hint }}")
    for own in GROUP:
        text = shown(made.build(example(), own, GROUP))
        assert text in {"try 1", "try 2", "try 4"} - {own.text}
    assert made.build(example(), GROUP[0], [GROUP[0], GROUP[3]]) is None
    assert made.build(example(), GROUP[1], GROUP[:2]) is None


@pytest.mark.parametrize(
    ("policy", "expected"), [("exclude_self", {"try 2", "try 4"}), ("skip_row", {None}), ("own", {"try 1"})]
)
def test_what_a_correct_rollout_is_shown_is_an_explicit_policy(policy: str, expected: set[str | None]) -> None:
    found: set[str | None] = set()
    for seed in range(12):
        context = builder("peer_solution", seed, template="{{ hint }}", self_success=policy).build(
            example(), GROUP[1], GROUP
        )
        found.add(None if context is None else context.content)
    assert found == expected


def test_every_correct_peer_is_drawn_about_equally_often_not_the_first_or_the_shortest() -> None:
    made = builder("peer_solution", template="{{ hint }}")
    counts = dict.fromkeys(("try 1", "try 2", "try 4"), 0)
    for number in range(600):
        counts[shown(made.build(example(f"e{number}"), GROUP[0], GROUP))] += 1
    # Binomial with mean 200 and standard deviation 11.5.
    assert all(155 < count < 245 for count in counts.values())


def test_a_peer_with_several_answer_blocks_or_only_thoughts_is_not_shown() -> None:
    several = attempt(1, True, r"\boxed{4} no, \boxed{5}")
    thoughts = attempt(2, True, "<think>4</think>")
    made = builder("peer_solution", template="{{ hint }}")
    assert made.build(example(), GROUP[0], [GROUP[0], several, thoughts]) is None
    one = attempt(3, True, r"<think>\boxed{3}</think> \boxed{4}")
    assert shown(made.build(example(), GROUP[0], [several, thoughts, one])) == r"\boxed{4}"


@given(st.text(alphabet="ab \n", max_size=8), st.text(alphabet="ab \n", max_size=8))
def test_nothing_of_a_thought_survives(before: str, after: str) -> None:
    assert without_thinking(f"{before}<think>SECRET</think>{after}") == (before + after).strip()
    assert without_thinking(f"SECRET</think>{after}") == after.strip()
    assert without_thinking(f"{after}<think>SECRET") == after.strip()
    assert num_answer_blocks(before + after) == 0


def test_key_hints_show_what_was_extracted_from_a_correct_peer() -> None:
    made = builder("key_hints")
    group = [attempt(0, False), attempt(1, True, "<think>x</think>full", "<think>y</think>1. look")]
    assert shown(made.build(example(), group[0], group)) == "Key hints:\n1. look"
    assert made.peer(example(), group[0], group) == group[1]
    asked = made.extraction(example(), group[1])
    assert asked[-1].role == "user"
    assert "question e" in asked[-1].content
    assert "full" in asked[-1].content
    assert "<think>" not in asked[-1].content
    with pytest.raises(ValueError, match="must be extracted"):
        made.build(example(), group[0], [group[0], attempt(1, True)])


def test_all_has_a_solution_section_and_a_feedback_section() -> None:
    both = shown(builder("all").build(example(), GROUP[0], GROUP[:2]))
    assert both == "A worked solution:\ntry 1\nFeedback on an earlier attempt:\nwrong at 0"
    assert "Feedback" not in shown(builder("all").build(example(), GROUP[1], GROUP))
    only = builder("all", feedback_only_without_solution=True)
    assert "Feedback" not in shown(only.build(example(), GROUP[0], GROUP[:2]))
    assert "wrong at 0" in shown(only.build(example(), GROUP[0], GROUP[:1]))
    assert builder("all").build(example(), GROUP[1], GROUP[:2]) is None


@pytest.mark.parametrize("kind", ["static", "answer", "demonstrations", "feedback", "own_attempt", "peer_solution"])
def test_behind_a_gate_only_failed_rollouts_see_a_context(kind: str) -> None:
    fields = {"template": "t"} if kind == "static" else {}
    made = builder(kind, gating="failed", **fields)
    groups = {"e": GROUP, "t1": [attempt(0, False), attempt(1, True)]}
    assert made.needs_attempt
    assert made.build(example(), GROUP[0], GROUP) is not None
    for own in (GROUP[1], GROUP[3], None):
        assert made.build(example(), own, GROUP) is None
        assert made.control("irrelevant", example(), own, groups) is None
    assert made.control("irrelevant", example(), GROUP[0], groups) is not None
    assert len(made.others(example(), 1, groups)) == 1, "the gate does not close for hints of other examples"


def test_the_shuffled_control_keeps_the_attempt_and_takes_another_examples_feedback() -> None:
    groups = {"e": GROUP, "t3": [attempt(7, False)]}
    made = builder("feedback").control("shuffled", example(), GROUP[0], groups)
    assert shown(made) == "An earlier attempt:\ntry 0\nFeedback on it:\nwrong at 7"
    assert builder("feedback").control("shuffled", example(), GROUP[0], {"e": GROUP}) is None
    whole = shown(builder("all").control("shuffled", example(), GROUP[0], groups))
    assert whole.startswith("A worked solution:\ntry ")
    assert whole.endswith("wrong at 7")


def test_the_corrupted_control_is_the_hint_made_wrong_in_the_same_words() -> None:
    asked = example("e", answer="12", solution="6 + 6 = 12")
    wrong = shown(builder("solution").control("corrupted", asked, None, {}))
    assert wrong.startswith("A worked solution:\n")
    assert "12" not in wrong
    assert [len(part) for part in wrong.split(" ")][:3] == [1, 6, 10 + len("6")] or "+" in wrong
    peer = builder("peer_solution", template="{{ hint }}").control("corrupted", example(), GROUP[0], {"e": GROUP})
    assert shown(peer) not in {one.text for one in GROUP}
    shots = builder("demonstrations", num_demonstrations=3)
    honest, changed = shots.build(asked), shots.control("corrupted", asked, None, {})
    assert shown(honest).count("Answer: t") == shown(changed).count("Answer: t") == 3
    assert shown(honest) != shown(changed)


def test_ones_own_control_is_a_template_over_the_same_fields() -> None:
    made = builder("answer", control_templates={"again": "Try again, not {{ hint }}: {{ question }}"})
    assert made.hint.control_kinds == ("other_example", "corrupted", "irrelevant", "again")
    assert shown(made.control("again", example(), None, {})) == "Try again, not e 7: question e"
    assert made.control("none", example(), None, {}) is None
    with pytest.raises(HintError, match="not valid Jinja"):
        builder("answer", control_templates={"again": "{{ broken"})


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1).filter(lambda text: len(set(text.split())) > 1 or any(c.isdigit() for c in text)))
def test_a_corrupted_text_is_another_text_and_always_the_same_one(text: str) -> None:
    wrong = corrupt(text, 5)
    if wrong is None:
        assert not any("0" <= c <= "9" for c in text)
        return
    assert wrong != text
    assert corrupt(text, 5) == wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.", "No."),
        ("it is TRUE", "it is FALSE"),
        ("So the answer is (B)", "So the answer is (C)"),
        ("The answer is D", "The answer is A"),
        ("The answer is G", "The answer is A"),
        ("a b", "b a"),
        ("ab", "ba"),
        ("aa", None),
        ("a a", None),
    ],
)
def test_each_rule_of_corruption_does_what_it_says(text: str, expected: str | None) -> None:
    assert corrupt(text, 0) == expected


@given(st.integers(0, 10**6), st.integers(0, 50))
def test_every_number_moves_by_the_same_one_to_nine(number: int, seed: int) -> None:
    wrong = corrupt(f"{number} and {number + 3}", seed)
    assert wrong is not None
    first, second = (int(part) for part in wrong.split(" and "))
    assert second - first == 3
    assert 1 <= first - number <= 9


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_six_constructions_are_presets_under_its_names(name: str) -> None:
    hint = HintConfig.model_validate({"preset": name})
    assert hint.name == name
    assert hint.gating == ("all" if name == "none" else "failed")
    made = ContextBuilder(hint)
    group = [attempt(0, False), attempt(1, True, key_hints="1. sort")]
    context = made.build(example(), group[0], group)
    assert (context is None) == (name == "none")
    assert HintConfig.model_validate_json(hint.to_json()) == hint


def test_a_preset_is_only_defaults_and_unknown_ones_are_refused() -> None:
    changed = HintConfig.model_validate({"preset": "sdpo", "name": "mine", "placement": "system"})
    assert (changed.name, changed.kind, changed.placement, changed.gating) == ("mine", "all", "system", "all")
    assert {HintConfig.model_validate({"preset": name}).kind for name in ("opsd", "sdft")} == {"solution"}
    assert set(PAPER) < set(PRESETS)
    with pytest.raises(ValidationError, match="preset"):
        HintConfig.model_validate({"preset": "sdpoo", "name": "x", "kind": "none"})


def test_the_three_slots_stand_in_sdpos_order_and_vanish_when_empty() -> None:
    made = ContextBuilder(HintConfig.model_validate({"preset": "sdpo", "feedback_only_without_solution": False}))
    whole = shown(made.build(example(), GROUP[0], GROUP[:2]))
    places = [whole.index(part) for part in ("try 1", "wrong at 0", "Now solve")]
    assert places == sorted(places)
    alone = shown(made.build(example(), GROUP[0], GROUP[:1]))
    assert "solution:" not in alone
    assert made.build(example(), attempt(0, True), [attempt(0, True)]) is None


def test_records_of_earlier_versions_keep_their_keys() -> None:
    old = {"name": "rule", "kind": "static", "template": "t"}
    written = HintConfig.model_validate(old).model_dump(mode="json")
    assert "preset" not in written
    assert "self_success" not in written
    assert written["gating"] == "all"
    assert "preset" in HintConfig.model_validate({"preset": "opsd"}).model_dump(mode="json")


def test_controls_of_every_kind_can_be_built_or_say_none() -> None:
    groups = {f"t{i}": [attempt(0, False), attempt(1, True, key_hints="k")] for i in range(8)}
    groups["e"] = [attempt(0, False), attempt(1, True, key_hints="k")]
    kinds: Sequence[str] = ("solution", "partial", "answer", "feedback", "own_attempt", "peer_solution", "key_hints")
    for kind in (*kinds, "all", "demonstrations"):
        made = builder(kind)
        for control in made.hint.control_kinds:
            assert control in CONTROLS
            assert made.control(control, example(), groups["e"][0], groups) is not None, (kind, control)
