"""Model, task and checker settings: the parts of a study that the trainer reads too."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from predictor.records.base import JsonFields, Record, content_hash


class ModelConfig(Record):
    """Which model, and which engine serves it."""

    path: str = Field(min_length=1)
    """A directory in Hugging Face layout, or an embedded model (`miniature/llama-s`, `smollm2-135m-instruct`)."""
    family: str = ""
    """Law family; runs of different families are never pooled silently. Empty means the path."""
    engine: Literal["auto", "vllm", "transformers"] = "auto"
    """`auto` takes vLLM when it can serve the model here, else transformers, and says why."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Weights in memory; `auto` is bfloat16 on a GPU and float32 on a CPU."""

    @property
    def law_family(self) -> str:
        """The family that the law pools this model's runs under."""
        return self.family or self.path


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


CheckerConfig = Annotated[ExactChecker | RegexChecker | NumericChecker | ConstraintChecker, Field(discriminator="kind")]


class TaskConfig(Record):
    """Where examples come from, how answers are judged, and how many are used."""

    source: Literal["jsonl", "strings"]
    """`jsonl` reads `path`; `strings` is the miniature's string world."""
    path: str | None = None
    """Example file, relative to the study directory."""
    checker: CheckerConfig = ExactChecker()
    eval_examples: int = Field(128, ge=1)
    """Held-out examples measured before and after training."""
    train_examples: int = Field(512, ge=1)
    """Examples the trainer samples from and whose hints the consensus policy averages."""
    options: JsonFields = {}
    """Options of the source (`strings`: rule, hidden_rules)."""
    seed: int = 0
    """Which examples are drawn where the source has more than asked for."""

    @property
    def key(self) -> str:
        """Hash of everything that decides which questions are asked and how answers are judged."""
        return self.content_hash()[:16]

    @property
    def questions_key(self) -> str:
        """Hash of where the questions come from: rollouts outlive another checker or another number of examples."""
        return content_hash([self.source, self.path, self.options, self.seed])[:16]
