"""Arms of a probe: the student, each hint config's teacher, its controls, and its consensus policy.

An arm's key is the hash of everything its rollouts depend on, so equal arms are measured once and shared, and a
changed hint is measured anew. Seeds come from the key, the example and the first rollout's index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from predictor.config import StudyConfig
from predictor.contexts import Attempt, ContextBuilder, Groups, HintContext
from predictor.prompts import RenderedPrompt, render_prompt, render_teacher
from predictor.records import (
    CONTROLS,
    ControlKind,
    Example,
    HintConfig,
    Mean,
    SamplingConfig,
    content_hash,
    derive_seed,
)

EVEN_WEIGHT = 0.5
"""Weight of the JSD mean where the training preset names none."""
ArmRole = Literal["student", "teacher", "control", "consensus", "extract", "after"]
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
    alpha: float = EVEN_WEIGHT

    @property
    def is_gated(self) -> bool:
        """Whether only failed rollouts are answered under a context; the bare resample stands for the others."""
        return self.hint is not None and self.hint.gating == "failed" and self.control != "none"

    @property
    def is_by_rollout(self) -> bool:
        """Whether rollout i answers to the student's rollout i, so that the two are paired."""
        reads = self.hint is not None and self.hint.reads_attempts and self.control not in ("none", "irrelevant")
        return self.is_gated or reads


@dataclass(frozen=True)
class Job:
    """Rollouts start … start+n-1 of one example in one arm, decoded from one prompt (or the mean of several)."""

    arm: Arm
    example: Example
    start: int
    n: int
    prompts: tuple[RenderedPrompt, ...]
    shown: str = ""
    """Text of the hint, for the copy check; empty when there is none."""

    @cached_property
    def request_id(self) -> str:
        """Name of the engine request."""
        return f"{self.arm.key}/{self.example.example_id}/{self.start}"

    @cached_property
    def seed(self) -> int:
        """Noise of this request, shared with no other."""
        return derive_seed(self.arm.key, self.example.example_id, self.start)


class ArmFactory:
    """Makes the arms of one study and the jobs that fill them."""

    def __init__(
        self, config: StudyConfig, pool: Sequence[Example], tokenizer: Any, held_out: Sequence[Example] = ()
    ) -> None:
        self._config = config
        self._pool = pool
        self._held_out = held_out
        self._tokenizer = tokenizer
        self._sampling: SamplingConfig = config.sampling
        self._students: dict[str, RenderedPrompt] = {}

    def student(self) -> Arm:
        """The hint-free arm; measured once and shared by every hint config."""
        return Arm("student", self._key("student"), "student")

    def after(self, run_key: str) -> Arm:
        """The hint-free arm of a trained checkpoint."""
        return Arm(f"after:{run_key}", self._key("after", run_key), "after")

    def teacher(self, hint: HintConfig) -> Arm:
        """The hinted arm of a hint config."""
        return Arm(hint.name, self._key("teacher", _content(hint)), "teacher", hint)

    def bare(self) -> Arm:
        """The bare resample: the student's prompt with fresh seeds, one arm for every hint config."""
        return self.control(self._config.hints[0], "none")

    def control(self, hint: HintConfig, control: ControlKind) -> Arm:
        """A control arm; `none` and a shared irrelevant text are the same arm for every hint config."""
        part: Any = _content(hint)
        if control == "none":
            part = None
        elif control == "irrelevant":
            part = [hint.irrelevant, hint.placement] + ["failed"] * (hint.gating == "failed")
        elif control not in CONTROLS:
            part = [part, hint.control_templates[control]]
        return Arm(f"{hint.name}/{control}", self._key("control", control, part), "control", hint, control)

    def extraction(self, hint: HintConfig) -> Arm:
        """The arm in which the model extracts key hints from correct rollouts; index = the rollout's own index."""
        part = [hint.extraction_template, hint.extraction_tokens, hint.remove_thinking]
        return Arm(f"{hint.name}/extract", self._key("extract", part), "extract", hint)

    def consensus(self, hint: HintConfig, mean: Mean) -> Arm:
        """The consensus policy of a hint config under one mean."""
        alpha = self._config.training.resolved.consensus_alpha
        # The default weight is left out of the key, so that rollouts stored before it could be chosen stay valid.
        weight = [alpha] if mean == "jsd" and alpha != EVEN_WEIGHT else []
        key = self._key("consensus", _content(hint), mean, self._config.probe.consensus_hints, *weight)
        return Arm(f"{hint.name}/consensus", key, "consensus", hint, mean=mean, alpha=alpha)

    def consensus_student(self, engine: str) -> Arm:
        """The student measured by the engine that decodes consensus policies, where that is another engine."""
        return Arm("student/consensus", self._key("student", engine), "student")

    def builder(self, hint: HintConfig, pool: Sequence[Example] | None = None) -> ContextBuilder:
        """The context builder of a hint config over the training examples (or another pool)."""
        return ContextBuilder(hint, self._pool if pool is None else pool, self._config.task.seed)

    def jobs(self, arm: Arm, examples: Sequence[Example], rollouts: int, attempts: Attempts) -> list[Job]:
        """Jobs that fill an arm; what answers to the student's own rollouts makes one job for each of them.

        Behind a gate only failed rollouts have a job: the bare resample stands for the others.
        """
        if arm.hint is None or arm.control == "none":
            return [self._job(arm, example, None, 0, rollouts) for example in examples]
        builder = self._builder_of(arm.hint, examples)
        if arm.is_by_rollout:
            return self._rollout_jobs(arm, builder, (examples, rollouts), attempts)
        groups: Groups = {}
        return [self._job(arm, e, _context(arm, builder, e, None, groups), 0, rollouts) for e in examples]

    def consensus_jobs(self, arm: Arm, examples: Sequence[Example], rollouts: int, attempts: Attempts) -> list[Job]:
        """Jobs of the consensus policy: each example under the hints of `consensus_hints` other examples."""
        if arm.hint is None:
            raise ValueError("a consensus arm has a hint")
        # Only held-out examples have judged rollouts of the student at this point.
        builder = self.builder(arm.hint, examples if arm.hint.reads_attempts else None)
        groups = in_groups(attempts)
        jobs = []
        for example in examples:
            contexts = builder.others(example, self._config.probe.consensus_hints, groups)
            prompts = tuple(self._render(example, context) for context in contexts)
            jobs.append(Job(arm, example, 0, rollouts, prompts))
        return jobs

    def extraction_jobs(self, arm: Arm, examples: Sequence[Example], attempts: Attempts) -> list[Job]:
        """One job for each correct rollout that some attempt's key hints are made from."""
        if arm.hint is None:
            raise ValueError("an extraction arm has a hint")
        builder, groups = self._builder_of(arm.hint, examples), in_groups(attempts)
        jobs = []
        for example in examples:
            group = groups.get(example.example_id, ())
            chosen = (builder.peer(example, attempt, group) for attempt in group)
            peers = {peer.index: peer for peer in chosen if peer is not None}
            for index in sorted(peers):
                asked = builder.extraction(example, peers[index])
                prompt = render_prompt(asked, self._tokenizer, thinking=self._sampling.thinking.teacher)
                jobs.append(Job(arm, example, index, 1, (prompt,)))
        return jobs

    def _builder_of(self, hint: HintConfig, examples: Sequence[Example]) -> ContextBuilder:
        """Hints of other examples come from held-out ones where only these have rollouts of the student."""
        return self.builder(hint, (self._held_out or examples) if hint.reads_attempts else None)

    def _rollout_jobs(
        self, arm: Arm, builder: ContextBuilder, wanted: tuple[Sequence[Example], int], attempts: Attempts
    ) -> list[Job]:
        groups = in_groups(attempts)
        jobs = []
        for example in wanted[0]:
            for index in range(wanted[1]):
                attempt = attempts.get((example.example_id, index))
                if builder.is_open(attempt):
                    jobs.append(self._job(arm, example, _context(arm, builder, example, attempt, groups), index, 1))
        return jobs

    def _job(self, arm: Arm, example: Example, context: HintContext | None, start: int, n: int) -> Job:
        shown = "" if context is None else context.content + "\n".join(turn.content for turn in context.turns)
        return Job(arm, example, start, n, (self._render(example, context),), shown)

    def _render(self, example: Example, context: HintContext | None) -> RenderedPrompt:
        thinking = self._sampling.thinking
        student = self._students.get(example.example_id)
        if student is None:
            student = render_prompt(example.conversation, self._tokenizer, thinking=thinking.student)
            self._students[example.example_id] = student
        return student if context is None else render_teacher(example, context, student, self._tokenizer, thinking)

    def _key(self, *parts: Any) -> str:
        return content_hash([self._config.measurement_key, *parts])[:20]


def in_groups(attempts: Attempts) -> Groups:
    """The attempts of each example in the order of their index."""
    groups: dict[str, list[Attempt]] = {}
    for name, index in sorted(attempts):
        groups.setdefault(name, []).append(attempts[name, index])
    return groups


def _context(
    arm: Arm, builder: ContextBuilder, example: Example, attempt: Attempt | None, groups: Groups
) -> HintContext | None:
    if arm.control is None:
        return builder.build(example, attempt, groups.get(example.example_id, ()))
    return builder.control(arm.control, example, attempt, groups)


def _content(hint: HintConfig) -> dict[str, Any]:
    """What a hint's rollouts depend on: everything but its names and its controls."""
    return hint.model_dump(mode="json", exclude={"name", "preset", "controls", "control_templates"})
