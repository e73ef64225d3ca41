"""A program's tests in the sandbox: one status for the suite, and the first failure in words."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from predictor.sandbox.limits import Limits, Program, Ran, Status
from predictor.sandbox.runner import Sandbox
from predictor.sandbox.shield import script

_SHOWN = 300
_STATUSES: dict[str, Status] = {"pass": "pass", "wrong": "wrong", "memory": "memory", "infra": "infra"}


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """How a suite of tests ended."""

    status: Status
    message: str = ""
    """The first failure in words; empty for a pass."""
    num_passed: int = 0
    """Tests passed before the first failure."""


def run_assert_tests(sandbox: Sandbox, program: str, tests: Sequence[str], limits: Limits) -> SuiteResult:
    """Run a Python program and then each test, Python code that raises where it fails, in one process.

    No tests, or a test that is not Python, is `infra`: a suite that checks nothing says nothing.
    """
    if not tests:
        return SuiteResult("infra", "there are no tests")
    token = secrets.token_hex(16)
    spec = json.dumps({"token": token, "program": program, "tests": list(tests)})
    command = ("python", "-I", "-c", script("harness"))
    ran = sandbox.run(Program(command=command, stdin=spec, report=f"report-{token}"), limits)
    report = _parsed(ran.report)
    if report is not None:
        status = _STATUSES.get(str(report.get("status")), "crashed")
        return SuiteResult(status, str(report.get("message", "")), int(report.get("num_passed", 0)))
    if ran.status in ("pass", "wrong"):
        # The exit code is the program's own doing; only the report says that all tests were reached.
        return SuiteResult("crashed", f"the program ended before its tests did{_said(ran)}")
    return SuiteResult(ran.status, f"the program {ran.message}" if ran.status != "infra" else ran.message)


def run_stdin_tests(sandbox: Sandbox, program: str, tests: Sequence[str], limits: Limits) -> SuiteResult:
    """Run a Python program once for each test, JSON with `input` and `output`, and compare what it prints.

    Lines are compared without white space at their ends, and without empty lines at the end. The time limit holds for
    each test.
    """
    if not tests:
        return SuiteResult("infra", "there are no tests")
    cases = [_case(test) for test in tests]
    for number, case in enumerate(cases):
        if case is None:
            return SuiteResult("infra", f"test {number + 1} is not JSON with `input` and `output`")
        result = _run_case(sandbox, program, case, limits)
        if result.status != "pass":
            return SuiteResult(result.status, f"test {number + 1} of {len(tests)}: {result.message}", number)
    return SuiteResult("pass", "", len(tests))


def _run_case(sandbox: Sandbox, program: str, case: tuple[str, str], limits: Limits) -> SuiteResult:
    given, wanted = case
    files = {"program.py": program}
    ran = sandbox.run(Program(command=("python", "-I", "program.py"), files=files, stdin=given), limits)
    if ran.status == "wrong":
        return SuiteResult("wrong", f"input {_short(given)}: the program {ran.message}{_said(ran)}")
    if ran.status != "pass":
        return SuiteResult(ran.status, f"the program {ran.message}" if ran.status != "infra" else ran.message)
    if _lines(ran.output) == _lines(wanted):
        return SuiteResult("pass")
    return SuiteResult("wrong", f"input {_short(given)}: expected {_short(wanted)}, got {_short(ran.output)}")


def _parsed(report: str) -> dict[str, Any] | None:
    try:
        value = json.loads(report)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _case(test: str) -> tuple[str, str] | None:
    value = _parsed(test)
    if value is None or not isinstance(value.get("input"), str) or not isinstance(value.get("output"), str):
        return None
    return value["input"], value["output"]


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _said(ran: Ran) -> str:
    last = ran.output.strip().splitlines()[-1:]
    return f" ({_short(last[0])})" if last else ""


def _short(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")
