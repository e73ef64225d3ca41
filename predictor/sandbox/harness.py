"""Runs inside the sandbox: a program, then its tests one by one; leaves a report that only knows what really ran.

Started as text with nothing but the standard library. Standard input brings `{"token", "program", "tests"}`; the report
goes to the file `report-<token>`, so that a program that ends early, or prints what it likes, passes nothing.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any

_LONGEST = 2_000


def main() -> int:
    """Never returns: threads that the program left running must not keep the process alive."""
    spec = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    report = _run(spec["program"], spec["tests"])
    with open(f"report-{spec['token']}", "w", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
        json.dump(report, stream)
    os._exit(0)


def _run(program: str, tests: list[str]) -> dict[str, Any]:
    """Status, message, and how many tests passed before the first that did not."""
    try:
        compiled = [compile(test, f"<test {number}>", "exec") for number, test in enumerate(tests, start=1)]
    except (SyntaxError, ValueError) as error:
        return _report("infra", f"a test is not valid Python: {error}")
    module = types.ModuleType("program")
    sys.modules["program"] = module
    names = module.__dict__
    failed = _failure(lambda: exec(compile(program, "<program>", "exec"), names))
    if failed is not None:
        return _report(*failed)
    for number, (test, code) in enumerate(zip(tests, compiled, strict=True)):
        failed = _failure(lambda code=code: exec(code, names))
        if failed is not None:
            return _report(failed[0], f"test {number + 1} of {len(tests)} failed: {test.strip()}\n{failed[1]}", number)
    return _report("pass", "", len(tests))


def _failure(call: Any) -> tuple[str, str] | None:
    try:
        call()
    except MemoryError:
        return "memory", "MemoryError"
    except BaseException as error:  # noqa: BLE001  # supervised: whatever a program raises is its result
        return "wrong", _named(error)
    return None


def _named(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except BaseException:  # noqa: BLE001  # supervised: the program wrote the exception's __str__
        return type(error).__name__


def _report(status: str, message: str, num_passed: int = 0) -> dict[str, Any]:
    return {"status": status, "message": message[:_LONGEST], "num_passed": num_passed}


if __name__ == "__main__":
    sys.exit(main())
