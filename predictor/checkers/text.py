"""Checkers that compare text with the example's reference answer."""

from __future__ import annotations

import math
import re

from predictor.checkers.patterns import compile_pattern, within_deadline
from predictor.records import ExactChecker, Example, NumericChecker, RegexChecker, Verdict

# A sign directly after a word, a number or a closing bracket is an operator: 7 in "10-7", not -7.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]])[-+])?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<![\d.])\.\d+)(?:[eE][-+]?\d+)?"
)
_MINUS_SIGN = "\N{MINUS SIGN}"


class ExactJudge:
    """Equality after white space is collapsed (and case folded, when asked)."""

    name = "exact"
    version = "1"

    def __init__(self, config: ExactChecker) -> None:
        self._case_sensitive = config.case_sensitive

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the whole completion is the reference; undecided without a reference."""
        wanted = self._normal(example.answer or "")
        if not wanted:
            return _no_reference(self.name, self.version)
        return _compared(self._normal(text), wanted, self.name, self.version)

    def _normal(self, text: str) -> str:
        joined = " ".join(text.split())
        return joined if self._case_sensitive else joined.casefold()


class RegexJudge:
    """The last match of a pattern, compared with the reference."""

    name = "regex"
    version = "1"

    def __init__(self, config: RegexChecker) -> None:
        self._pattern = compile_pattern(config.pattern, "task.checker.pattern")

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the last match's first group (or whole match) equals the reference, white space apart.

        Undecided without a reference, and when the pattern takes too long on this completion.
        """
        wanted = (example.answer or "").strip()
        if not wanted:
            return _no_reference(self.name, self.version)
        found = within_deadline(lambda: self._last_match(text))
        if isinstance(found, TimeoutError):
            return Verdict(correct=None, reason=str(found), checker=self.name, checker_version=self.version)
        if found is None:
            return Verdict(correct=False, reason="no match", checker=self.name, checker_version=self.version)
        return _compared(found.strip(), wanted, self.name, self.version)

    def _last_match(self, text: str) -> str | None:
        last = None
        for match in self._pattern.finditer(text):
            last = match
        if last is None:
            return None
        return (last.group(1) if self._pattern.groups else last.group(0)) or ""


class NumericJudge:
    """The last number in the completion, thousands separators allowed; a percent sign is not interpreted."""

    name = "numeric"
    version = "1"

    def __init__(self, config: NumericChecker) -> None:
        self._tolerance = config.tolerance

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the last number is the reference within the tolerance; undecided without a reference number."""
        wanted = _last_number(example.answer or "")
        if wanted is None or not math.isfinite(wanted):
            return _no_reference(self.name, self.version)
        found = _last_number(text)
        if found is None:
            return Verdict(correct=False, reason="no number", checker=self.name, checker_version=self.version)
        correct = abs(found - wanted) <= self._tolerance
        return Verdict(
            correct=correct,
            extracted=f"{found:.15g}",
            reason="" if correct else f"expected {wanted:.15g}",
            checker=self.name,
            checker_version=self.version,
        )


def _last_number(text: str) -> float | None:
    matches = _NUMBER.findall(text.replace(_MINUS_SIGN, "-"))
    return float(matches[-1].replace(",", "")) if matches else None


def _compared(found: str, wanted: str, name: str, version: str) -> Verdict:
    return Verdict(
        correct=found == wanted,
        extracted=found,
        reason="" if found == wanted else f"expected {wanted!r}",
        checker=name,
        checker_version=version,
    )


def _no_reference(name: str, version: str) -> Verdict:
    return Verdict(correct=None, reason="the example has no usable answer", checker=name, checker_version=version)
