"""Muon: momentum whose direction is orthogonalised, which teaches small models in far fewer steps than AdamW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor, nn

MOMENTUM: Final = 0.95
WEIGHT_DECAY: Final = 0.01
# Brings an orthogonal update to the size of an AdamW update, so that both share a learning rate (Liu et al. 2025).
UPDATE_RMS: Final = 0.2
# Coefficients of the quintic iteration and its number of rounds (Jordan et al. 2024); singular values end near 1.
QUINTIC: Final = (3.4445, -4.7750, 2.0315)
NUM_ROUNDS: Final = 5


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised per matrix; takes matrices only.

    `torch.optim.Muon` iterates in bfloat16, matrix by matrix, which CPUs without bfloat16 arithmetic do slowly. Here
    matrices of one shape are stacked and iterated in float32.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix once; closures are not supported."""
        assert closure is None, "Muon evaluates no closure"
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                by_shape[matrix.shape].append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group["lr"])

    def _update(self, matrices: list[nn.Parameter], lr: float) -> None:
        gradients = torch.stack([matrix.grad for matrix in matrices if matrix.grad is not None])
        state = self.state[matrices[0]]
        momentum = state.setdefault("momentum", torch.zeros_like(gradients))
        momentum.lerp_(gradients, 1 - MOMENTUM)
        directions = orthogonalise(gradients.lerp(momentum, MOMENTUM))
        scale = UPDATE_RMS * max(gradients.shape[1:]) ** 0.5
        for matrix, direction in zip(matrices, directions, strict=True):
            matrix.mul_(1 - lr * WEIGHT_DECAY).add_(direction, alpha=-lr * scale)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Each matrix of a stack with its singular values moved near 1 (0.7 to 1.2) and its singular vectors kept."""
    a, b, c = QUINTIC
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NUM_ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x
