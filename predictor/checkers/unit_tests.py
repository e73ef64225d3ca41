"""The code checker: hidden tests score, public tests speak, and neither does the other's work."""

from __future__ import annotations

import re
from collections.abc import Sequence

from predictor.checkers.verdicts import verdict
from predictor.errors import HintError
from predictor.fields import lookup_field
from predictor.records import CodeChecker, Example, Verdict
from predictor.sandbox import Limits, Sandbox, run_assert_tests, run_stdin_tests

_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:python|py|python3)?[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


class CodeJudge:
    """Runs the completion's last fenced block (or all of it, without a fence) against the example's `tests`.

    The reason of a wrong verdict, which `feedback` hints show, comes from the public tests alone; a program that passes
    those is told no more than that hidden ones failed.
    """

    name = "code"
    version = "1"

    def __init__(self, config: CodeChecker) -> None:
        self._run = run_assert_tests if config.style == "assert" else run_stdin_tests
        self._public = config.public_tests
        self._limits = Limits(seconds=config.timeout_s, memory_mb=config.memory_mb, processes=config.max_processes)
        self._sandbox = Sandbox(config.python)

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when every hidden test passes; undecided without tests, or when the sandbox says nothing."""
        program = _program(text)
        scored = self._run(self._sandbox, program, example.tests, self._limits)
        if scored.status == "infra":
            return verdict(self, correct=None, reason=f"infra: {scored.message}")
        if scored.status == "pass":
            return verdict(self, correct=True, extracted="pass")
        passed = f"{scored.status}, {scored.num_passed} of {len(example.tests)} hidden tests passed"
        return verdict(self, correct=False, extracted=passed, reason=self._feedback(program, example))

    def _feedback(self, program: str, example: Example) -> str:
        public = _texts(example, self._public)
        if not public:
            return "The program does not pass the hidden tests."
        heard = self._run(self._sandbox, program, public, self._limits)
        if heard.status in ("pass", "infra"):
            return "The program passes the public tests, but not all hidden ones."
        return f"{heard.status}: {heard.message}"


def _program(text: str) -> str:
    blocks = _FENCE.findall(text)
    return str(blocks[-1]) if blocks else text


def _texts(example: Example, field: str) -> Sequence[str]:
    """The texts of an example's list field; none where it has no such field."""
    try:
        value = lookup_field(example, field)
    except HintError:
        return ()
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else ()
