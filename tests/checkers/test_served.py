"""Checkers in a worker process: other people's code may do anything, and an outage is never a verdict."""

from __future__ import annotations

import gc
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from predictor.checkers import build_checker
from predictor.checkers.served import FunctionJudge
from predictor.errors import CheckerError
from predictor.records import Example, FunctionChecker, HttpChecker, Message, ReasoningGymChecker, Verdict

EXAMPLE = Example(example_id="e", prompt="q", answer="4")


def by_function(text: str, example: Example = EXAMPLE, **config: Any) -> Verdict:
    return build_checker(FunctionChecker(**({"function": "rewards:score", "timeout_s": 30.0} | config))).check(
        text, example
    )


def by_http(url: str, text: str = "so 4", **config: Any) -> Verdict:
    return build_checker(HttpChecker(**({"url": url, "timeout_s": 30.0} | config))).check(text, EXAMPLE)


def test_a_reward_from_the_threshold_on_is_correct() -> None:
    assert by_function("4").correct is True
    assert (by_function("half").correct, by_function("half").reason) == (False, "scored 0.5")
    assert by_function("half", threshold=0.5).correct is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise", "the checker raised ValueError: a bug"),
        ("exit", "the checker raised SystemExit: 0"),
        ("nothing", "the reward does not apply to this example"),
        ("text", "the checker raised ValueError: could not convert string to float: 'high'"),
        ("nan", "the checker raised ValueError: the reward is nan"),
        ("two", "the checker raised ValueError: returned 2 rewards for one completion"),
    ],
)
def test_whatever_a_function_does_instead_of_rewarding_is_undecided(text: str, reason: str) -> None:
    verdict = by_function(text)
    assert (verdict.correct, verdict.reason) == (None, reason)


def test_a_function_that_hangs_is_undecided_in_time_and_the_next_one_is_judged() -> None:
    checker = build_checker(FunctionChecker(function="rewards:score", timeout_s=2.0))
    started = time.monotonic()
    assert checker.check("hang", EXAMPLE).reason == "the checker took more than 2 s"
    assert time.monotonic() - started < 60.0
    patient = build_checker(FunctionChecker(function="rewards:score", timeout_s=60.0))
    assert patient.check("flood", EXAMPLE).correct is False
    assert patient.check("4", EXAMPLE).correct is True


def test_a_conversation_is_handed_over_as_trl_does() -> None:
    asked = Example(example_id="e", messages=(Message(role="user", content="q"),), answer="4")
    assert by_function("4", asked).correct is True


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("no_such_module:score", "the module `no_such_module` cannot be imported"),
        ("broken_rewards:score", "the module `broken_rewards` cannot be imported"),
        ("rewards:nothing", "`rewards` has no function `nothing`"),
        ("rewards:not_callable", "`rewards` has no function `not_callable`"),
    ],
)
def test_a_function_that_is_not_there_is_one_clear_error(function: str, what: str) -> None:
    with pytest.raises(CheckerError) as caught:
        build_checker(FunctionChecker(function=function))
    assert caught.value.what == what
    assert caught.value.where == "task.checker.function"


def test_the_version_changes_with_the_functions_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    versions = set()
    for value in (0, 1):
        (tmp_path / "own_rewards.py").write_text(f"def score(**columns):\n    return [{value}]\n")
        judge = FunctionJudge(FunctionChecker(function="own_rewards:score"))
        versions.add(judge.version)
        assert judge.check("x", EXAMPLE).correct is bool(value)
    assert len(versions) == 2


def test_a_checker_that_is_dropped_leaves_no_process() -> None:
    checker = FunctionJudge(FunctionChecker(function="rewards:score"))
    process = checker._worker._process
    assert process is not None
    del checker
    gc.collect()
    assert process.returncode is not None


def test_reasoning_gym_counts_a_full_score_only() -> None:
    """Partial credit, which nonsense can earn, is never correct."""
    checker = build_checker(ReasoningGymChecker(timeout_s=30.0))
    example = Example(example_id="e", prompt="q", answer="nus", metadata={"source_dataset": "spell_backward"})
    assert checker.check("<answer>usn</answer>", example).reason == "scored 0.2"
    assert checker.check("nonsense", example).reason == "scored 0.01"
    assert checker.check("<answer>x</answer> no, <answer> nus </answer>", example).correct is True
    assert checker.check("raise", example).correct is None
    unknown = Example(example_id="e", prompt="q", answer="nus", metadata={"source_dataset": "other"})
    assert checker.check("nus", unknown).reason == "the checker raised ValueError: Dataset 'other' not registered"


def test_a_reasoning_gym_task_that_does_not_exist_is_one_clear_error() -> None:
    with pytest.raises(CheckerError, match="no such task") as caught:
        build_checker(ReasoningGymChecker(dataset="nonsense"))
    assert (caught.value.where, caught.value.found) == ("task.checker.dataset", "nonsense")


def test_a_server_is_believed_when_it_answers_as_agreed(reward_server: str) -> None:
    assert by_http(f"{reward_server}/right").correct is True
    assert by_http(f"{reward_server}/right", "so 5").correct is False
    assert by_http(f"{reward_server}/reward").reason == "scored 0.9"
    assert by_http(f"{reward_server}/reward", threshold=0.5).correct is True
    assert by_http(f"{reward_server}/unsure").correct is None


@pytest.mark.parametrize("path", ["error", "elsewhere", "nonsense", "text"])
def test_a_server_that_answers_otherwise_is_an_outage(reward_server: str, path: str) -> None:
    verdict = by_http(f"{reward_server}/{path}")
    assert verdict.correct is None
    assert verdict.reason.startswith("infra: the checker raised ")


def test_a_server_that_never_finishes_meets_the_deadline(reward_server: str) -> None:
    started = time.monotonic()
    verdict = by_http(f"{reward_server}/drip", timeout_s=1.5)
    assert (verdict.correct, verdict.reason) == (None, "infra: the checker took more than 1.5 s")
    assert time.monotonic() - started < 60.0


def test_no_server_at_all_is_an_outage() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        verdict = by_http(f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert verdict.correct is None
    assert "URLError" in verdict.reason
