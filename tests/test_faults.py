"""Every public fault of tools like this one has its test, under its number, with the right value."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# The fault itself stands in the docstring of its test: prompts and tokens, losses, engines, teachers, execution.
FAULTS = (
    *("F1", "F2", "F4", "F5", "F6", "F9", "F10"),
    *("F11", "F12b", "F13", "F15", "F16", "F17"),
    *("F18", "F19", "F20", "F21", "F23", "F24", "F26", "F27"),
)
STATISTICS = ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9")
TRAPS = ("T1", "T2", "T3", "T4", "T5", "T6")


@cache
def named() -> dict[str, list[str]]:
    """Fault number to the tests whose docstrings name it; a module's docstring speaks for none of its tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for number in re.findall(r"\b[FST]\d+b?\b", ast.get_docstring(node) or ""):
                    found.setdefault(number, []).append(f"{path.name}::{node.name}")
    return found


@pytest.mark.parametrize("number", [*FAULTS, *STATISTICS, *TRAPS])
def test_a_fault_has_a_test_that_names_it(number: str) -> None:
    assert named().get(number)


def test_no_test_names_a_fault_that_is_not_listed() -> None:
    assert set(named()) <= {*FAULTS, *STATISTICS, *TRAPS}
