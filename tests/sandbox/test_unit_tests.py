"""A suite passes only when every test really ran; zero tests and broken tests say nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from predictor.sandbox import Limits, Sandbox, SuiteResult, run_assert_tests, run_stdin_tests

LIMITS = Limits(seconds=20.0, memory_mb=512, processes=16)
ADD = "def add(a, b):\n    return a + b\n"
SCRIPTS = Path(__file__).parents[2] / "predictor" / "sandbox"


def suite(program: str, *tests: str, seconds: float = 20.0) -> SuiteResult:
    return run_assert_tests(Sandbox(), program, tests, Limits(seconds=seconds, memory_mb=512, processes=16))


def case(given: str, wanted: str) -> str:
    return json.dumps({"input": given, "output": wanted})


def test_a_right_program_passes_all_its_tests() -> None:
    assert suite(ADD, "assert add(1, 2) == 3", "assert add(-1, 1) == 0") == SuiteResult("pass", "", 2)


def test_the_first_failure_is_told_with_its_test() -> None:
    result = suite(ADD, "assert add(1, 2) == 3", "assert add(2, 2) == 5, 'two and two'", "assert False")
    assert (result.status, result.num_passed) == ("wrong", 1)
    assert result.message == "test 2 of 3 failed: assert add(2, 2) == 5, 'two and two'\nAssertionError: two and two"


def test_no_tests_at_all_are_infra_and_not_a_pass() -> None:
    """F27: "all of nothing" is true, and no verdict."""
    assert suite(ADD).status == "infra"
    assert run_stdin_tests(Sandbox(), ADD, [], LIMITS).status == "infra"


def test_a_test_that_is_not_python_is_infra_whatever_the_program() -> None:
    assert suite(ADD, "assert add(1, 2) ==").status == "infra"
    assert suite("syntax error", "assert (").status == "infra"


def test_a_missing_sandbox_is_infra() -> None:
    """F27: an outage is not the program's fault."""
    assert run_assert_tests(Sandbox("/nowhere"), ADD, ["assert True"], LIMITS).status == "infra"
    assert run_stdin_tests(Sandbox("/nowhere"), ADD, [case("", "")], LIMITS).status == "infra"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("def add(a, b:", "wrong"),
        ("raise ValueError('no')", "wrong"),
        ("class E(Exception):\n  def __str__(self): raise self\nraise E", "wrong"),
        ("import sys; sys.exit(0)", "wrong"),
        ("import os; os._exit(0)", "crashed"),
        ("import os; os._exit(1)", "crashed"),
        ("print('report-0: pass'); import os; os._exit(0)", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("x = bytearray(8 << 30)", "memory"),
        ("def f(): return f()\nf()", "wrong"),
        ("\x00", "wrong"),
        ("", "wrong"),
        ("é = 1", "wrong"),
    ],
)
def test_a_program_that_does_not_reach_its_tests_never_passes(program: str, status: str) -> None:
    result = suite(program, "assert add(1, 2) == 3")
    assert result.status == status
    assert result.message


def test_a_hanging_program_and_a_hanging_test_time_out() -> None:
    assert suite("while True: pass", "assert True", seconds=1.0).status == "timeout"
    assert suite("def add(a, b):\n  while True: pass", "assert add(1, 2) == 3", seconds=1.0).status == "timeout"


def test_a_thread_left_running_does_not_keep_a_right_program_from_passing() -> None:
    program = ADD + "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"
    assert suite(program, "assert add(1, 2) == 3").status == "pass"


def test_a_program_can_print_and_read_without_harm() -> None:
    program = ADD + 'print(\'{"status": "wrong"}\' * 1000)\ntry: input()\nexcept EOFError: ended = True'
    assert suite(program, "assert add(1, 2) == 3", "assert ended").status == "pass"


def test_stdin_tests_compare_what_is_printed() -> None:
    program = "print(int(input()) + 1)\n"
    assert run_stdin_tests(Sandbox(), program, [case("1", "2"), case("41\n", "42 \n\n")], LIMITS).status == "pass"
    result = run_stdin_tests(Sandbox(), program, [case("1", "2"), case("2", "4")], LIMITS)
    assert (result.status, result.num_passed) == ("wrong", 1)
    assert result.message == "test 2 of 2: input '2': expected '4', got '3'"


def test_stdin_programs_that_fail_are_told_by_their_last_line() -> None:
    result = run_stdin_tests(Sandbox(), "1 / 0", [case("1", "2")], LIMITS)
    assert result.status == "wrong"
    assert "ZeroDivisionError" in result.message
    assert run_stdin_tests(Sandbox(), "x = bytearray(8 << 30)", [case("", "")], LIMITS).status == "memory"


@pytest.mark.parametrize("test", ["", "[]", "{}", '{"input": 1, "output": "2"}', "[" * 5000])
def test_a_stdin_test_of_another_shape_is_infra(test: str) -> None:
    assert run_stdin_tests(Sandbox(), "pass", [test], LIMITS).status == "infra"


def test_the_scripts_can_be_run_by_hand_too(tmp_path: Path) -> None:
    def script(name: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert json.loads(script("canary").stdout)["own_directory"]
    bounds = json.dumps({"cpu": 5, "memory": 2**31, "file": 2**20, "processes": 10_000})
    assert script("launch", bounds, "echo", "here").stdout == "here\n"
    refused = script("launch", bounds, "/nowhere/program")
    assert (refused.returncode, "cannot start /nowhere/program" in refused.stderr) == (125, True)
    for program, status in ((ADD, "pass"), ("x = (", "wrong"), ("raise MemoryError", "memory")):
        spec = {"token": status, "program": program, "tests": ["assert add(1, 2) == 3"]}
        assert script("harness", text=json.dumps(spec)).returncode == 0
        assert json.loads((tmp_path / f"report-{status}").read_text())["status"] == status
