"""Hints become contexts: one builder turns a hint config and an example into what the teacher is shown.

A worked hint (answer, solution, partial, feedback) of ANOTHER example says nothing without its question, so
`others` shows it together with that question, as a demonstration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

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
_DEFAULT_SOURCES: dict[str, str] = {"solution": "solution", "partial": "solution", "answer": "answer"}


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
        """The example's own context; None where there is none (no hint, or no failed attempt to talk about)."""
        if self.hint.kind == "none":
            return None
        if self.hint.kind == "demonstrations":
            return self._demonstrations(example)
        if self.needs_attempt and (attempt is None or attempt.verdict.correct is not False):
            return None
        content = self._content(example, attempt)
        text = render_template(
            self._template, example, hint=content, attempt=attempt.text if attempt is not None else ""
        )
        return HintContext(text, self.hint.placement)

    def others(
        self, example: Example, count: int, attempts: Mapping[str, Attempt] | None = None
    ) -> tuple[HintContext, ...]:
        """Contexts of `count` other examples, drawn without replacement; worked hints come with their question."""
        if self.hint.kind == "demonstrations":
            return tuple(self._demonstrations(example, draw) for draw in range(count))
        usable = [e for e in self._others_of(example) if not self.needs_attempt or e.example_id in (attempts or {})]
        if len(usable) < count:
            raise HintError(
                "too few other examples to draw hints from",
                where=f"hint `{self.hint.name}`",
                found=f"{len(usable)} other training examples with this hint",
                expected=f"at least {count}",
                fix="raise task.train_examples, or lower probe.consensus_hints",
            )
        chosen = self._choose(example, usable, count, "others")
        return tuple(self._shown_to(other, attempts or {}) for other in chosen)

    def other_example(self, example: Example, attempts: Mapping[str, Attempt] | None = None) -> HintContext | None:
        """The `other_example` control: another example's context exactly as that example would get it."""
        other = self._choose(example, self._others_of(example), 1, "other_example")[0]
        return self.build(other, (attempts or {}).get(other.example_id))

    def irrelevant(self) -> HintContext:
        """The `irrelevant` control: a text about nothing, where the hint would stand."""
        placement: Placement = "system" if self.hint.placement == "turns" else self.hint.placement
        return HintContext(self.hint.irrelevant, placement)

    @property
    def _template(self) -> str:
        return self.hint.template or _DEFAULT_TEMPLATES.get(self.hint.kind, "{{ hint }}")

    def _content(self, example: Example, attempt: Attempt | None) -> str:
        if self.hint.kind in ("static", "messages"):
            return ""
        if self.hint.kind == "feedback" and self.hint.source is None:
            return (attempt.verdict.reason or "It is not correct.") if attempt is not None else ""
        source = self.hint.source or _DEFAULT_SOURCES.get(self.hint.kind, "solution")
        content = str(lookup_field(example, source))
        if self.hint.kind != "partial":
            return content
        words = content.split(" ")
        return " ".join(words[: math.ceil(len(words) * self.hint.fraction)])

    def _shown_to(self, other: Example, attempts: Mapping[str, Attempt]) -> HintContext:
        context = self.build(other, attempts.get(other.example_id))
        if context is None:
            raise HintError(f"hint `{self.hint.name}` has no context for example `{other.example_id}`")
        if self.hint.kind not in WORKED_KINDS:
            return context
        attempt = attempts.get(other.example_id)
        text = render_template(
            self.hint.demonstration_template,
            other,
            hint=self._content(other, attempt),
            attempt=attempt.text if attempt is not None else "",
        )
        return HintContext(text, context.placement)

    def _demonstrations(self, example: Example, draw: int = 0) -> HintContext:
        count = self.hint.num_demonstrations
        usable = self._others_of(example)
        if len(usable) < count:
            raise HintError(
                "too few training examples to show as demonstrations",
                where=f"hint `{self.hint.name}`",
                found=str(len(usable)),
                expected=f"at least {count}",
            )
        chosen = self._choose(example, usable, count, "demonstrations", str(draw))
        source = self.hint.source or "answer"
        solved = [(other, str(lookup_field(other, source))) for other in chosen]
        if self.hint.placement == "turns":
            turns = tuple(turn for other, answer in solved for turn in _solved_turns(other, answer))
            return HintContext("", "turns", turns)
        template = self.hint.demonstration_template
        shown = [render_template(template, other, hint=answer, attempt="") for other, answer in solved]
        text = render_template(self._template, example, hint=self.hint.separator.join(shown), attempt="")
        return HintContext(text, self.hint.placement)

    def _others_of(self, example: Example) -> list[Example]:
        return [other for other in self.pool if other.example_id != example.example_id]

    def _choose(self, example: Example, usable: Sequence[Example], count: int, *purpose: str) -> list[Example]:
        if len(usable) < count:
            raise HintError("there is no other training example to take a hint from", where=f"hint `{self.hint.name}`")
        # Purpose and hint KIND, not its name: configs that differ only in wording are compared on the same draws.
        seed = derive_seed(self.seed, self.hint.kind, example.example_id, *purpose)
        picks = np.random.default_rng(seed).choice(len(usable), size=count, replace=False)
        return [usable[int(pick)] for pick in picks]


def _solved_turns(example: Example, answer: str) -> tuple[Message, Message]:
    return Message(role="user", content=example.question), Message(role="assistant", content=answer)
