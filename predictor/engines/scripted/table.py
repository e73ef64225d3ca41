"""A scripted model: rules that say with what probability each whole completion is given, and their next-token law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError, field_validator

from predictor.engines.base import Ids
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.errors import EngineError, ModelError
from predictor.records import Record

TABLE_FILE: Final = "scripted.json"
MASS_TOLERANCE: Final = 1e-9
"""How far probabilities that should sum to 1 may be off."""


class ScriptedRule(Record):
    """What is answered to prompts that contain all of these texts."""

    contains: tuple[str, ...] = ()
    completions: dict[str, float] = Field(min_length=1)
    """Probability of each completion; an end token follows every one of them."""

    @field_validator("completions")
    @classmethod
    def _sums_to_one(cls, value: dict[str, float]) -> dict[str, float]:
        if min(value.values()) < 0.0 or abs(math.fsum(value.values()) - 1.0) > MASS_TOLERANCE:
            raise ValueError("the probabilities of `completions` must be non-negative and sum to 1")
        return value


class ScriptedTable(Record):
    """The rules in order; the first that applies to a prompt decides."""

    rules: tuple[ScriptedRule, ...] = Field(min_length=1)

    def save(self, directory: Path) -> Path:
        """Write the table as a model directory that `ScriptedEngine.update_weights` accepts; returns it."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / TABLE_FILE).write_text(self.to_json(), encoding="utf-8")
        return directory

    @classmethod
    def load(cls, directory: Path) -> ScriptedTable:
        """The table in a directory; ModelError when it is missing or malformed."""
        path = directory / TABLE_FILE
        if not path.is_file():
            raise ModelError("the directory holds no scripted model", where=str(path), expected=TABLE_FILE)
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            where = f"{path}, {'.'.join(map(str, first['loc']))}"
            raise ModelError("the scripted model is malformed", where=where, found=first["msg"]) from None


def plant(
    question: str, answers: tuple[str, str], student: float, teachers: Mapping[str, float]
) -> tuple[ScriptedRule, ...]:
    """Rules under which `answers` = (right, wrong) to a question: right with the given probabilities.

    `teachers` maps a text of a hint to the accuracy under it, the first match counts; `student` holds without any.
    """
    right, wrong = answers
    hinted = [(hint, accuracy) for hint, accuracy in teachers.items()]
    return tuple(
        ScriptedRule(contains=(question, hint) if hint else (question,), completions={right: p, wrong: 1.0 - p})
        for hint, p in [*hinted, ("", student)]
    )


class TableLaw:
    """The next-token law of a table over the byte tokenizer's ids."""

    def __init__(self, table: ScriptedTable, tokenizer: ByteTokenizer) -> None:
        self.table = table
        self.tokenizer = tokenizer
        self._rule_by_prompt: dict[Ids, dict[Ids, float]] = {}

    def __call__(self, prompt_ids: Ids, prefix_ids: Ids) -> dict[int, float]:
        """Share of each next token among the completions that start with the prefix; the end token where none does."""
        weights: dict[int, float] = {}
        for ids, probability in self._completions(prompt_ids).items():
            if probability > 0.0 and ids[: len(prefix_ids)] == prefix_ids and len(ids) > len(prefix_ids):
                token = ids[len(prefix_ids)]
                weights[token] = weights.get(token, 0.0) + probability
        total = math.fsum(weights.values())
        if total == 0.0:
            return {self.tokenizer.eos_token_id: 1.0}
        return {token: weight / total for token, weight in weights.items()}

    def _completions(self, prompt_ids: Ids) -> dict[Ids, float]:
        if prompt_ids not in self._rule_by_prompt:
            text = self.tokenizer.decode(prompt_ids)
            rules = (rule for rule in self.table.rules if all(part in text for part in rule.contains))
            rule = next(rules, None)
            if rule is None:
                raise EngineError("no rule of the scripted model applies to a prompt", found=repr(text[-200:]))
            end = (self.tokenizer.eos_token_id,)
            self._rule_by_prompt[prompt_ids] = {
                tuple(self.tokenizer.encode(completion)) + end: probability
                for completion, probability in rule.completions.items()
            }
        return self._rule_by_prompt[prompt_ids]
