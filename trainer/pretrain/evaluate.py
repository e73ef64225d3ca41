"""How well a miniature reads each kind of hint, measured exactly on held-out strings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from predictor.records import derive_seed
from trainer.pretrain.documents import (
    HINT_KINDS,
    RULE_NAMES,
    Document,
    Source,
    answer_ids,
    draw_document,
    prompt_ids,
    question_pool,
)
from trainer.pretrain.exact import exact_accuracy

TARGET_RULE: Final = "reverse"


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Mean P(correct) over documents, its standard error, and how many documents it rests on."""

    value: float
    stderr: float
    num_documents: int


def held_out_documents(kind: str, rules: Sequence[str], count: int, *, seed: int) -> list[Document]:
    """Documents of one hint kind on held-out strings, their rules taken in turn."""
    rng = np.random.default_rng(derive_seed("evaluation", kind, *rules, seed))
    source = Source(rng, question_pool(held_out=True))
    return [draw_document(source, kind, rule=rules[index % len(rules)]) for index in range(count)]


def hint_accuracies(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    rules: Sequence[str] = RULE_NAMES,
    count: int = 600,
    seed: int = 0,
) -> dict[str, Accuracy]:
    """Accuracy with each hint kind at temperature 1, without sampling noise; the rules are equally frequent."""
    table = {}
    for kind in HINT_KINDS:
        documents = held_out_documents(kind, rules, count, seed=seed)
        prompts, answers = [prompt_ids(d) for d in documents], [answer_ids(d) for d in documents]
        right = np.array(exact_accuracy(model, tokenizer, prompts, answers))
        stderr = float(right.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
        table[kind] = Accuracy(value=float(right.mean()), stderr=stderr, num_documents=count)
    return table
