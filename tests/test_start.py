"""Starting is light: no deep-learning library is loaded by `import predictor`, and help comes at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "vllm")
TRIES = 5


def run_plainly(*command: str) -> subprocess.CompletedProcess[str]:
    """The command as a user would start it: without the tests' coverage measurement."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)


def seconds_at_best(*command: str) -> float:
    """Least processor time of a few starts: that of one thread alone, which other tests on the cores cannot stretch."""
    return min(processor_seconds(*command) for _ in range(TRIES))


def processor_seconds(*command: str) -> float:
    """User and system time of one start; a start that waits for nothing takes as long on a quiet machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_plainly(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    "module",
    ["predictor", "predictor.records", "predictor.cli", "predictor.law", "predictor.forecast", "predictor.planner"],
)
def test_importing_loads_no_deep_learning_library(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run_plainly(sys.executable, "-c", code).stdout.strip() == "[]"


def test_importing_predictor_takes_less_than_a_second() -> None:
    assert seconds_at_best(sys.executable, "-c", "import predictor") < 1.0


def test_help_of_the_command_takes_less_than_half_a_second() -> None:
    gapcast = Path(sys.executable).with_name("gapcast")
    assert "probe" in run_plainly(str(gapcast), "--help").stdout
    assert seconds_at_best(str(gapcast), "--help") < 0.5
