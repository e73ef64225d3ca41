"""Reweighted accuracies on laws that are known, against their exact value and their own standard errors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.errors import DataError
from predictor.stats import ScoredExample, reweight

Floats = npt.NDArray[np.float64]


def law(rng: np.random.Generator, size: int, sharpness: float) -> Floats:
    return np.asarray(rng.dirichlet(np.full(size, sharpness)))


def drawn(
    rng: np.random.Generator,
    policy: Floats,
    proposals: list[Floats],
    *,
    rollouts: int = 6,
    unit: str = "e",
    student: float = 0.0,
) -> ScoredExample:
    """Rollouts of each proposal; every third completion is right, from the first on."""
    samples = np.concatenate([rng.choice(len(q), size=rollouts, p=q / q.sum()) for q in proposals])
    distinct, copies = np.unique(samples, return_counts=True)
    with np.errstate(divide="ignore"):
        return ScoredExample(
            unit=unit,
            policy_D=np.log(policy[distinct]),
            without_DG=np.log(policy[distinct])[:, None].repeat(2, axis=1),
            proposals_DQ=np.log(np.stack(proposals, axis=1)[distinct]),
            drawn_Q=np.full(len(proposals), float(rollouts)),
            copies_D=copies.astype(float),
            correct_D=(distinct % 3 == 0).astype(float),
            student=student,
        )


@pytest.mark.parametrize("size", [3, 40, 2000])
def test_the_planted_accuracy_lies_inside_the_interval_at_its_rate(size: int) -> None:
    rng = np.random.default_rng(size)
    truth = [law(rng, size, 0.5) for _ in range(40)]
    sampled = [[law(rng, size, 1.0), 0.5 * p + 0.5 * law(rng, size, 1.0)] for p in truth]
    exact = float(np.mean([p[::3].sum() for p in truth]))
    inside, values = 0, []
    for _ in range(200):
        found = reweight([drawn(rng, p, q, unit=str(e)) for e, (p, q) in enumerate(zip(truth, sampled, strict=True))])
        values.append(found.accuracy.value)
        low, high = found.accuracy.interval(0.95)
        inside += low <= exact <= high
    # Differences between examples are part of the standard error but not of this spread: never under, often over.
    assert inside >= 186
    assert abs(float(np.mean(values)) - exact) < 4 * float(np.std(values)) / math.sqrt(200) + 0.003


def test_a_policy_that_was_sampled_itself_is_its_own_accuracy_with_every_rollout_effective() -> None:
    rng = np.random.default_rng(1)
    laws = [law(rng, 400, 1.0) for _ in range(30)]
    found = reweight([drawn(rng, p, [p], rollouts=10, unit=str(e)) for e, p in enumerate(laws)])
    assert found.effective_rollouts == pytest.approx(300)
    assert found.covered.value == pytest.approx(1.0, abs=4 * found.covered.stderr + 1e-9)


def test_answers_that_are_drawn_again_and_again_count_at_their_exact_share() -> None:
    rng = np.random.default_rng(2)
    policy, proposal = np.array([0.9, 0.1]), np.array([0.4, 0.6])
    found = reweight([drawn(rng, policy, [proposal], rollouts=40, unit=str(e), student=0.4) for e in range(20)])
    assert found.accuracy.value == pytest.approx(0.9, abs=1e-6)
    assert found.gap.value == pytest.approx(0.5, abs=1e-6)


def test_a_policy_that_the_rollouts_never_reach_is_not_covered() -> None:
    rng = np.random.default_rng(3)
    policy, proposal = np.array([0.95, 0.05]), np.array([1e-12, 1.0])
    found = reweight([drawn(rng, policy, [proposal], unit=str(e)) for e in range(20)])
    assert found.covered.value == pytest.approx(0.05, abs=1e-6)


def test_the_hint_part_of_the_error_is_that_of_drawing_hints_again() -> None:
    rng = np.random.default_rng(4)
    num_hints, num_examples = 8, 400
    completions = np.array([0, 1])
    values, parts = [], []
    for _ in range(60):
        examples = []
        for e in range(num_examples):
            hints = rng.uniform(0.1, 0.9, size=num_hints)
            means = [hints.mean(), *(np.delete(hints, [2 * g, 2 * g + 1]).mean() for g in range(4))]
            table = np.log(np.array([[m if y == 0 else 1 - m for m in means] for y in completions]))
            examples.append(
                ScoredExample(
                    str(e), table[:, 0], table[:, 1:], np.log([[0.5], [0.5]]), np.array([60.0]),
                    np.array([30.0, 30.0]), np.array([1.0, 0.0]), 0.5,
                )
            )  # fmt: skip
        found = reweight(examples)
        values.append(found.accuracy.value)
        parts.append(found.stderr_hints)
        assert found.stderr_hints == pytest.approx(found.accuracy.stderr, rel=0.3)
    assert float(np.mean(parts)) == pytest.approx(float(np.std(values)), rel=0.3)


def test_undecided_completions_are_in_no_accuracy_but_cover_their_mass() -> None:
    one = ScoredExample(
        unit="e",
        policy_D=np.log([0.5, 0.3, 0.2]),
        without_DG=np.zeros((3, 0)),
        proposals_DQ=np.log([[0.5], [0.3], [0.2]]),
        drawn_Q=np.array([100.0]),
        copies_D=np.array([50.0, 30.0, 20.0]),
        correct_D=np.array([1.0, 0.0, math.nan]),
        student=0.25,
    )
    found = reweight([one, one])
    assert found.accuracy.value == pytest.approx(0.5 / 0.8)
    assert found.covered.value == pytest.approx(1.0)
    assert math.isnan(found.stderr_hints)


def test_nothing_decided_gives_nothing_known_and_no_examples_are_refused() -> None:
    one = ScoredExample(
        "e", np.zeros(1), np.zeros((1, 2)), np.zeros((1, 1)), np.ones(1), np.ones(1), np.array([math.nan]), 0.0
    )
    assert math.isnan(reweight([one]).gap.value)
    with pytest.raises(DataError, match="at least one example"):
        reweight([])


def test_a_completion_that_the_scored_laws_rule_out_counts_for_nothing() -> None:
    one = ScoredExample(
        unit="e",
        policy_D=np.log([0.5, 0.5]),
        without_DG=np.zeros((2, 0)),
        proposals_DQ=np.array([[math.log(0.5)], [-math.inf]]),
        drawn_Q=np.array([50.0]),
        copies_D=np.array([49.0, 1.0]),
        correct_D=np.array([1.0, 0.0]),
        student=0.0,
    )
    found = reweight([one, one])
    assert found.accuracy.value == pytest.approx(1.0)
    assert found.covered.value == pytest.approx(0.5)


@given(shift=st.floats(-700.0, 0.0), copies=st.integers(1, 5))
def test_long_completions_are_weighted_without_overflow(shift: float, copies: int) -> None:
    one = ScoredExample(
        unit="e",
        policy_D=np.array([shift, shift - 1.0]),
        without_DG=np.zeros((2, 0)),
        proposals_DQ=np.array([[shift], [shift]]),
        drawn_Q=np.array([2.0 * copies]),
        copies_D=np.array([copies, copies], dtype=float),
        correct_D=np.array([1.0, 0.0]),
        student=0.0,
    )
    found = reweight([one])
    assert found.accuracy.value == pytest.approx(1 / (1 + math.exp(-1.0)), rel=1e-6)
    assert 0.0 < found.effective_rollouts <= 2 * copies + 1e-9
