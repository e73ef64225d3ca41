"""The math checker: exact arithmetic first, math-verify in a worker process for what needs algebra."""

from __future__ import annotations

import re
from fractions import Fraction

from predictor.checkers.answers import Answer, find_answer, plain_answer, without_name
from predictor.checkers.arithmetic import exact_value
from predictor.checkers.patterns import within_deadline
from predictor.checkers.verdicts import verdict
from predictor.checkers.worker import Failed, Worker
from predictor.records import Example, MathChecker, Verdict

_ROUNDING = Fraction(1, 1_000_000)
"""Relative difference within which a decimal equals another number; other numbers are compared exactly."""


class MathJudge:
    """The policy of `predictor.checkers.answers`; what arithmetic decides, math-verify is never asked."""

    name = "math"

    def __init__(self, config: MathChecker) -> None:
        self._boxed_only = config.boxed_only
        symbolic = config.equality == "symbolic"
        self._worker = Worker("math", {}, timeout_s=config.timeout_s) if symbolic else None
        self.version = "1" if self._worker is None else f"1+math-verify {self._worker.version}"

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the final answer equals the reference; undecided without a usable reference or in time."""
        reference = example.answer or ""
        wanted = find_answer(reference, boxed_only=True)[0] or reference.strip()
        if not wanted:
            return verdict(self, correct=None, reason="the example has no usable answer")
        judged = within_deadline(lambda: self._literal(text, wanted))
        if isinstance(judged, TimeoutError):
            return verdict(self, correct=None, reason=str(judged))
        same, written, reason = judged
        if same is None and self._worker is not None:
            return self._symbolic(self._worker, written, wanted)
        correct = bool(same)
        return verdict(
            self, correct=correct, extracted=written, reason="" if correct else reason or f"expected {wanted}"
        )

    def _literal(self, text: str, wanted: str) -> tuple[bool | None, str, str]:
        """Whether the answer is the reference as far as arithmetic can tell, the answer as written, and a reason."""
        written, reason = find_answer(text, boxed_only=self._boxed_only)
        if written is None:
            return False, "", reason
        return same_answer(written, wanted), written, ""

    def _symbolic(self, worker: Worker, written: str, wanted: str) -> Verdict:
        right = plain_answer(wanted)
        answer = plain_answer(without_name(written, wanted))
        said = worker.ask({"reference": right.text, "answer": answer.text})
        if isinstance(said, Failed):
            return verdict(self, correct=None, extracted=written, reason=said.reason)
        if said is None:
            return verdict(self, correct=None, extracted=written, reason="math-verify cannot read the reference")
        return verdict(self, correct=bool(said), extracted=written, reason="" if said else f"expected {wanted}")


def same_answer(written: str, wanted: str) -> bool | None:
    """Whether two answers are equal by their text or by exact arithmetic; None when only algebra could tell."""
    found, right = plain_answer(without_name(written, wanted)), plain_answer(wanted)
    if found.unit and right.unit and found.unit != right.unit:
        return False
    if _compact(found) == _compact(right):
        return True
    values = exact_value(found.text), exact_value(right.text)
    if values[0] is None or values[1] is None:
        return None
    difference = abs(values[0] - values[1])
    return difference == 0 or ("." in found.text + right.text and difference <= _ROUNDING * abs(values[1]))


def _compact(answer: Answer) -> str:
    text = re.sub(r"\\[dtc]frac(?![a-zA-Z])", r"\\frac", answer.text)
    return re.sub(r"\s+|\\left|\\right|\\[,!;:]", "", text)
