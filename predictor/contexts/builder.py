"""One builder for each hint config: the example's own context, other examples' contexts, and the controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from predictor.contexts.attempts import Attempt, peer_text, speaker
from predictor.contexts.content import DEFAULT_TEMPLATES, HintValues, Situation
from predictor.contexts.draws import Pool
from predictor.errors import HintError
from predictor.fields import compile_template, render_template, template_names
from predictor.records import WORKED_KINDS, ControlKind, Example, HintConfig, Message, Placement

Groups: TypeAlias = Mapping[str, Sequence[Attempt]]
"""The student's judged rollouts of each example, in the order of their index."""


@dataclass(frozen=True, slots=True)
class HintContext:
    """What the teacher sees and where; `turns` is filled for placement `turns` only."""

    content: str
    placement: Placement = "system"
    turns: tuple[Message, ...] = ()


@dataclass(frozen=True)
class ContextBuilder:
    """Builds the contexts of one hint config; everything random is derived from names and `seed`.

    Probe, trainer, report and export all pass `task.seed`, so that training shows the very texts that were measured.
    """

    hint: HintConfig
    pool: Sequence[Example] = field(default=())
    """Solved examples to draw demonstrations and other examples' hints from (the training split)."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Parse the templates once, so that a bad one is refused before any work."""
        for template in (self._template, self.hint.demonstration_template, *self.hint.control_templates.values()):
            compile_template(template)
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
        """Whether what is shown differs from rollout to rollout of one example."""
        return self.hint.reads_attempts or self.hint.gating == "failed"

    @property
    def is_shared(self) -> bool:
        """Whether every example gets the very same context, so that the consensus policy is the teacher itself."""
        return self.hint.kind == "static"

    def is_open(self, attempt: Attempt | None) -> bool:
        """Whether the gating lets this rollout see a context; without its own attempt known, `failed` does not."""
        return self.hint.gating == "all" or (attempt is not None and attempt.failed)

    def build(
        self, example: Example, attempt: Attempt | None = None, group: Sequence[Attempt] = ()
    ) -> HintContext | None:
        """The example's own context; None without a hint, a material attempt, an open gate, or anything to say."""
        return self._own(Situation(example, attempt, group))

    def control(
        self, control: ControlKind, example: Example, attempt: Attempt | None, groups: Groups
    ) -> HintContext | None:
        """A control's context under the hint's own gating; None where it cannot be made."""
        if not self.is_open(attempt) or control == "none":
            return None
        if control == "irrelevant":
            return self.irrelevant()
        if control == "other_example":
            return self.other_example(example, groups)
        situation = Situation(example, attempt, groups.get(example.example_id, ()))
        if control == "shuffled":
            message = self._message_of_another(example, groups)
            return None if message is None else self._own(replace(situation, message=message))
        if control == "corrupted":
            return self._own(replace(situation, corrupted=True))
        values = self._values.of(situation)
        if values is None:
            return None
        text = render_template(self.hint.control_templates[control], example, **values)
        return HintContext(text, self._text_placement) if text.strip() else None

    def others(self, example: Example, count: int, groups: Groups | None = None) -> tuple[HintContext, ...]:
        """Contexts of `count` other examples, drawn without replacement; worked hints come with their question."""
        if self.hint.kind == "demonstrations":
            return tuple(self._demonstrations(Situation(example), draw) for draw in range(count))
        shown = (self._shown_to(situation) for situation in self._others(example, "others", groups or {}))
        contexts = tuple(islice((context for context in shown if context is not None), count))
        if len(contexts) < count:
            # Hints made from rollouts are drawn among the examples of the consensus arm, others in the training split.
            pool = (
                "probe.consensus_examples and task.eval_examples" if self.hint.reads_attempts else "task.train_examples"
            )
            raise HintError(
                "too few other examples to draw hints from",
                where=f"hint `{self.hint.name}`",
                found=f"{len(contexts)} other examples with this hint",
                expected=f"at least {count}",
                fix=f"raise {pool}, or lower probe.consensus_hints",
            )
        return contexts

    def other_example(self, example: Example, groups: Groups | None = None) -> HintContext | None:
        """The `other_example` control: another example's context exactly as that example would get it.

        Demonstrations are drawn anew. None when no other example has an attempt that the hint could talk about.
        """
        if self.hint.kind == "demonstrations":
            return self._demonstrations(Situation(example), purpose="other_example")
        others = self._others(example, "other_example", groups or {})
        if not self.hint.reads_attempts:
            situation = next(others, None)
            if situation is None:
                raise HintError(
                    "there is no other training example to take a hint from", where=f"hint `{self.hint.name}`"
                )
            return self._written(situation)
        written = (self._written(situation) for situation in others)
        return next((context for context in written if context is not None), None)

    def irrelevant(self) -> HintContext:
        """The `irrelevant` control: a text about nothing, where the hint would stand."""
        return HintContext(self.hint.irrelevant, self._text_placement)

    def peer(self, example: Example, attempt: Attempt, group: Sequence[Attempt]) -> Attempt | None:
        """The correct rollout of the group that this attempt's hint is made from; None without one."""
        return self._values.peer(Situation(example, attempt, group))

    def extraction(self, example: Example, peer: Attempt) -> tuple[Message, ...]:
        """What the model is asked to extract key hints from a peer."""
        text = render_template(self.hint.extraction_template, example, attempt=peer_text(peer, self.hint))
        return (Message(role="user", content=text),)

    @cached_property
    def _values(self) -> HintValues:
        return HintValues(self.hint, self.seed)

    @cached_property
    def _pool(self) -> Pool:
        return Pool(self.pool)

    @property
    def _template(self) -> str:
        return self.hint.template or DEFAULT_TEMPLATES.get(self.hint.kind, "{{ hint }}")

    @property
    def _text_placement(self) -> Placement:
        return "system" if self.hint.placement == "turns" else self.hint.placement

    def _own(self, situation: Situation) -> HintContext | None:
        if self.hint.kind == "none" or not self.is_open(situation.attempt):
            return None
        if self.hint.kind == "demonstrations":
            return self._demonstrations(situation)
        return self._written(situation)

    def _written(self, situation: Situation) -> HintContext | None:
        """The hint's text for one example, whatever the gating; None when it has nothing to say."""
        values = None if self.hint.kind == "none" else self._values.of(situation)
        if values is None:
            return None
        text = render_template(self._template, situation.example, **values)
        return HintContext(text, self.hint.placement) if text.strip() else None

    def _others(self, example: Example, purpose: str, groups: Groups) -> Iterator[Situation]:
        """Other examples with the attempt that speaks for each, in the order they are drawn."""
        for other in self._ranked(example, purpose):
            group = groups.get(other.example_id, ())
            yield Situation(other, speaker(group) if self.hint.reads_attempts else None, group)

    def _shown_to(self, situation: Situation) -> HintContext | None:
        context = self._written(situation)
        values = self._values.of(situation) if self.hint.kind in WORKED_KINDS else None
        if context is None or values is None:
            return context
        text = render_template(self.hint.demonstration_template, situation.example, **values)
        return HintContext(text, context.placement)

    def _message_of_another(self, example: Example, groups: Groups) -> str | None:
        """Feedback on another example's failed attempt; None when no other attempt failed."""
        others = self._others(example, "other_example", groups)
        other = next((other for other in others if other.attempt is not None and other.attempt.failed), None)
        values = None if other is None else self._values.of(other)
        return None if values is None else values.get("message") or values["hint"]

    def _demonstrations(self, situation: Situation, draw: int = 0, purpose: str = "demonstrations") -> HintContext:
        count = self.hint.num_demonstrations
        chosen = list(islice(self._ranked(situation.example, purpose, str(draw)), count))
        if len(chosen) < count:
            raise HintError(
                "too few training examples to show as demonstrations",
                where=f"hint `{self.hint.name}`",
                found=str(len(chosen)),
                expected=f"at least {count}",
                fix="raise task.train_examples, or lower num_demonstrations",
            )
        solved = [(other, self._solved(Situation(other, corrupted=situation.corrupted))) for other in chosen]
        if self.hint.placement == "turns":
            turns = tuple(turn for other, answer in solved for turn in _solved_turns(other, answer))
            return HintContext("", "turns", turns)
        template = self.hint.demonstration_template
        shown = [render_template(template, other, hint=answer) for other, answer in solved]
        text = render_template(self._template, situation.example, hint=self.hint.separator.join(shown))
        return HintContext(text, self.hint.placement)

    def _solved(self, situation: Situation) -> str:
        """A demonstrated example's answer; a corrupted one that cannot be changed stays as it is."""
        values = self._values.of(situation) or self._values.of(replace(situation, corrupted=False)) or {}
        return values["hint"]

    def _ranked(self, example: Example, *purpose: str) -> Iterator[Example]:
        """Purpose and hint KIND count, not the hint's name: configs that differ only in wording get the same draws."""
        return self._pool.ranked(example, self.seed, self.hint.kind, example.example_id, *purpose)


def _solved_turns(example: Example, answer: str) -> tuple[Message, Message]:
    return Message(role="user", content=example.question), Message(role="assistant", content=answer)
