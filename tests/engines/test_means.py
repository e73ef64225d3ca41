"""The means of distributions against their definitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from predictor.engines.means import mean_logprobs
from predictor.records import Mean

Floats = npt.NDArray[np.float64]


def distributions(seed: int, count: int = 4, size: int = 6, spread: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn((1, count, size), generator=generator, dtype=torch.float64)).log_softmax(dim=-1)


def kl(p: Floats, q: Floats) -> float:
    return float(np.sum(p * (np.log(p) - np.log(q))))


def objective(q: Floats, teachers: Floats, mean: Mean, alpha: float) -> float:
    """The average divergence whose minimiser the mean claims to be."""
    if mean == "arithmetic":
        return float(np.mean([kl(t, q) for t in teachers]))
    if mean == "geometric":
        return float(np.mean([kl(q, t) for t in teachers]))
    mixed = (1 - alpha) * q + alpha * teachers
    return float(np.mean([(1 - alpha) * kl(q, x) + alpha * kl(t, x) for t, x in zip(teachers, mixed, strict=True)]))


def softmax(z: Floats) -> Floats:
    shifted = np.exp(z - z.max())
    return shifted / shifted.sum()


@pytest.mark.parametrize(
    ("mean", "alpha"), [("arithmetic", 0.5), ("geometric", 0.5), ("jsd", 0.2), ("jsd", 0.5), ("jsd", 0.9)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_mean_minimises_the_average_of_its_divergence(mean: Mean, alpha: float, seed: int) -> None:
    logprobs = distributions(seed)
    teachers = logprobs[0].exp().numpy()
    found = mean_logprobs(logprobs, mean, alpha=alpha)[0].exp().numpy()
    best = minimize(lambda z: objective(softmax(z), teachers, mean, alpha), np.zeros(6), method="BFGS", tol=1e-10)
    assert np.allclose(found, softmax(best.x), atol=2e-4)
    assert objective(found, teachers, mean, alpha) <= best.fun + 1e-7


def test_the_jensen_shannon_mean_runs_from_the_arithmetic_to_the_geometric_one() -> None:
    logprobs = distributions(5, spread=1.0)
    ends = {mean: mean_logprobs(logprobs, mean) for mean in ("arithmetic", "geometric")}
    low, high = (mean_logprobs(logprobs, "jsd", alpha=alpha) for alpha in (0.01, 0.99))
    assert float((low.exp() - ends["arithmetic"].exp()).abs().max()) < 0.005
    assert float((high.exp() - ends["geometric"].exp()).abs().max()) < 0.005


@given(seed=st.integers(0, 10_000), mean=st.sampled_from(["arithmetic", "geometric", "jsd"]), count=st.integers(1, 5))
def test_a_mean_is_a_distribution_that_ignores_the_order_of_its_parts(seed: int, mean: Mean, count: int) -> None:
    logprobs = distributions(seed, count=count)
    found = mean_logprobs(logprobs, mean)
    assert float(found.exp().sum()) == pytest.approx(1.0, abs=1e-9)
    assert torch.allclose(found, mean_logprobs(logprobs.flip(1), mean), atol=1e-4)


@pytest.mark.parametrize("mean", ["arithmetic", "geometric", "jsd"])
def test_the_mean_of_equal_distributions_is_that_distribution(mean: Mean) -> None:
    one = distributions(3, count=1).float()
    assert torch.allclose(mean_logprobs(one.expand(-1, 7, -1), mean), one[:, 0], atol=1e-6)
