"""Rows of token ids become padded tensors and packed live positions.

Everything is counted from lengths, never from token ids: a stop token that doubles as padding keeps its loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from predictor.engines.base import Ids


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout to learn from: the same completion ids after the student's and after the teacher's prompt."""

    student_ids: Ids
    teacher_ids: Ids
    completion_ids: Ids

    @property
    def work(self) -> int:
        """Tokens that both forward passes read."""
        return len(self.student_ids) + len(self.teacher_ids) + 2 * len(self.completion_ids)


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows padded on the right, and where in the flattened (B, T) grid completion tokens are predicted."""

    ids_BT: Tensor
    live_N: Tensor


def pad(prompts: Sequence[Ids], completions: Sequence[Ids], device: torch.device) -> Padded:
    """Prompt plus completion of every row; its last C positions predict its C completion tokens, in row order.

    The last completion token is predicted but never read, so it is left out of the input.
    """
    if len(prompts) != len(completions):
        raise AssertionError("every prompt needs its completion")
    inputs = [
        (*prompt, *completion)[:-1] if completion else prompt
        for prompt, completion in zip(prompts, completions, strict=True)
    ]
    width = max((len(row) for row in inputs), default=0)
    ids_BT = torch.tensor([[*row, *[0] * (width - len(row))] for row in inputs], dtype=torch.long, device=device)
    live = [
        index * width + position
        for index, (row, completion) in enumerate(zip(inputs, completions, strict=True))
        for position in range(len(row) - len(completion), len(row))
    ]
    return Padded(ids_BT, torch.tensor(live, dtype=torch.long, device=device))


def micro_batches(rows: Sequence[Row], size: int) -> list[list[Row]]:
    """The fewest groups of at most `size` rows, alike in length and in number; rows without tokens are left out."""
    # Rows of like length share a batch, because at mixed lengths most of the work is padding.
    live = sorted((row for row in rows if row.completion_ids), key=lambda row: row.work, reverse=True)
    count = -(-len(live) // size)
    bounds = [len(live) * index // count for index in range(count + 1)] if count else []
    return [live[start:stop] for start, stop in pairwise(bounds)]
