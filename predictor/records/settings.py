"""Model and task settings: the parts of a study that the trainer reads too."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from predictor.records.base import JsonFields, Record, content_hash
from predictor.records.checkers import CheckerConfig, ExactChecker


class EngineConfig(Record):
    """An engine with more to say than its name."""

    kind: Literal["auto", "vllm", "transformers"]
    replicas: int = Field(1, ge=1, le=64)
    """Engines that share the work, as Ray actors: one on each GPU."""


class ModelConfig(Record):
    """Which model, and which engine serves it."""

    path: str = Field(min_length=1)
    """A directory in Hugging Face layout, or an embedded model (`miniature/llama-s`, `smollm2-135m-instruct`)."""
    family: str = ""
    """Law family; runs of different families are never pooled silently. Empty means the path."""
    engine: Literal["auto", "vllm", "transformers"] = "auto"
    """`auto` takes vLLM when it can serve the model here, else transformers, and says why. `{kind: vllm, replicas: N}`
    runs N of them as Ray actors."""
    replicas: int = Field(default=1, ge=1, exclude=True)
    """Engines that share the work, one on each GPU (extra `ray`); no part of what is measured, so in no hash."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Weights in memory; `auto` is bfloat16 on a GPU and float32 on a CPU."""

    @model_validator(mode="before")
    @classmethod
    def _engine_with_replicas(cls, data: Any) -> Any:
        """`engine: {kind: vllm, replicas: N}` is engine and replicas in one."""
        if not isinstance(data, dict) or not isinstance(data.get("engine"), dict):
            return data
        parts = EngineConfig.model_validate(data["engine"])
        return data | {"engine": parts.kind, "replicas": parts.replicas}

    @property
    def law_family(self) -> str:
        """The family that the law pools this model's runs under."""
        return self.family or self.path


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
    """Which examples are drawn where the source has more than asked for, and everything random about contexts: whose
    hint, demonstration or peer is shown to whom. Probe and trainer both take it from here, so that they agree; the
    noise of sampling comes from `probe.seed` and from the run's own seed."""

    @property
    def key(self) -> str:
        """Hash of everything that decides which questions are asked and how answers are judged."""
        return self.content_hash()[:16]

    @property
    def questions_key(self) -> str:
        """Hash of where the questions come from: rollouts outlive another checker or another number of examples."""
        return content_hash([self.source, self.path, self.options, self.seed])[:16]
