"""The exact accuracy of a consensus policy on the string world, computed without any of the estimators' code.

One completion is right for each question, so the accuracy of a mean policy is the teacher-forced probability of that
completion: plain uncached forward passes without padding, and a Jensen-Shannon mean found by bisection instead of the
package's fixed-point iteration. Hints can be drawn again for the same example, which no real task allows.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from predictor.engines.texts import text_ids
from predictor.engines.transformers import TransformersEngine
from predictor.prompts import render_prompt
from predictor.records import Example, Mean, Message, derive_seed
from predictor.tasks.strings import ALIASES, RULES, SYMBOLS, apply_rule, derive_choice, derive_uniform

Floats = npt.NDArray[np.float64]
REDRAWN = 64
BISECTIONS = 40
"""Halvings of an interval of 80 nats: to 1e-10."""


def next_probs(model: Any, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Floats]:
    """Next-token probabilities (T, V) before each token of an ending after its prompt, without a cache."""
    found: list[Floats] = [np.empty(0)] * len(rows)
    order = sorted(range(len(rows)), key=lambda index: (len(rows[index][0]), len(rows[index][1])))
    for _, group in itertools.groupby(order, key=lambda index: (len(rows[index][0]), len(rows[index][1]))):
        alike = list(group)
        for start in range(0, len(alike), 512):
            chunk = alike[start : start + 512]
            ids = torch.tensor([[*rows[index][0], *rows[index][1]] for index in chunk])
            with torch.inference_mode():
                logits = model(input_ids=ids, use_cache=False).logits.double()
            first = len(rows[chunk[0]][0]) - 1
            probs = logits[:, first : first + len(rows[chunk[0]][1])].softmax(dim=-1).numpy()
            for index, own in zip(chunk, probs, strict=True):
                found[index] = own
    return found


def mean_policy(probs_MTV: Floats, mean: Mean, weights_M: Floats | None = None) -> Floats:
    """The weighted mean distribution (…, V) over the first axis by its definition; the JSD one by bisection."""
    weights_M = np.ones(len(probs_MTV)) if weights_M is None else weights_M
    if mean == "arithmetic":
        return np.asarray(np.average(probs_MTV, axis=0, weights=weights_M))
    if mean == "geometric":
        powers = np.exp(np.average(np.log(probs_MTV), axis=0, weights=weights_M))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    return jensen_shannon(probs_MTV, weights_M)


def jensen_shannon(probs_MTV: Floats, weights_M: Floats | None = None, alpha: float = 0.5) -> Floats:
    """q with log q - mean_m log((1-alpha)·q + alpha·T_m) equal to one constant, which makes q sum to 1."""
    shape = probs_MTV.shape[1:]

    def solved(constant: Floats) -> Floats:
        low, high = np.full(shape, -80.0), np.zeros(shape)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            mixed = np.average(np.log((1 - alpha) * np.exp(middle) + alpha * probs_MTV), axis=0, weights=weights_M)
            above = middle - mixed > constant
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray(np.exp((low + high) / 2))

    low, high = np.full((*shape[:-1], 1), -80.0), np.full((*shape[:-1], 1), math.log(1 / (1 - alpha)))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = solved(middle).sum(axis=-1, keepdims=True) > 1.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    found = solved((low + high) / 2)
    return np.asarray(found / found.sum(axis=-1, keepdims=True))


def exact_accuracies(
    engine: TransformersEngine, prompts: Sequence[Sequence[Sequence[int]]], examples: Sequence[Example], mean: Mean
) -> list[float]:
    """P(right answer, then end) under the mean of each example's prompts."""
    tokenizer = engine.tokenizer
    endings = [(*text_ids(tokenizer, e.answer), tokenizer.eos_token_id) for e in examples]
    distinct = list(dict.fromkeys((tuple(p), end) for group, end in zip(prompts, endings, strict=True) for p in group))
    known = dict(zip(distinct, next_probs(engine.model, distinct), strict=True))
    values = []
    for group, ending in zip(prompts, endings, strict=True):
        # Redrawn hints repeat; each distinct one is averaged once, with its weight.
        counts = Counter(tuple(prompt) for prompt in group)
        probs_MTV = np.stack([known[prompt, ending] for prompt in counts])
        policy_TV = mean_policy(probs_MTV, mean, np.array(list(counts.values()), dtype=np.float64))
        values.append(float(np.prod(policy_TV[np.arange(len(ending)), ending])))
    return values


def redrawn(kind: str, example: Example, rules: Sequence[str], draw: int) -> str:
    """The hint as it would be if the example's hidden rule, coins and demonstrations were drawn once more."""

    def toss(purpose: str) -> bool:
        return derive_uniform("redrawn", example.example_id, draw, purpose) < 0.5

    def choice(options: Sequence[str], purpose: str) -> str:
        return derive_choice(options, "redrawn", example.example_id, draw, purpose)

    rule = choice(rules, "rule")
    wrong = choice([name for name in RULES if name != rule], "wrong")
    question = example.question
    if kind == "demo":
        shown = derive_strings(example.example_id, draw)
        return f"demo {shown} gives {apply_rule(rule, shown)}"
    either = [rule, "copy" if kind == "either-common" and rule != "copy" else wrong]
    half = apply_rule(rule, question).split()
    hints = {
        "rule": f"rule {rule}",
        "alias": f"rule {ALIASES[rule]}",
        "maybe25": f"maybe25 {rule}",
        "maybe50": f"maybe50 {rule}",
        "maybe75": f"maybe75 {rule}",
        "wrong": f"rule {wrong}",
        "coin-random": f"rule {rule if toss('coin') else wrong}",
        "coin-copy": f"rule {rule if toss('coin') else 'copy'}",
        "answer": f"answer {apply_rule(rule, question)}",
        "coin-answer": f"answer {apply_rule(rule if toss('coin') else wrong, question)}",
        "half": f"half {' '.join(half[: math.ceil(len(half) / 2)])}",
    }
    return hints.get(kind) or "either " + " ".join(either if toss("order") else either[::-1])


def derive_strings(*parts: str | int) -> str:
    """Four different symbols for a demonstration."""
    rng = np.random.default_rng(derive_seed("redrawn demonstration", *parts))
    return " ".join(rng.choice(SYMBOLS, size=4, replace=False).tolist())


def oracle(
    engine: TransformersEngine, redraw: tuple[str, int], rules: Sequence[str], examples: Sequence[Example], mean: Mean
) -> float:
    """Exact accuracy under the mean over 64 redrawn hints of the same example; `redraw` is a hint and its parts."""
    kind, count = redraw
    prompts = []
    for example in examples:
        rows = []
        for draw in range(REDRAWN):
            text = " ".join(redrawn(kind, example, rules, draw * 8 + part) for part in range(count))
            turns = [Message(role="system", content=text), Message(role="user", content=example.question)]
            rows.append(render_prompt(turns, engine.tokenizer, thinking=None).ids)
        prompts.append(rows)
    return float(np.mean(exact_accuracies(engine, prompts, examples, mean)))
