"""The one place where a prompt is rendered: probing, training and re-measuring all call it (design, rule 1).

Token ids come straight from the model's chat template and are never rebuilt from text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from predictor.contexts import HintContext
from predictor.engines.texts import text_ids
from predictor.errors import PromptError
from predictor.records import Example, Message, ThinkingModes

_TAIL = 4


@dataclass(frozen=True)
class RenderedPrompt:
    """Token ids that end with the generation header, and the text they stand for."""

    ids: tuple[int, ...]
    text: str

    @cached_property
    def hash(self) -> str:
        """Short identity of the token ids."""
        return hashlib.blake2b(",".join(map(str, self.ids)).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class PromptPair:
    """The same question without and with the hint."""

    student: RenderedPrompt
    teacher: RenderedPrompt


def render_prompt(conversation: Sequence[Message], tokenizer: Any, *, thinking: bool | None) -> RenderedPrompt:
    """The chat template's own ids and text, generation header included; PromptError when the template refuses."""
    messages = [{"role": message.role, "content": message.content} for message in conversation]
    options: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    try:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **options)
    except (TemplateError, ValueError, TypeError) as error:
        raise PromptError(
            "the model's chat template refuses this conversation",
            where=f"roles {', '.join(message.role for message in conversation)}",
            found=str(error),
            fix="try another hint placement (`before_question` needs no system turn)",
        ) from None
    # The template writes its own special tokens; adding them again would double the BOS.
    ids = text_ids(tokenizer, text)
    if not ids:
        raise PromptError("the chat template renders nothing", where="the model's tokenizer")
    if ids[:2] == (tokenizer.bos_token_id,) * 2:
        raise PromptError(
            "the prompt begins with two BOS tokens",
            where="the model's chat template",
            found=f"ids {ids[:4]}",
            expected="one BOS token, as in training",
            fix="write the BOS once: in the chat template, or nowhere",
        )
    return RenderedPrompt(ids=ids, text=text)


def render_pair(example: Example, context: HintContext | None, tokenizer: Any, thinking: ThinkingModes) -> PromptPair:
    """Student and teacher prompt of one example; PromptError when their generation headers differ undeclared."""
    student = render_prompt(example.conversation, tokenizer, thinking=thinking.student)
    return PromptPair(student, render_teacher(example, context, student, tokenizer, thinking))


def render_teacher(
    example: Example, context: HintContext | None, student: RenderedPrompt, tokenizer: Any, thinking: ThinkingModes
) -> RenderedPrompt:
    """The hinted prompt; `student` is the example's own, rendered once for all its hints. Errors as `render_pair`."""
    shown = example.conversation if context is None else hinted_conversation(example, context)
    teacher = render_prompt(shown, tokenizer, thinking=thinking.teacher)
    if not thinking.declares_difference and student.ids[-_TAIL:] != teacher.ids[-_TAIL:]:
        _refuse_tails(example, context, student, teacher)
    return teacher


def hinted_conversation(example: Example, context: HintContext) -> tuple[Message, ...]:
    """The student's conversation with the hint where its placement says; every other turn is untouched."""
    turns = example.conversation
    if context.placement == "turns":
        head = tuple(turn for turn in turns[:1] if turn.role == "system")
        return head + context.turns + turns[len(head) :]
    if context.placement == "system":
        if turns[0].role == "system":
            merged = Message(role="system", content=f"{turns[0].content}\n\n{context.content}")
            return (merged, *turns[1:])
        return (Message(role="system", content=context.content), *turns)
    question = turns[-1].content
    before = context.placement == "before_question"
    text = f"{context.content}\n\n{question}" if before else f"{question}\n\n{context.content}"
    return (*turns[:-1], Message(role="user", content=text))


def _refuse_tails(
    example: Example, context: HintContext | None, student: RenderedPrompt, teacher: RenderedPrompt
) -> None:
    if context is not None:
        # With the hint after the question, the text before the generation header differs by design.
        _, found, header = teacher.text.rpartition(context.content.strip())
        same_header = student.ids[-1] == teacher.ids[-1] and (not found or student.text.endswith(header))
        if context.placement == "after_question" and same_header:
            return
        # A question shorter than the compared tail leaves the hint's own tokens in it.
        if len(student.ids) <= _TAIL:
            return
    raise PromptError(
        "student and teacher prompt end differently",
        where=f"example `{example.example_id}`",
        found=f"student ids end {student.ids[-_TAIL:]}, teacher ids end {teacher.ids[-_TAIL:]}",
        expected="the same generation header on both sides",
        fix="set sampling.thinking for both sides; a difference is declared by setting both, differently",
    )
