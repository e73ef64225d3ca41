"""Checker settings: how a task's answers are judged, one class for each kind."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from predictor.records.base import Record


class ExactChecker(Record):
    """Correct when the completion equals the reference after the named normalisation."""

    kind: Literal["exact"] = "exact"
    case_sensitive: bool = True
    """Whether case counts; white space at the ends never does, inner white space counts as one space."""


class RegexChecker(Record):
    """Correct when the pattern's first group (or whole match) in the completion equals the reference."""

    kind: Literal["regex"] = "regex"
    pattern: str
    """Python regular expression; the last match in the completion counts."""


class NumericChecker(Record):
    """Correct when the last number in the completion equals the reference number within `tolerance`."""

    kind: Literal["numeric"] = "numeric"
    tolerance: float = Field(1e-6, ge=0.0, allow_inf_nan=False)
    """Absolute tolerance."""


class ConstraintRule(Record):
    """Every part that is set must hold for the completion, stripped of white space at its ends."""

    one_of: tuple[str, ...] = ()
    """The whole completion, without a final full stop and in any case, is one of these."""
    min_words: int | None = Field(None, ge=1)
    max_words: int | None = Field(None, ge=1)
    case: Literal["upper", "lower"] | None = None
    prefix: str | None = None
    """The completion starts with this text, case counts."""
    final_line: str | None = None
    """Python regular expression that the last non-empty line matches entirely."""
    forbidden: tuple[str, ...] = ()
    """Texts that must not occur, in any case."""

    @model_validator(mode="after")
    def _can_be_kept_and_broken(self) -> Self:
        if self == ConstraintRule.model_construct():
            raise ValueError("a rule without parts would call every completion correct")
        if any(not text.rstrip(".").strip() for text in self.one_of) or not all((*self.forbidden, self.prefix != "")):
            raise ValueError("`one_of`, `forbidden` and `prefix` hold no empty texts")
        if self.min_words is not None and self.max_words is not None and self.min_words > self.max_words:
            raise ValueError(f"no completion has between {self.min_words} and {self.max_words} words")
        return self


class ConstraintChecker(Record):
    """Correct when the completion keeps a rule: one for all, or one for each value of an example's field."""

    kind: Literal["constraint"] = "constraint"
    rule: ConstraintRule | None = None
    """The rule for every example."""
    by: str | None = None
    """Dotted example field that names the rule (`metadata.rule`)."""
    rules: dict[str, ConstraintRule] = {}
    """Rules by the value of that field."""

    @model_validator(mode="after")
    def _one_source_of_rules(self) -> Self:
        if (self.rule is None) != (self.by is not None) or bool(self.rules) != (self.by is not None):
            raise ValueError("a constraint checker has either one `rule`, or `by` and `rules`")
        return self


class MultipleChoiceChecker(Record):
    """Correct when the last choice that the completion states, by letter or by text, is the reference."""

    kind: Literal["multiple_choice"] = "multiple_choice"
    choices: str = "metadata.choices"
    """Dotted example field with the option texts: a list (lettered A, B, …) or a mapping from letter to text."""
    several: Literal["wrong", "undecided"] = "wrong"
    """Verdict on a final statement that names more than one choice."""


class MathChecker(Record):
    """Correct when the final answer equals the reference as mathematics."""

    kind: Literal["math"] = "math"
    equality: Literal["symbolic", "numbers"] = "symbolic"
    """`symbolic` asks math-verify (extra `math`) where exact arithmetic does not decide; `numbers` never does."""
    boxed_only: bool = False
    """Whether an answer outside \\boxed{} counts as no answer."""
    timeout_s: float = Field(10.0, gt=0.0, allow_inf_nan=False)
    """Seconds that math-verify gets for one answer; then the verdict is undecided."""


class ToolCallChecker(Record):
    """Correct when the completion calls the reference's tools with equal arguments."""

    kind: Literal["tool_call"] = "tool_call"
    ordered: bool = True
    """Whether several calls must come in the reference's order."""


class CodeChecker(Record):
    """Correct when the completion's Python program passes every hidden test in the sandbox."""

    kind: Literal["code"] = "code"
    style: Literal["assert", "stdin"] = "assert"
    """`assert`: a test is Python code run after the program. `stdin`: a test is JSON with `input` and `output`."""
    public_tests: str = "metadata.public_tests"
    """Dotted example field with a list of tests that only write the feedback; the example's `tests` only score."""
    timeout_s: float = Field(10.0, gt=0.0, le=3600.0)
    """Seconds for one program and its tests."""
    memory_mb: int = Field(1024, ge=64)
    """Address space of each process and resident memory of all of them."""
    max_processes: int = Field(32, ge=4)
    python: str | None = None
    """Interpreter for the programs; None means this one, or the system's where only root may run this one."""


class ReasoningGymChecker(Record):
    """Correct when reasoning-gym's own scorer gives the full score (extra `reasoning-gym`)."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str | None = None
    """Name of the reasoning-gym task; None means each example's `metadata.source_dataset`."""
    tag: str | None = "answer"
    """The last complete <tag>…</tag> holds the answer where there is one; None scores the whole completion."""
    timeout_s: float = Field(10.0, gt=0.0, allow_inf_nan=False)


class FunctionChecker(Record):
    """Correct when a Python function, called as TRL calls reward functions, returns at least `threshold`."""

    kind: Literal["function"] = "function"
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:function`, importable from the directory that gapcast is started in, or installed."""
    threshold: float = Field(1.0, allow_inf_nan=False)
    timeout_s: float = Field(10.0, gt=0.0, allow_inf_nan=False)


class HttpChecker(Record):
    """Correct when a reward server answers `{"correct": true}`, or a `reward` of at least `threshold`."""

    kind: Literal["http"] = "http"
    url: str = Field(pattern=r"^https?://\S+$")
    """Receives JSON by POST: example_id, completion, prompt or messages, answer, solution, metadata."""
    threshold: float = Field(1.0, allow_inf_nan=False)
    timeout_s: float = Field(10.0, gt=0.0, allow_inf_nan=False)


CheckerConfig = Annotated[
    ExactChecker
    | RegexChecker
    | NumericChecker
    | ConstraintChecker
    | MultipleChoiceChecker
    | MathChecker
    | ToolCallChecker
    | CodeChecker
    | ReasoningGymChecker
    | FunctionChecker
    | HttpChecker,
    Field(discriminator="kind"),
]
