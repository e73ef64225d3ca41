"""Prompts: the chat template's own ids, one BOS, the hint where its placement says, the same header on both sides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictor.cli.preview import mark_hint
from predictor.contexts import HintContext
from predictor.errors import PromptError
from predictor.prompts import hinted_conversation, render_pair, render_prompt
from predictor.records import Example, Message, Placement, ThinkingModes

HEAD = "<s><turn> "
HEADER = "<turn> assistant : <think> </think> "
ASKED = Example(example_id="e", prompt="a b c d")
DEFAULT = ThinkingModes()
TURNS = (Message(role="user", content="x"), Message(role="assistant", content="y"))
PLAIN = ({"role": "user", "content": "a b c d"},)


def talk(*turns: tuple[str, str]) -> tuple[Message, ...]:
    return tuple(Message.model_validate({"role": role, "content": text}) for role, text in turns)


def test_ids_are_the_templates_own_with_exactly_one_bos(tokenizer: Any) -> None:
    """F1 and F4: templated once, for student and teacher alike, and never from decoded text."""
    prompt = render_prompt(ASKED.conversation, tokenizer, thinking=None)
    own = tokenizer.apply_chat_template([*PLAIN], add_generation_prompt=True, tokenize=True, return_dict=False)
    assert prompt.ids == tuple(own)
    assert prompt.ids.count(tokenizer.bos_token_id) == 1
    assert tokenizer.unk_token_id not in prompt.ids
    # What the fault F4 looks like: the same text encoded as plain text.
    assert tokenizer(prompt.text)["input_ids"].count(tokenizer.bos_token_id) == 2


def test_the_text_stands_for_the_ids_and_ends_with_the_generation_header(tokenizer: Any) -> None:
    prompt = render_prompt(ASKED.conversation, tokenizer, thinking=None)
    assert prompt.text == HEAD + "user : a b c d <end> " + HEADER
    assert tokenizer.decode(prompt.ids).split() == prompt.text.replace("<s>", "<s> ").split()


def test_a_template_that_writes_two_bos_is_refused(make_tokenizer: Any) -> None:
    """F4: a leading duplicate is an error, whoever wrote it."""
    doubled = make_tokenizer("{{ bos_token }}{{ bos_token }}{{ messages[-1].content }}")
    with pytest.raises(PromptError, match="two BOS") as caught:
        render_prompt(ASKED.conversation, doubled, thinking=None)
    assert caught.value.where == "the model's chat template"


def test_a_template_without_bos_gets_none_added(make_tokenizer: Any) -> None:
    bare = make_tokenizer("{{ messages[-1].content }}")
    assert bare.bos_token_id not in render_prompt(ASKED.conversation, bare, thinking=None).ids


GOLDEN: list[tuple[Placement, str]] = [
    ("system", "system : rule reverse <end> <turn> user : a b c d <end> "),
    ("before_question", "user : rule reverse\n\na b c d <end> "),
    ("after_question", "user : a b c d\n\nrule reverse <end> "),
    ("turns", "user : x <end> <turn> assistant : y <end> <turn> user : a b c d <end> "),
]


@pytest.mark.parametrize(("placement", "expected"), GOLDEN)
def test_the_hint_stands_where_its_placement_says(placement: Placement, expected: str, tokenizer: Any) -> None:
    context = HintContext(
        "" if placement == "turns" else "rule reverse", placement, TURNS if placement == "turns" else ()
    )
    pair = render_pair(ASKED, context, tokenizer, DEFAULT)
    assert pair.teacher.text == HEAD + expected + HEADER
    assert pair.student.text == HEAD + "user : a b c d <end> " + HEADER
    assert pair.student == render_prompt(ASKED.conversation, tokenizer, thinking=None)
    assert pair.teacher.ids != pair.student.ids


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("system", [("system", "s\n\nh"), ("user", "q1"), ("assistant", "r1"), ("user", "q2")]),
        ("before_question", [("system", "s"), ("user", "q1"), ("assistant", "r1"), ("user", "h\n\nq2")]),
        ("after_question", [("system", "s"), ("user", "q1"), ("assistant", "r1"), ("user", "q2\n\nh")]),
        (
            "turns",
            [("system", "s"), ("user", "x"), ("assistant", "y"), ("user", "q1"), ("assistant", "r1"), ("user", "q2")],
        ),
    ],
)
def test_every_other_turn_of_a_conversation_is_untouched(placement: Placement, expected: list[tuple[str, str]]) -> None:
    turns = talk(("system", "s"), ("user", "q1"), ("assistant", "r1"), ("user", "q2"))
    asked = Example(example_id="e", messages=turns)
    context = HintContext("h", placement, TURNS if placement == "turns" else ())
    assert hinted_conversation(asked, context) == talk(*expected)


def test_without_a_hint_both_prompts_are_the_same(tokenizer: Any) -> None:
    pair = render_pair(ASKED, None, tokenizer, DEFAULT)
    assert pair.student == pair.teacher
    assert pair.student.hash == pair.teacher.hash


@pytest.mark.parametrize(("student", "teacher"), [(None, True), (True, None)])
def test_a_mode_set_for_one_side_only_declares_no_difference(
    student: bool | None, teacher: bool | None, tokenizer: Any
) -> None:
    """F2: one side alone with an empty thought block is the fault itself."""
    modes = ThinkingModes(student=student, teacher=teacher)
    for context in (HintContext("rule reverse"), None):
        with pytest.raises(PromptError, match="end differently") as caught:
            render_pair(ASKED, context, tokenizer, modes)
        assert "sampling.thinking" in caught.value.fix
    alike = ThinkingModes(student=False, teacher=None)
    assert render_pair(ASKED, None, tokenizer, alike).teacher.text.endswith("<think> </think> ")


@pytest.mark.parametrize(("student", "teacher"), [(True, False), (False, True)])
def test_each_side_has_its_own_declared_thinking_mode(student: bool, teacher: bool, tokenizer: Any) -> None:
    """F2: a mode for each side; a difference is declared by setting both."""
    modes = ThinkingModes(student=student, teacher=teacher)
    pair = render_pair(ASKED, HintContext("rule reverse"), tokenizer, modes)
    assert pair.student.text.endswith("<think> ") is bool(student)
    assert pair.teacher.text.endswith("<think> ") is bool(teacher)


SWITCHING = (
    "{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}<turn> assistant : {{ SWITCH }} <think> </think>"
)


@pytest.mark.parametrize("placement", ["system", "before_question", "after_question"])
def test_a_header_that_differs_undeclared_is_refused(placement: Placement, make_tokenizer: Any) -> None:
    """F2: one side's generation header holds an empty thought block and the other's does not."""
    switching = make_tokenizer(SWITCHING.replace("SWITCH", "'off' if 'off' in messages[0].content else 'on'"))
    with pytest.raises(PromptError, match="end differently") as caught:
        render_pair(ASKED, HintContext("rule off", placement), switching, DEFAULT)
    assert "example `e`" in caught.value.where
    assert "sampling.thinking" in caught.value.fix
    render_pair(ASKED, HintContext("rule", placement), switching, DEFAULT)
    render_pair(ASKED, HintContext("rule off", placement), switching, ThinkingModes(student=False, teacher=True))


def test_a_question_shorter_than_the_compared_tail_is_no_mismatch(make_tokenizer: Any) -> None:
    terse = make_tokenizer("{% for m in messages %}{{ m.content }} {% endfor %}:")
    pair = render_pair(Example(example_id="e", prompt="a"), HintContext("rule reverse"), terse, DEFAULT)
    assert len(pair.student.ids) == 2


def test_a_hint_after_the_question_changes_the_text_before_a_short_header_and_that_is_no_mismatch(
    make_tokenizer: Any,
) -> None:
    terse = make_tokenizer("{% for m in messages %}{{ m.content }} {% endfor %}:")
    pair = render_pair(ASKED, HintContext("rule reverse", "after_question"), terse, DEFAULT)
    assert pair.teacher.text == "a b c d\n\nrule reverse :"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no system turn, please') }}",
        "{{ messages[7].content }}",
        "{% for m in messages %}{{ m.content + 1 }}{% endfor %}",
        "{{ messages[0]['content'].__class__.__mro__ }}",
    ],
)
def test_a_template_that_refuses_or_breaks_is_one_prompt_error(template: str, make_tokenizer: Any) -> None:
    with pytest.raises(PromptError, match="refuses this conversation") as caught:
        render_prompt(talk(("system", "s"), ("user", "q")), make_tokenizer(template), thinking=None)
    assert caught.value.where == "roles system, user"


def test_a_tokenizer_without_template_or_with_an_empty_one_is_one_prompt_error(make_tokenizer: Any) -> None:
    for template, complaint in ((None, "refuses this conversation"), ("{# #}", "renders nothing")):
        with pytest.raises(PromptError, match=complaint):
            render_prompt(ASKED.conversation, make_tokenizer(template), thinking=None)


def test_equal_ids_have_equal_hashes_and_others_do_not(tokenizer: Any) -> None:
    prompts = [render_prompt(talk(("user", text)), tokenizer, thinking=None) for text in ("a b", "a b", "a c", "b a")]
    assert prompts[0].hash == prompts[1].hash
    assert len({prompt.hash for prompt in prompts}) == 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hint=st.text(max_size=40), question=st.text(max_size=40), placement=st.sampled_from([p for p, _ in GOLDEN[:3]]))
def test_hint_and_question_reach_the_prompt_as_data(
    hint: str, question: str, placement: Placement, tokenizer: Any
) -> None:
    asked = Example(example_id="e", prompt=f"q{question}q")
    pair = render_pair(asked, HintContext(f"h{hint}h", placement), tokenizer, DEFAULT)
    assert f"q{question}q" in pair.student.text
    assert f"q{question}q" in pair.teacher.text
    assert f"h{hint}h" in pair.teacher.text
    assert f"h{hint}h" not in pair.student.text or f"h{hint}h" in f"q{question}q"


@pytest.mark.parametrize(("placement", "expected"), GOLDEN)
def test_the_marks_of_a_dry_run_bracket_exactly_the_hint(placement: Placement, expected: str, tokenizer: Any) -> None:
    context = HintContext(
        "" if placement == "turns" else "rule reverse", placement, TURNS if placement == "turns" else ()
    )
    marked = render_prompt(hinted_conversation(ASKED, mark_hint(context)), tokenizer, thinking=None).text
    hint = "x <end> <turn> assistant : y" if placement == "turns" else "rule reverse"
    assert marked == HEAD + expected.replace(hint, f"⟦{hint}⟧") + HEADER


@pytest.mark.parametrize("hint", ["a", "a b c d", "user :", " a b\n", "⟦a⟧", "d"])
def test_a_hint_like_its_surroundings_is_bracketed_all_the_same(hint: str, tokenizer: Any) -> None:
    context = HintContext(hint, "before_question")
    marked = render_prompt(hinted_conversation(ASKED, mark_hint(context)), tokenizer, thinking=None).text
    assert marked == HEAD + f"user : ⟦{hint}⟧\n\na b c d <end> " + HEADER
