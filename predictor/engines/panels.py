"""Completions under several prompts at once, from whole next-token distributions that live one block at a time.

A panel's prompts are prefilled once each, then its completion is fed to all of them in blocks of positions; every block
of logits is reduced to a few numbers for each token before the next one is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from predictor.engines.base import Panel, PanelMean, PanelScore, TokenContrast
from predictor.engines.batches import Limits, Size, plan_batches
from predictor.engines.decoding import Policy
from predictor.engines.streams import prefill, unique_prompts
from predictor.records import SamplingConfig

Reduce = Callable[[Tensor, Tensor], Tensor]
"""Logits (N, P, V) of N positions under P prompts, and the N tokens there, to K numbers for each (N, K)."""


def score_panels(
    model: Any, panels: Sequence[Panel], limits: Limits, law: tuple[SamplingConfig, PanelMean]
) -> list[PanelScore]:
    """Log-probabilities of each completion under the mean of its first prompts and under each of the others."""
    sampling, mean = law
    if sampling.temperature == 0.0:
        raise ValueError("at temperature 0 the laws are point masses")
    rows = reduced_tokens(model, panels, limits, _scorer(sampling, mean))
    sums = [values_TK.double().sum(dim=0).tolist() for values_TK in rows]
    found = []
    for panel, row in zip(panels, sums, strict=True):
        plain = 1 + len(mean.left_out)
        raw = plain + len(panel.prompts) - mean.num_hints
        found.append(PanelScore(row[0], tuple(row[1:plain]), tuple(row[plain:raw]), tuple(row[raw:])))
    return found


def contrast_panels(model: Any, panels: Sequence[Panel], limits: Limits, temperature: float) -> list[TokenContrast]:
    """Divergences and log-probabilities of first against second prompt, from softmax(logits / temperature)."""

    def reduce(logits_NPV: Tensor, ids_N: Tensor) -> Tensor:
        return _contrast((logits_NPV / temperature).log_softmax(dim=-1), ids_N)

    rows = reduced_tokens(model, panels, limits, reduce)
    return [TokenContrast(*(tuple(column) for column in row.T.tolist())) for row in rows]


def _scorer(sampling: SamplingConfig, mean: PanelMean) -> Reduce:
    policy = Policy(sampling, frozenset(), mean.mean, mean.alpha)
    hints = range(mean.num_hints)
    kept = [list(hints), *([m for m in hints if m not in out] for out in mean.left_out)]

    def reduce(logits_NPV: Tensor, ids_N: Tensor) -> Tensor:
        def picked(logprobs_NV: Tensor) -> Tensor:
            return logprobs_NV.gather(-1, ids_N[:, None])[:, 0]

        plain = [logits_NPV[:, p : p + 1] for p in range(mean.num_hints, logits_NPV.shape[1])]
        means = [picked(policy.law(logits_NPV[:, prompts])) for prompts in kept]
        decoded = [picked(policy.law(logits_N1V)) for logits_N1V in plain]
        raw = [picked(logits_N1V[:, 0].log_softmax(dim=-1)) for logits_N1V in plain]
        return torch.stack([*means, *decoded, *raw], dim=-1)

    return reduce


def _contrast(logprobs_NPV: Tensor, ids_N: Tensor) -> Tensor:
    """The seven numbers of a TokenContrast for each token (N, 7)."""
    student_NV, teacher_NV = logprobs_NPV[:, 0], logprobs_NPV[:, 1]
    student_probs_NV, teacher_probs_NV = student_NV.exp(), teacher_NV.exp()
    difference_NV = teacher_NV - student_NV
    columns = [
        (teacher_probs_NV * difference_NV).sum(dim=-1),
        -(student_probs_NV * difference_NV).sum(dim=-1),
        (student_NV.argmax(dim=-1) != teacher_NV.argmax(dim=-1)).to(student_NV.dtype),
        student_NV.gather(-1, ids_N[:, None])[:, 0],
        teacher_NV.gather(-1, ids_N[:, None])[:, 0],
        -(student_probs_NV * student_NV).sum(dim=-1),
        -(teacher_probs_NV * teacher_NV).sum(dim=-1),
    ]
    return torch.stack(columns, dim=-1)


@torch.no_grad()
def reduced_tokens(model: Any, panels: Sequence[Panel], limits: Limits, reduce: Reduce) -> list[Tensor]:
    """The reduced numbers (T, K) of each panel's tokens, on the CPU, in order; all panels have as many prompts."""
    rows: list[Tensor] = [torch.empty(0)] * len(panels)
    sizes = [Size(len(p.prompts), max(map(len, p.prompts)) + len(p.completion_ids)) for p in panels]
    for batch in plan_batches(sizes, limits):
        for index, row in zip(batch, _batch(model, [panels[i] for i in batch], limits, reduce), strict=True):
            rows[index] = row
    return rows


def _batch(model: Any, panels: Sequence[Panel], limits: Limits, reduce: Reduce) -> list[Tensor]:
    """Prefill distinct prompts once, then feed the completions in blocks; the last token is never fed."""
    num_prompts = len(panels[0].prompts)
    prompts, index = unique_prompts([prompt for panel in panels for prompt in panel.prompts])
    streams, logits_UV = prefill(model, prompts)
    index_S = torch.tensor(index, device=model.device)
    streams.select(index_S)
    lengths = [len(panel.completion_ids) for panel in panels]
    ids_RT = torch.zeros((len(panels), max(lengths)), dtype=torch.long)
    for row, panel in enumerate(panels):
        ids_RT[row, : lengths[row]] = torch.tensor(panel.completion_ids)
    ids_RT = ids_RT.to(model.device)
    counts_S = torch.tensor(lengths, device=model.device).repeat_interleave(num_prompts)
    reduced = [reduce(logits_UV[index_S].unflatten(0, (-1, num_prompts)), ids_RT[:, 0])[:, None]]
    block = max(1, limits.logit_rows // len(index))
    for start in range(0, max(lengths) - 1, block):
        end = min(start + block, max(lengths) - 1)
        live_S = (counts_S - start).clamp(0, end - start)
        logits_STV = streams.extend(ids_RT[:, start:end].repeat_interleave(num_prompts, dim=0), live_S)
        logits_NPV = logits_STV.unflatten(0, (-1, num_prompts)).transpose(1, 2).flatten(0, 1)
        values_NK = reduce(logits_NPV, ids_RT[:, start + 1 : end + 1].flatten())
        reduced.append(values_NK.unflatten(0, (len(panels), end - start)))
    values_RTK = torch.cat(reduced, dim=1).cpu()
    return [values_TK[:length] for values_TK, length in zip(values_RTK, lengths, strict=True)]
