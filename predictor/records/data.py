"""Examples, hint configs, sampling, rollouts and verdicts: what a probe reads and writes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from predictor.records.base import JsonFields, Record

Split = Literal["train", "eval"]
FinishReason = Literal["stop", "length"]
Mean = Literal["geometric", "arithmetic", "jsd"]


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


class ThinkingModes(Record):
    """Thinking mode of each side's chat template; None leaves the template's default.

    Two prompts that end differently are refused, unless both sides are set, and set differently, here.
    """

    student: bool | None = None
    teacher: bool | None = None

    @property
    def declares_difference(self) -> bool:
        """Whether the two sides are meant to end differently."""
        return self.student is not None and self.teacher is not None and self.student != self.teacher


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
