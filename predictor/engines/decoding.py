"""The batched sampling loop: every row decodes from the mean of M prompts' distributions; M = 1 is plain sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from predictor.engines.base import Completion, Ids
from predictor.engines.batches import Size
from predictor.engines.means import mean_logprobs
from predictor.engines.noise import uniforms
from predictor.engines.streams import Streams, prefill, unique_prompts
from predictor.records import Mean, SamplingConfig

# Compacting copies the whole cache, so it waits until a quarter of the rows would be saved.
_COMPACT_BELOW = 0.75


@dataclass(frozen=True, slots=True)
class Row:
    """One sample to decode: its prompts, and the names of its noise (request seed, index among n)."""

    prompts: tuple[Ids, ...]
    seed: int
    index: int

    def size(self, max_tokens: int) -> Size:
        """What the row costs in a batch."""
        return Size(len(self.prompts), max(map(len, self.prompts)) + max_tokens)


@dataclass(frozen=True, slots=True)
class Policy:
    """How tokens are drawn from the prompts' distributions."""

    sampling: SamplingConfig
    stop_ids: frozenset[int]
    mean: Mean = "arithmetic"
    alpha: float = 0.5
    """Weight of the teachers in the Jensen-Shannon mean."""

    def logprobs(self, logits_RMV: Tensor) -> tuple[Tensor, Tensor]:
        """Sampling and raw log-probabilities (R, V) of the mean policy.

        The temperature divides each prompt's logits before averaging. At temperature 0 the mean is taken at
        temperature 1 and its mode is decoded, because a mean of one-hot vectors would only count votes.
        """
        raw_RV = mean_logprobs(logits_RMV.log_softmax(dim=-1), self.mean, alpha=self.alpha)
        if self.sampling.temperature in (0.0, 1.0):
            return raw_RV, raw_RV
        cooled_RMV = (logits_RMV / self.sampling.temperature).log_softmax(dim=-1)
        return mean_logprobs(cooled_RMV, self.mean, alpha=self.alpha), raw_RV

    def law(self, logits_RMV: Tensor) -> Tensor:
        """Log-probabilities (R, V) of what `draw` takes at a temperature above 0: nucleus applied and renormalised."""
        sampling_RV, _ = self.logprobs(logits_RMV)
        if self.sampling.top_p == 1.0:
            return sampling_RV
        probs_RV = nucleus(sampling_RV.double().exp(), self.sampling.top_p)
        return (probs_RV / probs_RV.sum(dim=-1, keepdim=True)).log().to(sampling_RV.dtype)

    def draw(self, logprobs_RV: Tensor, uniform_R: Tensor) -> Tensor:
        """Token ids (R): the mode at temperature 0, else the inverse of the distribution function at `uniform_R`."""
        if self.sampling.temperature == 0.0:
            return logprobs_RV.argmax(dim=-1)
        probs_RV = logprobs_RV.double().exp()
        if self.sampling.top_p < 1.0:
            probs_RV = nucleus(probs_RV, self.sampling.top_p)
        # The running sum of a large vocabulary needs float64: a float32 one loses whole tokens near its end.
        total_RV = probs_RV.cumsum(dim=-1)
        target_R = uniform_R * total_RV[:, -1]
        token_R = torch.searchsorted(total_RV, target_R[:, None], right=True)[:, 0]
        return token_R.clamp(max=logprobs_RV.shape[-1] - 1)


def nucleus(probs_RV: Tensor, top_p: float) -> Tensor:
    """The smallest set of most likely tokens whose mass reaches `top_p`, the others set to 0; not renormalised."""
    sorted_RV, order_RV = probs_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(dim=-1) - sorted_RV
    kept_RV = sorted_RV.masked_fill(before_RV >= top_p, 0.0)
    return torch.zeros_like(probs_RV).scatter(-1, order_RV, kept_RV)


@dataclass(slots=True)
class _Batch:
    """Rows in flight: `active_A` are the row numbers whose streams are still in the cache."""

    streams: Streams
    num_prompts: int
    active_A: Tensor
    uniform_RT: Tensor
    ids_RT: Tensor
    logprobs_RT: Tensor
    length_R: Tensor
    """Tokens of a finished row; 0 while it runs."""

    def record(self, step: int, token_A: Tensor, logprob_A: Tensor, stop_ids: Tensor) -> Tensor:
        """Store the tokens of rows that still run, and return which active rows run on (A)."""
        running_A = self.length_R[self.active_A] == 0
        rows = self.active_A[running_A]
        self.ids_RT[rows, step] = token_A[running_A]
        self.logprobs_RT[rows, step] = logprob_A[running_A]
        stopped_A = running_A & torch.isin(token_A, stop_ids)
        self.length_R[self.active_A[stopped_A]] = step + 1
        return running_A & ~stopped_A

    def compact(self, running_A: Tensor, token_A: Tensor) -> Tensor:
        """Drop finished rows from the cache and return the tokens of the rows that stay."""
        index = running_A.nonzero()[:, 0]
        offsets = torch.arange(self.num_prompts, device=index.device)
        self.streams.select((index[:, None] * self.num_prompts + offsets).flatten())
        self.active_A = self.active_A[index]
        return token_A[index]


@torch.no_grad()
def decode_batch(model: Any, rows: Sequence[Row], policy: Policy) -> list[Completion]:
    """One completion for each row; all rows have the same number of prompts.

    A row's completion depends on its own prompts and noise only, up to floating point of the batched products.
    """
    max_tokens = policy.sampling.max_tokens
    batch, logits_SV = _start(model, rows, max_tokens)
    stop_ids = torch.tensor(sorted(policy.stop_ids), dtype=torch.long, device=model.device)
    for step in range(max_tokens):
        logits_AMV = logits_SV.unflatten(0, (-1, batch.num_prompts))
        sampling_AV, raw_AV = policy.logprobs(logits_AMV)
        token_A = policy.draw(sampling_AV, batch.uniform_RT[batch.active_A, step])
        logprob_A = raw_AV.gather(-1, token_A[:, None])[:, 0]
        running_A = batch.record(step, token_A, logprob_A, stop_ids)
        num_running = int(running_A.sum())
        if num_running == 0 or step + 1 == max_tokens:
            break
        if num_running < _COMPACT_BELOW * len(token_A):
            token_A = batch.compact(running_A, token_A)
        token_S = token_A.repeat_interleave(batch.num_prompts)
        logits_SV = batch.streams.extend(token_S[:, None])[:, -1]
    return _completions(batch, max_tokens)


def _start(model: Any, rows: Sequence[Row], max_tokens: int) -> tuple[_Batch, Tensor]:
    """Prefill the distinct prompts once, repeat them for their rows, and lay out noise and results."""
    num_prompts = len(rows[0].prompts)
    prompts, index = unique_prompts([prompt for row in rows for prompt in row.prompts])
    streams, logits_UV = prefill(model, prompts)
    index_S = torch.tensor(index, device=model.device)
    streams.select(index_S)
    noise = np.stack([uniforms(row.seed, row.index, max_tokens) for row in rows])
    ids_RT = torch.zeros((len(rows), max_tokens), dtype=torch.long, device=model.device)
    batch = _Batch(
        streams=streams,
        num_prompts=num_prompts,
        active_A=torch.arange(len(rows), device=model.device),
        uniform_RT=torch.from_numpy(noise).to(model.device),
        ids_RT=ids_RT,
        logprobs_RT=torch.zeros(ids_RT.shape, dtype=torch.float32, device=model.device),
        length_R=torch.zeros(len(rows), dtype=torch.long, device=model.device),
    )
    return batch, logits_UV[index_S]


def _completions(batch: _Batch, max_tokens: int) -> list[Completion]:
    ids, logprobs, lengths = batch.ids_RT.tolist(), batch.logprobs_RT.tolist(), batch.length_R.tolist()
    return [
        Completion(
            ids=tuple(row_ids[: length or max_tokens]),
            logprobs=tuple(row_logprobs[: length or max_tokens]),
            finish_reason="stop" if length else "length",
        )
        for row_ids, row_logprobs, length in zip(ids, logprobs, lengths, strict=True)
    ]
