"""Contexts: whose hint is shown to whom, drawn from names alone, and never the example's own by accident."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contexts import Attempt, ContextBuilder, HintContext
from predictor.errors import HintError
from predictor.records import Example, HintConfig, Message, Verdict

WORDS = "one two  three\nfour five"


def example(name: str, **fields: object) -> Example:
    base = {"prompt": f"question {name}", "answer": f"answer {name}", "solution": f"first {name}\nthen {name}"}
    return Example.model_validate({"example_id": name, **base, **fields})


def attempt(text: str, correct: bool | None, reason: str = "") -> Attempt:
    return Attempt(text, Verdict(correct=correct, reason=reason, checker="c", checker_version="1"))


def builder(kind: str, pool: int = 40, seed: int = 0, **fields: object) -> ContextBuilder:
    hint = HintConfig.model_validate({"name": "h", "kind": kind, **fields})
    return ContextBuilder(hint, [example(f"t{i}") for i in range(pool)], seed)


def content(context: HintContext | None) -> str:
    assert context is not None
    return context.content


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("static", {"template": "Be brief."}, "Be brief."),
        ("solution", {}, "A worked solution:\nfirst e\nthen e"),
        ("answer", {}, "The answer is: answer e"),
        ("answer", {"source": "metadata.other", "template": "say {{ hint }}"}, "say something else"),
        ("partial", {"fraction": 0.5}, "The beginning of a worked solution:\nfirst e"),
        ("messages", {"template": "{{ metadata.other }}: {{ question }}"}, "something else: question e"),
    ],
)
def test_an_example_gets_its_own_hint(kind: str, fields: dict[str, object], expected: str) -> None:
    asked = example("e", metadata={"other": "something else"})
    assert builder(kind, **fields).build(asked) == HintContext(expected, "system")


def test_no_hint_is_no_context() -> None:
    assert builder("none").build(example("e")) is None


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.2, "one"), (0.21, "one two"), (0.5, "one two  three"), (1.0, WORDS)]
)
def test_a_partial_hint_shows_the_first_words_as_they_stand(fraction: float, expected: str) -> None:
    made = builder("partial", fraction=fraction, template="{{ hint }}").build(example("e", solution=WORDS))
    assert content(made) == expected


@given(st.text(alphabet="ab \n\t", min_size=1).filter(str.strip), st.floats(0.01, 1.0))
def test_a_partial_hint_is_a_prefix_with_that_share_of_the_words(text: str, fraction: float) -> None:
    shown = content(
        builder("partial", pool=0, fraction=fraction, template="{{ hint }}").build(example("e", solution=text))
    )
    assert text.startswith(shown)
    assert len(shown.split()) - 1 < len(text.split()) * fraction <= len(shown.split())


def test_a_missing_field_is_one_error_that_names_the_example() -> None:
    for kind, fields in (
        ("solution", {}),
        ("answer", {"source": "metadata.x"}),
        ("messages", {"template": "{{ metadata.x }}"}),
    ):
        with pytest.raises(HintError) as caught:
            builder(kind, **fields).build(Example(example_id="bare", prompt="q"))
        assert "bare" in str(caught.value)


@pytest.mark.parametrize("template", ["{{ hint }}", "{{ attempt }}"])
def test_a_name_that_means_nothing_to_the_kind_is_refused_rather_than_empty(template: str) -> None:
    with pytest.raises(HintError, match="asks for a field"):
        builder("messages", template=template).build(example("e"))
    with pytest.raises(HintError, match="asks for a field"):
        builder("answer", template="{{ attempt }}").build(example("e"))


def test_a_template_that_says_nothing_for_an_example_gives_it_no_context() -> None:
    some = builder("messages", template="{% if metadata.note is defined %}{{ metadata.note }}{% endif %}")
    assert some.build(example("e")) is None
    assert content(some.build(example("e", metadata={"note": "n"}))) == "n"


def test_bad_templates_are_refused_before_any_work() -> None:
    for fields in (
        {"template": "{{ broken"},
        {"template": "{{ hint.__class__() }}"},
        {"demonstration_template": "{% x %}"},
    ):
        with pytest.raises(HintError):
            builder("answer", **fields)


def test_a_static_hint_is_shared_and_may_not_read_fields() -> None:
    shared = builder("static", template="Be brief.")
    assert shared.is_shared
    assert {content(shared.build(example(name))) for name in "abc"} == {"Be brief."}
    assert {content(other) for other in shared.others(example("e"), 5)} == {"Be brief."}
    with pytest.raises(HintError, match="same for every example") as caught:
        builder("static", template="{{ question }}")
    assert caught.value.found == "question"


def test_feedback_is_given_on_failed_attempts_only() -> None:
    feedback = builder("feedback")
    assert feedback.needs_attempt
    assert feedback.build(example("e")) is None
    assert feedback.build(example("e"), attempt("x", True)) is None
    assert feedback.build(example("e"), attempt("x", None)) is None
    told = content(feedback.build(example("e"), attempt("my try", False, "expected 'y'")))
    assert told == "An earlier attempt:\nmy try\nFeedback on it:\nexpected 'y'"
    assert content(feedback.build(example("e"), attempt("my try", False))).endswith("It is not correct.")


def test_feedback_of_others_comes_from_others_failed_attempts() -> None:
    feedback = builder(
        "feedback", template="tried {{ attempt }}", demonstration_template="{{ question }}: {{ attempt }}"
    )
    attempts = {f"t{i}": [attempt(f"try {i}", False if i < 3 else None if i < 6 else True)] for i in range(10)}
    shown = {content(other) for other in feedback.others(example("e"), 3, attempts)}
    assert shown == {f"question t{i}: try {i}" for i in range(3)}
    with pytest.raises(HintError, match="too few other examples") as caught:
        feedback.others(example("e"), 4, attempts)
    assert caught.value.found.startswith("3 ")
    assert content(feedback.other_example(example("e"), attempts)) in {f"tried try {i}" for i in range(3)}
    assert feedback.other_example(example("e"), {}) is None
    only_own = {"t0": attempts["t0"]}
    assert feedback.other_example(feedback.pool[0], only_own) is None


@pytest.mark.parametrize("kind", ["answer", "solution", "partial"])
def test_a_worked_hint_of_another_example_comes_with_its_own_question(kind: str) -> None:
    for other in builder(kind, source="answer").others(example("e"), 6):
        question, answer = other.content.split("\n")
        name = question.removeprefix("Question: question ")
        assert answer.startswith("Answer: answer")
        assert name.startswith("t")
        assert answer in (f"Answer: answer {name}", "Answer: answer")


def test_the_other_example_control_is_that_examples_hint_and_nothing_more() -> None:
    shown = content(builder("answer").other_example(example("e")))
    assert shown.startswith("The answer is: answer t")
    assert "question" not in shown


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 39), st.integers(1, 39), st.integers(0, 5))
def test_others_are_drawn_without_replacement_and_never_the_example_itself(who: int, count: int, seed: int) -> None:
    drawn = builder("answer", seed=seed)
    asked = drawn.pool[who]
    shown = [context.content for context in drawn.others(asked, count)]
    assert len(set(shown)) == count
    assert not any(context.endswith(f"answer t{who}") for context in shown)
    assert content(drawn.other_example(asked)) != f"The answer is: answer t{who}"


def test_the_same_question_and_answer_under_another_id_is_the_example_itself() -> None:
    asked = example("e", prompt="question t3", answer="answer t3")
    for kind, count in (("answer", 39), ("demonstrations", 60)):
        shown = "\n".join(context.content for context in builder(kind).others(asked, count)).split("\n")
        assert "Answer: answer t2" in shown
        assert "Answer: answer t3" not in shown
    with pytest.raises(HintError, match="too few other examples") as caught:
        builder("answer").others(asked, 40)
    assert caught.value.found.startswith("39 ")


@pytest.mark.parametrize("kind", ["answer", "demonstrations"])
def test_draws_are_fixed_by_seed_and_names_and_differ_between_examples(kind: str) -> None:
    asked = [example(f"e{i}") for i in range(12)]
    again = [builder(kind).others(one, 4) for one in asked]
    assert [builder(kind).others(one, 4) for one in asked] == again
    assert [builder(kind, seed=1).others(one, 4) for one in asked] != again
    assert len({shown[0].content for shown in again}) > 6


def test_configs_that_differ_only_in_name_and_wording_get_the_same_draws() -> None:
    pool = builder("answer").pool
    pair = [ContextBuilder(HintConfig(name=n, kind="answer", template=f"{n} {{{{ hint }}}}"), pool) for n in ("a", "b")]
    shown = [content(one.other_example(example("e"))) for one in pair]
    assert shown[0].removeprefix("a ") == shown[1].removeprefix("b ")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 30))
def test_appending_examples_changes_a_draw_only_by_the_newcomers_in_it(added: int, who: int) -> None:
    small, large = builder("answer", pool=30), builder("answer", pool=30 + added)
    asked = example(f"e{who}")
    newcomers = {f"answer t{i}" for i in range(30, 30 + added)}
    before = [context.content for context in small.others(asked, 8)]
    after = [context.content for context in large.others(asked, 8)]
    old = [shown for shown in after if shown.split("Answer: ")[1] not in newcomers]
    assert old == before[: len(old)]
    assert len(old) + sum(shown not in old for shown in after) == 8


def test_the_order_of_the_pool_changes_nothing() -> None:
    forward = builder("demonstrations", num_demonstrations=3)
    backward = ContextBuilder(forward.hint, tuple(reversed(forward.pool)))
    assert forward.build(example("e")) == backward.build(example("e"))
    assert forward.others(example("e"), 4) == backward.others(example("e"), 4)


def test_every_other_example_is_drawn_about_equally_often() -> None:
    made = builder("answer", pool=10)
    counts = dict.fromkeys((f"answer t{i}" for i in range(10)), 0)
    for i in range(1000):
        counts[content(made.other_example(example(f"asked {i}"))).removeprefix("The answer is: ")] += 1
    # Binomial with mean 100 and standard deviation 9.5.
    assert all(60 < count < 140 for count in counts.values())


def test_demonstrations_show_solved_examples_but_never_the_example_itself() -> None:
    made = builder("demonstrations", num_demonstrations=3, pool=4)
    for asked in made.pool:
        for context in (made.build(asked), made.other_example(asked), *made.others(asked, 5)):
            shown = content(context).split("\n\n")
            assert len(set(shown)) == 3
            assert not any(asked.example_id in one for one in shown)
            assert all(one.startswith("Question: question t") for one in shown)
    with pytest.raises(HintError, match="too few training examples"):
        builder("demonstrations", num_demonstrations=4, pool=4).build(made.pool[0])


def test_more_demonstrations_extend_fewer() -> None:
    one, three = (content(builder("demonstrations", num_demonstrations=n).build(example("e"))) for n in (1, 3))
    assert three.startswith(one + "\n\n")


def test_demonstrations_can_be_earlier_turns() -> None:
    made = builder("demonstrations", num_demonstrations=2, placement="turns").build(example("e"))
    assert made is not None
    assert (made.content, made.placement) == ("", "turns")
    assert [turn.role for turn in made.turns] == ["user", "assistant", "user", "assistant"]
    for asked, solved in zip(made.turns[::2], made.turns[1::2], strict=True):
        assert solved == Message(role="assistant", content=asked.content.replace("question", "answer"))


def test_too_few_other_examples_is_an_error_that_says_what_to_change() -> None:
    with pytest.raises(HintError, match="too few other examples") as caught:
        builder("answer", pool=3).others(example("e"), 4)
    assert "train_examples" in caught.value.fix
    with pytest.raises(HintError, match="no other training example"):
        builder("answer", pool=0).other_example(example("e"))
    with pytest.raises(HintError, match="too few other examples"):
        builder("none").others(example("e"), 2)


def test_the_irrelevant_control_stands_where_the_hint_would() -> None:
    text = HintConfig(name="h", kind="none").irrelevant
    assert builder("answer", placement="after_question").irrelevant() == HintContext(text, "after_question")
    assert builder("demonstrations", placement="turns").irrelevant() == HintContext(text, "system")
