"""Every public fault that this project knows of keeps its test: its number stands in a docstring or comment of one."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
FAULTS = (
    *("F1", "F2", "F4", "F5", "F6", "F9", "F10", "F11", "F13", "F15", "F16", "F17", "F18", "F19", "F20", "F21"),
    *("F23", "F24", "F26", "F27"),
    *(f"S{number}" for number in range(1, 10)),
    *(f"T{number}" for number in range(1, 7)),
)


def test_every_known_fault_is_named_by_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    named = {found.upper() for text in texts for found in re.findall(r"(?<![a-z0-9])[fst]\d{1,2}(?!\d)", text, re.I)}
    assert not [fault for fault in FAULTS if fault not in named]
