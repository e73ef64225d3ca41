"""Hints become contexts: one builder turns a hint config and an example into what the teacher is shown.

A worked hint (answer, solution, partial, feedback) of ANOTHER example says nothing without its question, so
`others` shows it together with that question, as a demonstration.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from predictor.errors import HintError
from predictor.fields import compile_template, lookup_field, render_template, template_names
from predictor.records import WORKED_KINDS, Example, HintConfig, Message, Placement, Verdict, derive_seed

_DEFAULT_TEMPLATES: dict[str, str] = {
    "solution": "A worked solution:\n{{ hint }}",
    "partial": "The beginning of a worked solution:\n{{ hint }}",
    "answer": "The answer is: {{ hint }}",
    "feedback": "An earlier attempt:\n{{ attempt }}\nFeedback on it:\n{{ hint }}",
    "demonstrations": "{{ hint }}",
}
_DEFAULT_SOURCES: dict[str, str] = {
    "solution": "solution",
    "partial": "solution",
    "answer": "answer",
    "demonstrations": "answer",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout of the student with its verdict: what feedback hints talk about."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class HintContext:
    """What the teacher sees and where; `turns` is filled for placement `turns` only."""

    content: str
    placement: Placement = "system"
    turns: tuple[Message, ...] = ()


@dataclass(frozen=True)
class ContextBuilder:
    """Builds the contexts of one hint config; everything random is derived from names and `seed`."""

    hint: HintConfig
    pool: Sequence[Example] = field(default=())
    """Solved examples to draw demonstrations and other examples' hints from (the training split)."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Parse the templates once, so that a bad one is refused before any work."""
        compile_template(self._template)
        compile_template(self.hint.demonstration_template)
        used = template_names(self._template) if self.hint.kind == "static" else set()
        if used:
            raise HintError(
                "a static hint is the same for every example, but its template uses example fields",
                where=f"hint `{self.hint.name}`",
                found=", ".join(sorted(used)),
                fix="use kind `messages` for a hint that differs by example",
            )

    @property
    def needs_attempt(self) -> bool:
        """Whether the hint talks about a rollout of the student."""
        return self.hint.kind == "feedback"

    @property
    def is_shared(self) -> bool:
        """Whether every example gets the very same context, so that the consensus policy is the teacher itself."""
        return self.hint.kind == "static"

    def build(self, example: Example, attempt: Attempt | None = None) -> HintContext | None:
        """The example's own context; None without a hint, a failed attempt, or anything to say."""
        if self.hint.kind == "none":
            return None
        if self.hint.kind == "demonstrations":
            return self._demonstrations(example)
        if self.needs_attempt and not _is_failed(attempt):
            return None
        text = render_template(self._template, example, **self._values(example, attempt))
        return HintContext(text, self.hint.placement) if text.strip() else None

    def others(
        self, example: Example, count: int, attempts: Mapping[str, Attempt] | None = None
    ) -> tuple[HintContext, ...]:
        """Contexts of `count` other examples, drawn without replacement; worked hints come with their question."""
        if self.hint.kind == "demonstrations":
            return tuple(self._demonstrations(example, draw) for draw in range(count))
        known = attempts or {}
        usable = (other for other in self._ranked(example, "others") if self._has_attempt(other, known))
        shown = (self._shown_to(other, known.get(other.example_id)) for other in usable)
        contexts = tuple(islice((context for context in shown if context is not None), count))
        if len(contexts) < count:
            raise HintError(
                "too few other examples to draw hints from",
                where=f"hint `{self.hint.name}`",
                found=f"{len(contexts)} other training examples with this hint",
                expected=f"at least {count}",
                fix="raise task.train_examples, or lower probe.consensus_hints",
            )
        return contexts

    def other_example(self, example: Example, attempts: Mapping[str, Attempt] | None = None) -> HintContext | None:
        """The `other_example` control: another example's context exactly as that example would get it.

        Demonstrations are drawn anew. None when no other example has a failed attempt that a feedback hint talks about.
        """
        if self.hint.kind == "demonstrations":
            return self._demonstrations(example, purpose="other_example")
        known = attempts or {}
        usable = (other for other in self._ranked(example, "other_example") if self._has_attempt(other, known))
        other = next(usable, None)
        if other is None and not self.needs_attempt:
            raise HintError("there is no other training example to take a hint from", where=f"hint `{self.hint.name}`")
        return None if other is None else self.build(other, known.get(other.example_id))

    def irrelevant(self) -> HintContext:
        """The `irrelevant` control: a text about nothing, where the hint would stand."""
        placement: Placement = "system" if self.hint.placement == "turns" else self.hint.placement
        return HintContext(self.hint.irrelevant, placement)

    @property
    def _template(self) -> str:
        return self.hint.template or _DEFAULT_TEMPLATES.get(self.hint.kind, "{{ hint }}")

    def _values(self, example: Example, attempt: Attempt | None) -> dict[str, str]:
        """What a template sees beside the example's fields; a name that means nothing here stays undefined."""
        values = {} if attempt is None else {"attempt": attempt.text}
        if self.hint.kind not in ("static", "messages"):
            values["hint"] = self._content(example, attempt)
        return values

    def _content(self, example: Example, attempt: Attempt | None) -> str:
        if self.hint.kind == "feedback" and self.hint.source is None:
            return (attempt.verdict.reason or "It is not correct.") if attempt is not None else ""
        content = str(lookup_field(example, self.hint.source or _DEFAULT_SOURCES[self.hint.kind]))
        if self.hint.kind != "partial":
            return content
        words = list(re.finditer(r"\S+", content))
        return content[: words[math.ceil(len(words) * self.hint.fraction) - 1].end()]

    def _has_attempt(self, example: Example, attempts: Mapping[str, Attempt]) -> bool:
        return not self.needs_attempt or _is_failed(attempts.get(example.example_id))

    def _shown_to(self, other: Example, attempt: Attempt | None) -> HintContext | None:
        context = self.build(other, attempt)
        if context is None or self.hint.kind not in WORKED_KINDS:
            return context
        text = render_template(self.hint.demonstration_template, other, **self._values(other, attempt))
        return HintContext(text, context.placement)

    def _demonstrations(self, example: Example, draw: int = 0, purpose: str = "demonstrations") -> HintContext:
        count = self.hint.num_demonstrations
        chosen = list(islice(self._ranked(example, purpose, str(draw)), count))
        if len(chosen) < count:
            raise HintError(
                "too few training examples to show as demonstrations",
                where=f"hint `{self.hint.name}`",
                found=str(len(chosen)),
                expected=f"at least {count}",
                fix="raise task.train_examples, or lower num_demonstrations",
            )
        solved = [(other, self._content(other, None)) for other in chosen]
        if self.hint.placement == "turns":
            turns = tuple(turn for other, answer in solved for turn in _solved_turns(other, answer))
            return HintContext("", "turns", turns)
        template = self.hint.demonstration_template
        shown = [render_template(template, other, hint=answer) for other, answer in solved]
        text = render_template(self._template, example, hint=self.hint.separator.join(shown))
        return HintContext(text, self.hint.placement)

    def _ranked(self, example: Example, *purpose: str) -> Iterator[Example]:
        """The other examples in an order of their own for each example and purpose, without replacement.

        An example's rank depends on its id and on nothing else in the pool, so one more example changes a draw only by
        being in it. Purpose and hint KIND count, not the hint's name: configs that differ only in wording are compared
        on the same draws.
        """
        seed = derive_seed(self.seed, self.hint.kind, example.example_id, *purpose)
        for position in np.argsort(_mixed(self._digests ^ np.uint64(seed)), kind="stable"):
            other = self.pool[position]
            if other.example_id != example.example_id and not _gives_away(other, example):
                yield other

    @cached_property
    def _digests(self) -> NDArray[np.uint64]:
        return np.array([derive_seed(example.example_id) for example in self.pool], dtype=np.uint64)


def _is_failed(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.verdict.correct is False


def _gives_away(other: Example, example: Example) -> bool:
    """Whether the other example is this one under another id: same question, same answer."""
    return other.answer is not None and other.answer == example.answer and other.question == example.question


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number's bits scrambled on their own (the finaliser of splitmix64, Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _solved_turns(example: Example, answer: str) -> tuple[Message, Message]:
    return Message(role="user", content=example.question), Message(role="assistant", content=answer)
