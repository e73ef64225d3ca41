"""Accuracy without sampling noise: the probability that sampling at temperature 1 gives exactly the right answer.

A completion is right when it is the answer followed by the end-of-sequence token, so its probability is a product of
next-token probabilities that one teacher-forced pass gives. Tests and studies use it as the planted truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

MAX_ROWS_PER_PASS = 512


@torch.inference_mode()
def exact_accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
) -> list[float]:
    """P(answer, then end of sequence | prompt) of each example at temperature 1, from token ids."""
    single = [[prompt] for prompt in prompts]
    return exact_consensus_accuracy(model, tokenizer, single, answers, mean="arithmetic")


@torch.inference_mode()
def exact_consensus_accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[Sequence[int]]],
    answers: Sequence[Sequence[int]],
    *,
    mean: Literal["geometric", "arithmetic"],
) -> list[float]:
    """P(answer, then end of sequence) under the per-token mean of each example's prompts, at temperature 1.

    The geometric mean is normalised at every position. Each example may have its own number of prompts.
    """
    end: int = tokenizer.eos_token_id
    endings = [[*answer, end] for answer in answers]
    rows = [([*prompt], ending) for group, ending in zip(prompts, endings, strict=True) for prompt in group]
    logprobs = _ending_logprobs(model, rows)
    accuracies = []
    for group, ending in zip(prompts, endings, strict=True):
        logprobs_MTV = torch.stack([next(logprobs) for _ in group])
        mean_TV = _mean_logprobs(logprobs_MTV, mean)
        accuracies.append(math.exp(float(mean_TV.gather(1, torch.tensor(ending)[:, None]).sum())))
    return accuracies


def _mean_logprobs(logprobs_MTV: Tensor, mean: Literal["geometric", "arithmetic"]) -> Tensor:
    if mean == "arithmetic":
        return torch.logsumexp(logprobs_MTV, dim=0) - math.log(len(logprobs_MTV))
    return torch.log_softmax(logprobs_MTV.mean(dim=0), dim=-1)


def _ending_logprobs(model: PreTrainedModel, rows: Sequence[tuple[list[int], list[int]]]) -> Iterator[Tensor]:
    """Each row's next-token log-probabilities at the positions that predict its ending, shape (T, V)."""
    for start in range(0, len(rows), MAX_ROWS_PER_PASS):
        chunk = rows[start : start + MAX_ROWS_PER_PASS]
        # Padding goes to the right, where causal attention never looks from a position that counts.
        width = max(len(prompt) + len(ending) for prompt, ending in chunk)
        ids_BT = torch.zeros(len(chunk), width, dtype=torch.long)
        for index, (prompt, ending) in enumerate(chunk):
            ids_BT[index, : len(prompt) + len(ending)] = torch.tensor([*prompt, *ending])
        logits_BTV = model(input_ids=ids_BT.to(model.device), use_cache=False).logits.float().cpu()
        for logits_TV, (prompt, ending) in zip(logits_BTV, chunk, strict=True):
            first = len(prompt) - 1
            yield torch.log_softmax(logits_TV[first : first + len(ending)], dim=-1)
