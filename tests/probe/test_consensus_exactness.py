"""Both estimators of the consensus gap on the miniature, against values computed without any of their code."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.consensus_exactness import Line, measure_task, reading, report
from benchmarks.exact_consensus import jensen_shannon, mean_policy, oracle, redrawn
from benchmarks.exactness_hints import SHARED
from predictor.engines.means import mean_logprobs
from predictor.engines.models import resolve_model
from predictor.engines.transformers import TransformersEngine
from predictor.records import Example, Mean

MEANS: tuple[Mean, ...] = ("geometric", "arithmetic", "jsd")
SCALE = {"examples": 64, "rollouts": 8, "hints": 5, "decoded": 4}
CHOSEN = ("demo-1", "half-right-random", "half-right-answer", "answer")


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    return TransformersEngine.from_pretrained(resolve_model("miniature/llama-s", Path()))


@pytest.fixture(scope="module", params=MEANS)
def lines(
    request: pytest.FixtureRequest, engine: TransformersEngine, tmp_path_factory: pytest.TempPathFactory
) -> list[Line]:
    hints = tuple(config for config in SHARED if config.name in CHOSEN)
    place = (engine, tmp_path_factory.mktemp(request.param))
    return list(measure_task(("reverse", ("reverse",), hints), request.param, SCALE, place))


def test_stored_rollouts_reweighted_are_within_their_error_of_the_exact_value(lines: list[Line]) -> None:
    kept = [line for line in lines if not line.refused]
    # Answers of rules that nobody has shown are never sampled: such a policy is refused instead of guessed at.
    assert {line.hint for line in lines} - {line.hint for line in kept} <= {"half-right-answer", "half-right-random"}
    errors = {line.hint: abs(line.reweighted - line.exact) for line in kept}
    assert all(errors[line.hint] < 4 * math.hypot(line.reweighted_stderr, 0.005) for line in kept)
    # Two points can be told apart only where the standard error is smaller; with few effective rollouts it is .05.
    assert float(np.mean([errors[line.hint] for line in kept if line.reweighted_stderr < 0.02])) < 0.02
    assert float(np.mean(list(errors.values()))) < 0.03
    assert all("mass" in line.refused for line in lines if line.refused)


def test_decoding_from_the_mean_is_within_its_noise_of_the_exact_value(lines: list[Line]) -> None:
    num_decoded = SCALE["examples"] * SCALE["decoded"]
    noise = [math.sqrt(max(line.exact * (1 - line.exact), 0.01) / num_decoded) for line in lines]
    for line, sd in zip(lines, noise, strict=True):
        assert abs(line.decoded - line.exact) < 4 * sd
    assert abs(float(np.mean([line.decoded - line.exact for line in lines]))) < 4 * float(np.mean(noise)) / 2


def test_the_report_says_how_far_the_estimators_are_off(lines: list[Line]) -> None:
    text = report(lines, ["| some model | 1.000 |"], SCALE, 12.0)
    assert "| reverse | answer | instance |" in text
    assert "Commit" in text
    assert "some model" in text


@given(seed=st.integers(0, 10_000), count=st.integers(2, 5))
def test_the_bisected_jensen_shannon_mean_is_the_iterated_one(seed: int, count: int) -> None:
    logits = 3 * np.random.default_rng(seed).normal(size=(count, 12))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    iterated = mean_logprobs(torch.from_numpy(np.log(probs))[None], "jsd")[0].exp().numpy()
    assert jensen_shannon(probs) == pytest.approx(iterated, abs=1e-4)
    assert mean_policy(probs, "arithmetic") == pytest.approx(probs.mean(axis=0))


def test_a_redrawn_hint_is_about_the_same_question_with_fresh_coins() -> None:
    example = Example(example_id="e", prompt="a b c d", answer="d c b a")
    rules = ("reverse",)
    assert {redrawn("answer", example, rules, draw) for draw in range(9)} == {"answer d c b a"}
    assert {redrawn("half", example, rules, draw) for draw in range(9)} == {"half d c"}
    coins = [redrawn("coin-copy", example, rules, draw) for draw in range(200)]
    assert set(coins) == {"rule reverse", "rule copy"}
    assert 60 < coins.count("rule copy") < 140
    assert len({redrawn("demo", example, rules, draw) for draw in range(9)}) == 9
    either = {redrawn("either-common", example, rules, draw) for draw in range(30)}
    assert either == {"either reverse copy", "either copy reverse"}
    hidden = {redrawn("rule", example, ("reverse", "copy"), draw) for draw in range(30)}
    assert hidden == {"rule reverse", "rule copy"}


def test_redrawn_demonstrations_of_a_shared_rule_are_worth_what_the_seen_ones_are(
    engine: TransformersEngine, lines: list[Line]
) -> None:
    demo = next(line for line in lines if line.hint == "demo-1")
    assert demo.oracle == pytest.approx(demo.exact, abs=0.08)
    answer = next(line for line in lines if line.hint == "answer")
    # A worked answer of the example itself is copied; another example's must be read as a demonstration.
    assert answer.oracle > 0.95
    assert (
        oracle(
            engine,
            ("wrong", 1),
            ("reverse",),
            [Example(example_id="e", prompt="a b c d", answer="d c b a")],
            "geometric",
        )
        < 0.5
    )


def test_reading_demonstrations_is_measured_for_a_model() -> None:
    row = reading("miniature/llama-s", {**SCALE, "examples": 8})
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == "miniature/llama-s"
    assert all(0.0 <= float(cell) <= 1.0 for cell in cells[1:])
    assert len(cells) == 8
