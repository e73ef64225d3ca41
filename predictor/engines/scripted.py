"""An engine whose next-token law is known in closed form: planted truths for tests, and dry runs without a model.

Its "weights" are a table in `scripted.json`: the first rule whose texts all stand in the prompt says with what
probability each whole completion is given. Every accuracy of a study on it is therefore known exactly.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, field_validator

from predictor.engines.base import (
    Completion,
    ConsensusRequest,
    Ids,
    OnDone,
    Request,
    ScoreRequest,
    check_lengths,
    check_scores,
)
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.noise import uniforms
from predictor.errors import EngineError, ModelError
from predictor.records import Mean, Record, SamplingConfig

TABLE_FILE: Final = "scripted.json"
_MASS_TOLERANCE = 1e-9
_ITERATIONS = 500
_MOST_NODES = 100_000

Law = Callable[[Ids, Ids], Mapping[int, float]]
"""Next-token probabilities by token id, given the prompt's and the completion's ids so far."""
Floats = npt.NDArray[np.float64]


class ScriptedRule(Record):
    """What is answered to prompts that contain all of these texts."""

    contains: tuple[str, ...] = ()
    completions: dict[str, float] = Field(min_length=1)
    """Probability of each completion; an end token follows every one of them."""

    @field_validator("completions")
    @classmethod
    def _sums_to_one(cls, value: dict[str, float]) -> dict[str, float]:
        if min(value.values()) < 0.0 or abs(math.fsum(value.values()) - 1.0) > _MASS_TOLERANCE:
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


@dataclass(frozen=True, slots=True)
class _Node:
    """A next-token distribution, ready to be drawn from."""

    support: Ids
    cumulative: tuple[float, ...]
    """Running sum of the sampling probabilities."""
    logprobs: tuple[float, ...]
    """Raw log-probabilities."""


class ScriptedEngine:
    """Samples exactly from a next-token law; log-probabilities are the law's own."""

    name = "scripted"
    version = "1"

    def __init__(self, law: Law | ScriptedTable, *, max_model_len: int = 65536) -> None:
        self.tokenizer = ByteTokenizer()
        self.law: Law = TableLaw(law, self.tokenizer) if isinstance(law, ScriptedTable) else law
        self.reason = "a scripted law, for tests and dry runs"
        self.max_model_len = max_model_len
        self._nodes: dict[tuple[tuple[Ids, ...], Ids, float, float, Mean], _Node] = {}

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order, reproducible from seed and index."""
        check_lengths(requests, sampling, self.max_model_len)
        completions = []
        for request in requests:
            seeds = [(request.seed, index) for index in range(request.n)]
            completions.append([self._sample((request.prompt_ids,), seed, sampling, "arithmetic") for seed in seeds])
            if on_done is not None:
                on_done(request, completions[-1])
        return completions

    def generate_consensus(
        self, requests: Sequence[ConsensusRequest], sampling: SamplingConfig, mean: Mean
    ) -> list[list[Completion]]:
        """n completions of each request's mean policy, as in the transformers engine."""
        check_lengths(requests, sampling, self.max_model_len)
        return [
            [self._sample(request.prompts, (request.seed, index), sampling, mean) for index in range(request.n)]
            for request in requests
        ]

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """The law's log-probability of every completion token; minus infinity for an impossible one."""
        check_scores(requests, self.max_model_len)
        return [
            tuple(
                _log(self.law(request.prompt_ids, request.completion_ids[:position]).get(token, 0.0))
                for position, token in enumerate(request.completion_ids)
            )
            for request in requests
        ]

    def update_weights(self, model_dir: Path) -> None:
        """Serve the table in `model_dir`; ModelError when there is none, EngineError when it is not served."""
        table = ScriptedTable.load(model_dir)
        served = TableLaw(table, self.tokenizer)
        rule = table.rules[0]
        prompt = tuple(self.tokenizer.encode("".join(rule.contains) or "?"))
        before, self.law = self.law, served
        self._nodes.clear()
        for text, probability in rule.completions.items():
            ids = (*self.tokenizer.encode(text), self.tokenizer.eos_token_id)
            found = math.exp(math.fsum(self.score([ScoreRequest(prompt, ids)])[0]))
            if abs(found - probability) > _MASS_TOLERANCE:
                self.law = before
                raise EngineError("the engine does not serve the table", where=str(model_dir), found=f"{found:g}")

    def close(self) -> None:
        """Nothing to give back."""

    def _sample(
        self, prompts: tuple[Ids, ...], seed: tuple[int, int], sampling: SamplingConfig, mean: Mean
    ) -> Completion:
        ids: Ids = ()
        logprobs: list[float] = []
        for uniform in uniforms(*seed, sampling.max_tokens).tolist():
            node = self._node(prompts, ids, sampling, mean)
            choice = bisect.bisect_right(node.cumulative, uniform * node.cumulative[-1])
            choice = min(choice, len(node.support) - 1)
            ids = (*ids, node.support[choice])
            logprobs.append(node.logprobs[choice])
            if ids[-1] == self.tokenizer.eos_token_id:
                return Completion(ids, tuple(logprobs), "stop")
        return Completion(ids, tuple(logprobs), "length")

    def _node(self, prompts: tuple[Ids, ...], prefix: Ids, sampling: SamplingConfig, mean: Mean) -> _Node:
        """The mean policy after a prefix; remembered, because thousands of samples share their first tokens."""
        key = (prompts, prefix, sampling.temperature, sampling.top_p, mean)
        if key not in self._nodes:
            if len(self._nodes) >= _MOST_NODES:
                self._nodes.clear()
            self._nodes[key] = _node([self.law(prompt, prefix) for prompt in prompts], sampling, mean)
        return self._nodes[key]


def _node(laws: Sequence[Mapping[int, float]], sampling: SamplingConfig, mean: Mean) -> _Node:
    support = sorted({token for law in laws for token in law})
    raw_MV = np.array([[law.get(token, 0.0) for token in support] for law in laws])
    raw_V = policy_V = mean_probs(raw_MV, mean)
    if sampling.temperature not in (0.0, 1.0):
        policy_V = mean_probs(_cooled(raw_MV, sampling.temperature), mean)
    cumulative = np.cumsum(_filtered(policy_V, sampling)).tolist()
    return _Node(tuple(support), tuple(cumulative), tuple(_log(probability) for probability in raw_V.tolist()))


def mean_probs(probs_MV: Floats, mean: Mean, *, alpha: float = 0.5) -> Floats:
    """The mean (V) of M distributions (M, V), as `predictor.engines.means` defines it, but without torch.

    EngineError where the geometric mean does not exist because the distributions share no token.
    """
    arithmetic_V: Floats = probs_MV.mean(axis=0)
    if len(probs_MV) == 1 or mean == "arithmetic":
        return arithmetic_V
    with np.errstate(divide="ignore"):
        if mean == "geometric":
            product_V: Floats = np.exp(np.log(probs_MV).mean(axis=0))
            if product_V.sum() == 0.0:
                raise EngineError("the prompts' distributions share no token, so they have no geometric mean")
            product_V /= product_V.sum()
            return product_V
        current_V = arithmetic_V
        for _ in range(_ITERATIONS):
            following_V = np.exp(np.log((1.0 - alpha) * current_V + alpha * probs_MV).mean(axis=0))
            current_V = following_V / following_V.sum()
    return current_V


def _cooled(probs_MV: Floats, temperature: float) -> Floats:
    powers_MV = probs_MV ** (1.0 / temperature)
    cooled_MV: Floats = powers_MV / powers_MV.sum(axis=1, keepdims=True)
    return cooled_MV


def _filtered(probs_V: Floats, sampling: SamplingConfig) -> Floats:
    """The nucleus at `top_p`, or the mode alone at temperature 0; everything else is 0, nothing is renormalised."""
    order_V = np.argsort(-probs_V, kind="stable")
    before_V = np.cumsum(probs_V[order_V]) - probs_V[order_V]
    dropped_V = order_V[1:] if sampling.temperature == 0.0 else order_V[before_V >= sampling.top_p]
    kept_V = probs_V.copy()
    kept_V[dropped_V] = 0.0
    return kept_V


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0.0 else -math.inf
