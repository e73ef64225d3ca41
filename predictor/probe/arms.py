"""Arms of a probe: the student, each hint config's teacher, its controls, and its consensus policy.

An arm's key is the hash of everything its rollouts depend on, so equal arms are measured once and shared, and a
changed hint is measured anew. Seeds come from the key, the example and the first rollout's index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from predictor.config import StudyConfig
from predictor.contexts import Attempt, ContextBuilder, HintContext
from predictor.prompts import RenderedPrompt, render_pair
from predictor.records import (
    ControlKind,
    Example,
    HintConfig,
    Mean,
    SamplingConfig,
    content_hash,
    derive_seed,
)

ArmRole = Literal["student", "teacher", "control", "consensus", "after"]
Attempts = Mapping[tuple[str, int], Attempt]
"""The student's judged rollouts by (example id, index)."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One condition under which examples are answered."""

    name: str
    key: str
    role: ArmRole
    hint: HintConfig | None = None
    control: ControlKind | None = None
    mean: Mean | None = None
    alpha: float = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """Rollouts start … start+n-1 of one example in one arm, decoded from one prompt (or the mean of several)."""

    arm: Arm
    example: Example
    start: int
    n: int
    prompts: tuple[RenderedPrompt, ...]
    shown: str = ""
    """Text of the hint, for the copy check; empty when there is none."""

    @property
    def request_id(self) -> str:
        """Name of the engine request."""
        return f"{self.arm.key}/{self.example.example_id}/{self.start}"

    @property
    def seed(self) -> int:
        """Noise of this request, shared with no other."""
        return derive_seed(self.arm.key, self.example.example_id, self.start)


class ArmFactory:
    """Makes the arms of one study and the jobs that fill them."""

    def __init__(self, config: StudyConfig, pool: Sequence[Example], tokenizer: Any) -> None:
        self._config = config
        self._pool = pool
        self._tokenizer = tokenizer
        self._sampling: SamplingConfig = config.sampling

    def student(self) -> Arm:
        """The hint-free arm; measured once and shared by every hint config."""
        return Arm("student", self._key("student"), "student")

    def after(self, run_key: str) -> Arm:
        """The hint-free arm of a trained checkpoint."""
        return Arm(f"after:{run_key}", self._key("after", run_key), "after")

    def teacher(self, hint: HintConfig) -> Arm:
        """The hinted arm of a hint config."""
        return Arm(hint.name, self._key("teacher", _content(hint)), "teacher", hint)

    def control(self, hint: HintConfig, control: ControlKind) -> Arm:
        """A control arm; `none` and a shared irrelevant text are the same arm for every hint config."""
        part: Any = _content(hint)
        if control == "none":
            part = None
        elif control == "irrelevant":
            part = [hint.irrelevant, hint.placement]
        return Arm(f"{hint.name}/{control}", self._key("control", control, part), "control", hint, control)

    def consensus(self, hint: HintConfig, mean: Mean) -> Arm:
        """The consensus policy of a hint config under one mean."""
        alpha = self._config.training.resolved.consensus_alpha
        # The default weight is left out of the key, so that rollouts stored before it could be chosen stay valid.
        weight = [alpha] if mean == "jsd" and alpha != Arm.alpha else []
        key = self._key("consensus", _content(hint), mean, self._config.probe.consensus_hints, *weight)
        return Arm(f"{hint.name}/consensus", key, "consensus", hint, mean=mean, alpha=alpha)

    def consensus_student(self, engine: str) -> Arm:
        """The student measured by the engine that decodes consensus policies, where that is another engine."""
        return Arm("student/consensus", self._key("student", engine), "student")

    def builder(self, hint: HintConfig, pool: Sequence[Example] | None = None) -> ContextBuilder:
        """The context builder of a hint config over the training examples (or another pool)."""
        return ContextBuilder(hint, self._pool if pool is None else pool, self._config.probe.seed)

    def jobs(self, arm: Arm, examples: Sequence[Example], rollouts: int, attempts: Attempts) -> list[Job]:
        """Jobs that fill an arm; a hint about the student's own attempts makes one job for each rollout."""
        if arm.hint is None:
            return [self._job(arm, example, None, 0, rollouts) for example in examples]
        builder = self.builder(arm.hint)
        if arm.control in ("none", "irrelevant"):
            context = builder.irrelevant() if arm.control == "irrelevant" else None
            return [self._job(arm, example, context, 0, rollouts) for example in examples]
        if builder.needs_attempt:
            return self._attempt_jobs(arm, examples, rollouts, attempts)
        make = builder.other_example if arm.control == "other_example" else builder.build
        return [self._job(arm, example, make(example), 0, rollouts) for example in examples]

    def consensus_jobs(self, arm: Arm, examples: Sequence[Example], rollouts: int, attempts: Attempts) -> list[Job]:
        """Jobs of the consensus policy: each example under the hints of `consensus_hints` other examples."""
        if arm.hint is None:
            raise ValueError("a consensus arm has a hint")
        failed = {name: attempt for (name, _), attempt in attempts.items() if attempt.verdict.correct is False}
        builder = self.builder(arm.hint)
        if builder.needs_attempt:
            # Only held-out examples have judged rollouts of the student at this point.
            builder = self.builder(arm.hint, examples)
        jobs = []
        for example in examples:
            contexts = builder.others(example, self._config.probe.consensus_hints, failed)
            prompts = tuple(self._render(example, context) for context in contexts)
            jobs.append(Job(arm, example, 0, rollouts, prompts))
        return jobs

    def _attempt_jobs(self, arm: Arm, examples: Sequence[Example], rollouts: int, attempts: Attempts) -> list[Job]:
        if arm.hint is None:
            raise ValueError("an arm about attempts has a hint")
        builder = self.builder(arm.hint, examples)
        first_failed = {name: attempt for (name, _), attempt in attempts.items() if attempt.verdict.correct is False}
        jobs = []
        for example in examples:
            for index in range(rollouts):
                if arm.control == "other_example":
                    context = builder.other_example(example, first_failed)
                else:
                    context = builder.build(example, attempts.get((example.example_id, index)))
                jobs.append(self._job(arm, example, context, index, 1))
        return jobs

    def _job(self, arm: Arm, example: Example, context: HintContext | None, start: int, n: int) -> Job:
        shown = "" if context is None else context.content + "\n".join(turn.content for turn in context.turns)
        return Job(arm, example, start, n, (self._render(example, context),), shown)

    def _render(self, example: Example, context: HintContext | None) -> RenderedPrompt:
        pair = render_pair(example, context, self._tokenizer, self._sampling.thinking)
        return pair.student if context is None else pair.teacher

    def _key(self, *parts: Any) -> str:
        return content_hash([self._config.measurement_key, *parts])[:20]


def _content(hint: HintConfig) -> dict[str, Any]:
    """What a hint's rollouts depend on: everything but its name and its list of controls."""
    return hint.model_dump(mode="json", exclude={"name", "controls"})
