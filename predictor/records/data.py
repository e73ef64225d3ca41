"""Examples, hint configs, sampling, rollouts and verdicts: what a probe reads and writes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from predictor.records.base import JsonFields, Record

Split = Literal["train", "eval"]
FinishReason = Literal["stop", "length"]
HintKind = Literal["none", "static", "solution", "partial", "answer", "demonstrations", "feedback", "messages"]
ControlKind = Literal["none", "other_example", "irrelevant"]
Placement = Literal["system", "before_question", "after_question", "turns"]
Mean = Literal["geometric", "arithmetic", "jsd"]

WORKED_KINDS: frozenset[str] = frozenset({"solution", "partial", "answer", "feedback"})
"""Kinds whose content works out one question; another example's is shown together with its own question."""

_READ_BY: dict[str, frozenset[str]] = {
    "template": frozenset({"static", "messages", "demonstrations"}) | WORKED_KINDS,
    "source": frozenset({"demonstrations"}) | WORKED_KINDS,
    "fraction": frozenset({"partial"}),
    "num_demonstrations": frozenset({"demonstrations"}),
    "separator": frozenset({"demonstrations"}),
}
"""Hint fields that only some kinds read; with another kind they would be accepted and ignored."""


class Message(Record):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Example(Record):
    """One question with what its checker needs; exactly one of `prompt` and `messages`."""

    example_id: str = Field(min_length=1)
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    answer: str | None = None
    """The reference the checker compares with."""
    solution: str | None = None
    """A worked solution; the content of `solution` and `partial` hints."""
    feedback: str | None = None
    tests: tuple[str, ...] = ()
    metadata: JsonFields = {}
    split: Split = "eval"
    cluster_id: str | None = None
    """Examples of one cluster are resampled together (questions about one passage, say)."""

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("an example has exactly one of `prompt` and `messages`")
        if self.messages is not None and (not self.messages or self.messages[-1].role != "user"):
            raise ValueError("`messages` must end with a user turn")
        if not self.question.strip():
            raise ValueError("the question is empty")
        return self

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The hint-free conversation that the student answers."""
        if self.messages is not None:
            return self.messages
        return (Message(role="user", content=self.prompt or ""),)

    @property
    def question(self) -> str:
        """Text of the last user turn."""
        return self.conversation[-1].content

    @property
    def unit(self) -> str:
        """The independent unit that statistics resample."""
        return self.cluster_id if self.cluster_id is not None else self.example_id


class HintConfig(Record):
    """One way of making privileged context for the teacher prompt."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$")
    kind: HintKind
    template: str | None = None
    """Sandboxed Jinja over the example's fields, plus `hint` (the content) and `attempt`; each kind has a default."""
    source: str | None = None
    """Dotted example field that holds the content (`solution`, `metadata.trace`); each kind has a default."""
    fraction: float = Field(0.5, gt=0.0, le=1.0)
    """Share of the content's words that a `partial` hint shows, from the start, rounded up."""
    num_demonstrations: int = Field(1, ge=1, le=64)
    """Solved examples that a `demonstrations` hint shows."""
    demonstration_template: str = "Question: {{ question }}\nAnswer: {{ hint }}"
    """How a solved example is written, and how another example's worked hint is shown with its own question."""
    separator: str = "\n\n"
    """Text between demonstrations."""
    irrelevant: str = "The library opens at nine and closes at six on weekdays."
    """Text of the `irrelevant` control."""
    placement: Placement = "system"
    """Where the hint goes; `turns` shows demonstrations as earlier question and answer turns."""
    gating: Literal["all"] = "all"
    """Which rollouts see the hint."""
    controls: tuple[ControlKind, ...] | None = None
    """Controls measured beside it; None means those that make sense for its kind."""

    @model_validator(mode="after")
    def _kind_has_its_parts(self) -> Self:
        if self.kind in ("static", "messages") and not (self.template or "").strip():
            raise ValueError(f"a hint of kind `{self.kind}` needs a `template`")
        if self.placement == "turns" and (self.kind != "demonstrations" or self.template is not None):
            raise ValueError("placement `turns` is for hints of kind `demonstrations` without a `template`")
        if self.controls is not None and len(set(self.controls)) < len(self.controls):
            raise ValueError("`controls` names a control twice")
        for name, kinds in _READ_BY.items():
            if self.kind not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"a hint of kind `{self.kind}` does not read `{name}`")
        return self

    @property
    def control_kinds(self) -> tuple[ControlKind, ...]:
        """The controls in force: given, or by kind (a shared text has no other example's version)."""
        if self.controls is not None:
            return self.controls
        if self.kind == "none":
            return ()
        return ("irrelevant",) if self.kind == "static" else ("other_example", "irrelevant")


class ThinkingModes(Record):
    """Thinking mode of each side's chat template; None leaves the template's default."""

    student: bool | None = None
    teacher: bool | None = None


class SamplingConfig(Record):
    """Decoding, one object for probing, training and re-measuring."""

    temperature: float = Field(1.0, ge=0.0, le=10.0)
    """Softmax temperature; 0 is greedy."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(64, ge=1)
    """Longest completion; reaching it is finish reason `length` and counted as truncated."""
    thinking: ThinkingModes = ThinkingModes()


class Rollout(Record):
    """One sampled completion, with its token ids."""

    example_id: str
    arm: str
    index: int
    prompt_hash: str
    prompt_len: int
    completion_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    logprob_sum: float
    """Sum of the model's raw log-probabilities (temperature 1, no filtering) of the completion's tokens, in nats."""


class Verdict(Record):
    """The checker's judgement of one rollout."""

    correct: bool | None
    """None when the checker could not judge; counted as undecided, never as wrong."""
    extracted: str = ""
    reason: str = ""
    checker: str
    checker_version: str
