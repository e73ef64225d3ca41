"""Means of M next-token distributions: what a hint-free student trained with each divergence converges to.

For weights 1/M, the minimiser q of the average divergence to the teachers T_m is
- forward KL(T_m ‖ q): the arithmetic mean of probabilities;
- reverse KL(q ‖ T_m): the normalised geometric mean;
- JSD with weight alpha: no closed form. Setting the derivative of
  mean_m [(1-alpha)·KL(q ‖ X_m) + alpha·KL(T_m ‖ X_m)], X_m = (1-alpha)·q + alpha·T_m, to a constant gives
  log q = mean_m log X_m + const. Iterating q ← normalise(exp(mean_m log X_m)) is mirror descent with step
  1/(1-alpha), and the objective is (1-alpha)-smooth relative to the negative entropy, so it falls at every
  iteration. alpha → 0 gives the arithmetic mean and alpha → 1 the geometric one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from predictor.records import Mean

_MAX_ITERATIONS = 200
_TOLERANCE = 1e-5


def mean_logprobs(logprobs_RMV: Tensor, mean: Mean, *, alpha: float = 0.5) -> Tensor:
    """Log-probabilities (R, V) of the mean of M distributions (R, M, V) given as normalised log-probabilities."""
    count = logprobs_RMV.shape[1]
    if count == 1:
        return logprobs_RMV[:, 0]
    if mean == "arithmetic":
        return logprobs_RMV.logsumexp(dim=1) - math.log(count)
    if mean == "geometric":
        return logprobs_RMV.mean(dim=1).log_softmax(dim=-1)
    return _jensen_shannon_mean(logprobs_RMV, alpha)


def _jensen_shannon_mean(logprobs_RMV: Tensor, alpha: float) -> Tensor:
    """The fixed point of the module docstring, until an iteration moves less than 1e-5 of probability."""
    weighted_RMV = logprobs_RMV + math.log(alpha)
    current_RV = mean_logprobs(logprobs_RMV, "arithmetic")
    for _ in range(_MAX_ITERATIONS):
        mixed_RMV = torch.logaddexp(current_RV.unsqueeze(1) + math.log1p(-alpha), weighted_RMV)
        following_RV = mixed_RMV.mean(dim=1).log_softmax(dim=-1)
        step = (following_RV.exp() - current_RV.exp()).abs().sum(dim=-1).max()
        current_RV = following_RV
        if float(step) < _TOLERANCE:
            break
    return current_RV
