"""The engine protocol: token ids in, token ids and log-probabilities out.

Every engine samples n completions for a request, scores given completions, and swaps its weights with proof.
Log-probabilities are raw everywhere: the model's own at temperature 1, before any filtering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from predictor.errors import EngineError, PromptError
from predictor.records import FinishReason, Mean, SamplingConfig

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """n samples of one prompt; `seed` comes from names, so that no two requests share their noise."""

    request_id: str
    prompt_ids: Ids
    n: int
    seed: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One sample: its ids (with the stop token, when one was sampled) and their raw log-probabilities.

    EngineError when there is not one log-probability for each id: cutting the longer one would shift every token.
    """

    ids: Ids
    logprobs: tuple[float, ...]
    finish_reason: FinishReason

    def __post_init__(self) -> None:
        check_aligned(self.ids, self.logprobs, where="a sampled completion")


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A completion to be scored after a prompt."""

    prompt_ids: Ids
    completion_ids: Ids


@dataclass(frozen=True, slots=True)
class ConsensusRequest:
    """n samples of the mean policy of several prompts: at every token their distributions are averaged."""

    request_id: str
    prompts: tuple[Ids, ...]
    """The same question under M hints."""
    n: int
    seed: int


@dataclass(frozen=True, slots=True)
class Panel:
    """A completion to be scored after several prompts at once: the hinted ones first, then plain ones."""

    prompts: tuple[Ids, ...]
    completion_ids: Ids


@dataclass(frozen=True, slots=True)
class PanelMean:
    """Which of a panel's prompts are averaged, and how."""

    num_hints: int
    """The first so many prompts form the mean policy."""
    mean: Mean
    alpha: float = 0.5
    """Weight of the teachers in the `jsd` mean."""
    left_out: tuple[tuple[int, ...], ...] = ()
    """Sets of hints without which the mean policy is scored again (for a jackknife over hints)."""


@dataclass(frozen=True, slots=True)
class PanelScore:
    """Log-probabilities of a whole completion, as decoded: temperature and `top_p` applied, in nats."""

    policy: float
    """Under the mean policy; minus infinity where `top_p` cuts one of its tokens."""
    without: tuple[float, ...]
    """Under the mean policy without each set of `left_out`."""
    plain: tuple[float, ...]
    """Under each prompt that follows the hinted ones."""
    raw: tuple[float, ...]
    """The same at temperature 1 without filtering, as engines record it."""


@dataclass(frozen=True, slots=True)
class TokenContrast:
    """Student and teacher at every token of one completion, full vocabulary, in nats; all of length T."""

    forward_kl: tuple[float, ...]
    """KL(teacher‖student)."""
    reverse_kl: tuple[float, ...]
    """KL(student‖teacher)."""
    disagrees: tuple[float, ...]
    """1 where their most likely tokens differ."""
    student_logprob: tuple[float, ...]
    teacher_logprob: tuple[float, ...]
    """Log-probability of the completion's token."""
    student_entropy: tuple[float, ...]
    teacher_entropy: tuple[float, ...]


OnDone = Callable[[Request, list[Completion]], None]


class Engine(Protocol):
    """What the probe, the recorder and the contract tests ask of an engine."""

    name: str
    version: str
    reason: str
    """Why this engine was chosen, in one sentence."""
    max_model_len: int
    """Longest prompt plus completion, in tokens."""
    tokenizer: Any
    """The model's Hugging Face tokenizer."""

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order; `on_done` is called as each request finishes."""
        ...

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """Raw log-probability of every completion token after its prompt; one tuple for each request."""
        ...

    def update_weights(self, model_dir: Path) -> None:
        """Serve the weights in `model_dir` from now on; raises EngineError unless a canary proves it."""
        ...

    def release(self) -> None:
        """Give back the accelerator's memory until the next call, which takes it again: a training comes in between."""
        ...

    def close(self) -> None:
        """Give back memory; the engine cannot be used afterwards."""
        ...


@runtime_checkable
class ConsensusEngine(Engine, Protocol):
    """An engine that sees whole next-token distributions: it decodes from their mean, and scores under it."""

    def generate_consensus(
        self, requests: Sequence[ConsensusRequest], sampling: SamplingConfig, mean: Mean, *, alpha: float = 0.5
    ) -> list[list[Completion]]:
        """n completions of each request's mean policy, in order; log-probabilities are the mean policy's own.

        The temperature applies to each prompt's distribution before averaging, because the mean is one of the
        policies that the teachers sample from; `top_p` applies to the mean, because it is a decoding filter.
        `alpha` weighs the teachers in the `jsd` mean.
        """
        ...

    def score_panels(self, panels: Sequence[Panel], sampling: SamplingConfig, mean: PanelMean) -> list[PanelScore]:
        """Each completion under the mean of its panel's hinted prompts and under its plain prompts, in order.

        ValueError at temperature 0, where the laws are point masses.
        """
        ...

    def contrast(self, panels: Sequence[Panel], temperature: float) -> list[TokenContrast]:
        """Student (first prompt) against teacher (second prompt) at every token of each completion, in order."""
        ...


def check_lengths(requests: Sequence[Request | ConsensusRequest], sampling: SamplingConfig, max_model_len: int) -> None:
    """Raise PromptError for the first request whose prompt leaves no room for `max_tokens`; nothing is cut."""
    for request in requests:
        longest = max(map(len, request.prompts if isinstance(request, ConsensusRequest) else (request.prompt_ids,)))
        if longest + sampling.max_tokens > max_model_len:
            raise PromptError(
                "a prompt does not fit the model's context",
                where=f"request {request.request_id}",
                found=f"{longest} prompt tokens + sampling.max_tokens {sampling.max_tokens}",
                expected=f"at most {max_model_len} tokens",
                fix="lower sampling.max_tokens, shorten the hint, or drop the example; nothing is cut silently",
            )


def check_aligned(ids: Ids, values: Sequence[float], *, where: str) -> None:
    """EngineError unless there is one value for each token id."""
    if len(ids) != len(values):
        raise EngineError(
            "an engine's numbers do not belong to its tokens",
            where=where,
            found=f"{len(values)} numbers for {len(ids)} token ids",
            expected="one for each id, in order",
            fix="use another engine (model.engine) or another version of it",
        )


def check_panels(panels: Sequence[Panel], max_model_len: int) -> None:
    """PromptError for the first panel whose completion does not fit behind one of its prompts."""
    check_scores([ScoreRequest(prompt, p.completion_ids) for p in panels for prompt in p.prompts], max_model_len)


def check_scores(requests: Sequence[ScoreRequest], max_model_len: int) -> None:
    """Raise PromptError for the first completion that does not fit behind its prompt, or an empty prompt."""
    for index, request in enumerate(requests):
        length = len(request.prompt_ids) + len(request.completion_ids)
        if not request.prompt_ids or length > max_model_len:
            raise PromptError(
                "a completion cannot be scored after its prompt",
                where=f"score request {index}",
                found=f"{len(request.prompt_ids)} prompt tokens + {len(request.completion_ids)} completion tokens",
                expected=f"at least one prompt token and at most {max_model_len} tokens together",
                fix="raise the engine's max_model_len up to what the model supports, or drop the rollout",
            )
