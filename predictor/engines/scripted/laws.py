"""Closed-form next-token laws: their means, how they are decoded, and completions scored under them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from predictor.engines.base import Ids, Panel, PanelMean, PanelScore, TokenContrast
from predictor.errors import EngineError
from predictor.records import Mean, SamplingConfig

_ITERATIONS: Final = 500
_CONVERGED: Final = 1e-13
# A model's softmax gives every token some probability; without a floor one missing token makes a divergence infinite.
_FLOOR: Final = 1e-9

Law = Callable[[Ids, Ids], Mapping[int, float]]
"""Next-token probabilities by token id, given the prompt's and the completion's ids so far."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Node:
    """A next-token distribution, ready to be drawn from."""

    support: Ids
    cumulative: tuple[float, ...]
    """Running sum of the sampling probabilities."""
    logprobs: tuple[float, ...]
    """Raw log-probabilities."""

    def logprob(self, token: int) -> float:
        """Log-probability that decoding takes the token; minus infinity for one it never takes."""
        if token not in self.support:
            return -math.inf
        place = self.support.index(token)
        before = self.cumulative[place - 1] if place else 0.0
        return log((self.cumulative[place] - before) / self.cumulative[-1])


def node(laws: Sequence[Mapping[int, float]], sampling: SamplingConfig, mean: Mean, alpha: float = 0.5) -> Node:
    """The mean of the laws, as it is decoded."""
    support = sorted({token for law in laws for token in law})
    raw_MV = np.array([[law.get(token, 0.0) for token in support] for law in laws])
    raw_V = policy_V = mean_probs(raw_MV, mean, alpha=alpha)
    if sampling.temperature not in (0.0, 1.0):
        policy_V = mean_probs(_cooled(raw_MV, sampling.temperature), mean, alpha=alpha)
    cumulative = np.cumsum(_filtered(policy_V, sampling)).tolist()
    return Node(tuple(support), tuple(cumulative), tuple(log(probability) for probability in raw_V.tolist()))


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
            following_V /= following_V.sum()
            step = float(np.abs(following_V - current_V).sum())
            current_V = following_V
            if step < _CONVERGED:
                break
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


def log(probability: float) -> float:
    """Natural logarithm; minus infinity for 0."""
    return math.log(probability) if probability > 0.0 else -math.inf


def score_panel(law: Law, panel: Panel, sampling: SamplingConfig, mean: PanelMean) -> PanelScore:
    """The completion's log-probabilities under the panel's mean policies and plain prompts."""
    hints = panel.prompts[: mean.num_hints]
    plain = panel.prompts[mean.num_hints :]
    raw = SamplingConfig(max_tokens=sampling.max_tokens)

    def total(prompts: Sequence[Ids], decoding: SamplingConfig) -> float:
        return _total(law, prompts, panel.completion_ids, (decoding, mean))

    return PanelScore(
        policy=total(hints, sampling),
        without=tuple(total([p for m, p in enumerate(hints) if m not in out], sampling) for out in mean.left_out),
        plain=tuple(total([prompt], sampling) for prompt in plain),
        raw=tuple(total([prompt], raw) for prompt in plain),
    )


def _total(law: Law, prompts: Sequence[Ids], completion: Ids, decoding: tuple[SamplingConfig, PanelMean]) -> float:
    """Sum of the mean policy's log-probabilities, up to the first impossible token."""
    sampling, mean = decoding
    found = 0.0
    for place, token in enumerate(completion):
        following = node([law(prompt, completion[:place]) for prompt in prompts], sampling, mean.mean, mean.alpha)
        found += following.logprob(token)
        if found == -math.inf:
            break
    return found


def contrast_panel(law: Law, panel: Panel, temperature: float) -> TokenContrast:
    """Student against teacher at every token; a token that a law never gives counts with probability 1e-9."""
    student_prompt, teacher_prompt = panel.prompts
    columns = []
    for place, token in enumerate(panel.completion_ids):
        laws = [law(prompt, panel.completion_ids[:place]) for prompt in (student_prompt, teacher_prompt)]
        support = sorted({token, *(known for one in laws for known in one)})
        probs_2V = np.array([[max(one.get(known, 0.0), _FLOOR) for known in support] for one in laws])
        student_V, teacher_V = _cooled(probs_2V, temperature)
        ratio_V, chosen = np.log(teacher_V / student_V), support.index(token)
        columns.append(
            (
                float(teacher_V @ ratio_V),
                float(-student_V @ ratio_V),
                float(student_V.argmax() != teacher_V.argmax()),
                math.log(student_V[chosen]),
                math.log(teacher_V[chosen]),
                float(-student_V @ np.log(student_V)),
                float(-teacher_V @ np.log(teacher_V)),
            )
        )
    return TokenContrast(*zip(*columns, strict=True))
