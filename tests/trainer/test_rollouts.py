"""Which examples a step draws, what the student sees, and which rollouts carry loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from predictor.engines import Request
from predictor.errors import PromptError
from predictor.records import HintConfig, SamplingConfig
from trainer.config import load_run
from trainer.rollouts import Sampler
from trainer.train import load_learner


def sampler(directory: Path) -> Sampler:
    return load_learner(load_run(directory), directory).sampler


@pytest.fixture
def make(write_run: Callable[..., Path]) -> Callable[..., Sampler]:
    """A sampler for the tiny run with changes."""
    return lambda name="run", **changes: sampler(write_run(name, **changes))


def test_every_example_is_drawn_once_an_epoch_and_each_epoch_has_its_own_order(make: Callable[..., Sampler]) -> None:
    # 16 examples, 6 prompts in a step: 8 steps are 3 epochs.
    tiny = make()
    drawn = [draw.example.example_id for step in range(8) for draw in tiny.draws(step)]
    epochs = [drawn[start : start + 16] for start in (0, 16, 32)]
    assert all(set(epoch) == set(epochs[0]) and len(set(epoch)) == 16 for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_draws_depend_on_seed_and_step_alone(make: Callable[..., Sampler]) -> None:
    one, again, other = make("a"), make("b"), make("c", seed=1)
    assert one.draws(3) == again.draws(3)
    assert [d.example for d in one.draws(3)] != [d.example for d in other.draws(3)]
    assert not {d.seed for d in one.draws(3)} & {d.seed for d in other.draws(3)}


def test_a_step_larger_than_the_task_gives_repeated_examples_their_own_noise(make: Callable[..., Sampler]) -> None:
    draws = make(training={"prompts_per_step": 40}).draws(0)
    assert len({draw.seed for draw in draws}) == 40
    assert set(Counter(draw.example.example_id for draw in draws).values()) == {2, 3}


def test_the_student_never_sees_the_hint_and_the_teacher_sees_the_same_completion(make: Callable[..., Sampler]) -> None:
    step = make()
    tokenizer = step._engine.tokenizer
    rollouts = step.sample(0)
    assert rollouts.num_rollouts == 12
    assert len(rollouts.rows) == 12
    for row in rollouts.rows:
        student, teacher = tokenizer.decode(row.student_ids), tokenizer.decode(row.teacher_ids)
        assert "rule" not in student
        assert teacher == student.replace("<bos>", "<bos> rule reverse")
    assert rollouts.num_live_tokens == rollouts.num_tokens == sum(len(row.completion_ids) for row in rollouts.rows)


def test_rows_hold_the_templates_ids_and_the_sampled_ids(make: Callable[..., Sampler]) -> None:
    """F1, F9: no id of a row was ever text; sampled ids come back as they were drawn."""
    step = make()
    engine = step._engine
    rows = step.sample(0).rows
    requests = [Request("", step.student_pair(draw.example).student.ids, 2, draw.seed) for draw in step.draws(0)]
    drawn = [c.ids for found in engine.generate(requests, step._sampling) for c in found]
    assert [row.completion_ids for row in rows] == drawn
    asked = [[{"role": "user", "content": draw.example.question}] for draw in step.draws(0) for _ in range(2)]
    for row, messages in zip(rows, asked, strict=True):
        own = engine.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert row.student_ids == tuple(own)


def test_a_step_can_be_sampled_without_the_steps_before_it(make: Callable[..., Sampler]) -> None:
    one, other = make("a"), make("b")
    for step in range(3):
        one.sample(step)
    assert one.sample(3) == other.sample(3)


def test_feedback_reaches_only_rollouts_that_failed(make: Callable[..., Sampler]) -> None:
    hint = HintConfig(name="feedback", kind="feedback", template="tried {{ attempt }}")
    step = make(hint=hint)
    tokenizer = step._engine.tokenizer
    rollouts = step.sample(0)
    assert 0 < len(rollouts.rows) <= 12
    for row in rollouts.rows:
        attempt = tokenizer.decode(row.completion_ids, skip_special_tokens=True)
        assert f"tried {attempt}".split() == tokenizer.decode(row.teacher_ids).split()[1 : 2 + len(attempt.split())]

    example = step.draws(0)[0].example
    right = tuple(tokenizer(example.answer, add_special_tokens=False)["input_ids"])
    # A rollout without a single token is an attempt like any other.
    pairs = step.teacher_pairs(example, [right, right[:-1], ()])
    assert [pair is not None for pair in pairs] == [False, True, True]


def test_training_honours_the_gating_that_the_probe_measured(make: Callable[..., Sampler]) -> None:
    hint = HintConfig(name="rule", kind="static", template="rule reverse", gating="failed")
    step = make(hint=hint)
    tokenizer = step._engine.tokenizer
    example = step.draws(0)[0].example
    right = tuple(tokenizer(example.answer, add_special_tokens=False)["input_ids"])
    pairs = step.teacher_pairs(example, [right, right[:-1]])
    assert pairs[0] is None
    assert pairs[1] is not None
    assert "rule reverse" in tokenizer.decode(pairs[1].teacher.ids)


def test_a_peer_in_training_is_a_correct_rollout_of_the_same_group(make: Callable[..., Sampler]) -> None:
    step = make(hint=HintConfig(name="peer", kind="peer_solution", template="tried {{ hint }}"))
    tokenizer = step._engine.tokenizer
    example = step.draws(0)[0].example
    right = tuple(tokenizer(example.answer, add_special_tokens=False)["input_ids"])
    alone, shown = step.teacher_pairs(example, [right, right[:-1]])
    assert alone is None, "a correct rollout is never its own peer"
    assert shown is not None
    assert f"tried {example.answer}" in tokenizer.decode(shown.teacher.ids)


def test_key_hints_in_training_are_extracted_by_the_student_as_it_is(make: Callable[..., Sampler]) -> None:
    hint = HintConfig(
        name="hints",
        kind="key_hints",
        template="tried {{ hint }}",
        extraction_template="note {{ attempt }}",
        extraction_tokens=4,
    )
    step = make(hint=hint)
    tokenizer = step._engine.tokenizer
    example = step.draws(0)[0].example
    right = tuple(tokenizer(example.answer, add_special_tokens=False)["input_ids"])
    pairs = step.teacher_pairs(example, [right, right[:-1]], seed=3)
    assert pairs[0] is None
    again = step.teacher_pairs(example, [right, right[:-1]], seed=3)
    assert [pair and pair.teacher.ids for pair in again] == [pair and pair.teacher.ids for pair in pairs]


def test_without_a_hint_no_rollout_carries_loss(make: Callable[..., Sampler]) -> None:
    rollouts = make(hint=HintConfig(name="none", kind="none")).sample(0)
    assert rollouts.rows == ()
    assert rollouts.num_rollouts == 12
    assert rollouts.num_live_tokens == 0 < rollouts.num_tokens


def test_reaching_the_limit_counts_as_truncated(make: Callable[..., Sampler]) -> None:
    rollouts = make(training={"max_tokens": 1}).sample(0)
    assert rollouts.num_tokens == 12
    assert 6 <= rollouts.num_truncated <= 12


@pytest.mark.parametrize("room", ["student", "teacher"])
def test_a_prompt_without_room_for_its_completion_is_refused(make: Callable[..., Sampler], room: str) -> None:
    """F6: neither side is ever cut; the run says which prompt is too long."""
    changes: dict[str, Any] = {"sampling": SamplingConfig(max_tokens=126)}
    if room == "teacher":
        changes = {"hint": HintConfig(name="long", kind="static", template="rule " * 120)}
    with pytest.raises(PromptError, match="does not fit"):
        make(**changes).sample(0)
