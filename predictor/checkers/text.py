"""Checkers that compare text with the example's reference answer."""

from __future__ import annotations

import re

from predictor.errors import CheckerError
from predictor.records import ExactChecker, Example, NumericChecker, RegexChecker, Verdict

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")


class ExactJudge:
    """Equality after white space is collapsed (and case folded, when asked)."""

    name = "exact"
    version = "1"

    def __init__(self, config: ExactChecker) -> None:
        self._case_sensitive = config.case_sensitive

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the whole completion is the reference."""
        if example.answer is None:
            return _no_reference(self.name, self.version)
        found, wanted = self._normal(text), self._normal(example.answer)
        reason = "" if found == wanted else f"expected {wanted!r}"
        return Verdict(
            correct=found == wanted,
            extracted=found,
            reason=reason,
            checker=self.name,
            checker_version=self.version,
        )

    def _normal(self, text: str) -> str:
        joined = " ".join(text.split())
        return joined if self._case_sensitive else joined.casefold()


class RegexJudge:
    """The last match of a pattern, compared with the reference."""

    name = "regex"
    version = "1"

    def __init__(self, config: RegexChecker) -> None:
        try:
            self._pattern = re.compile(config.pattern)
        except re.error as error:
            raise CheckerError(
                "the checker's pattern is not a regular expression",
                where="task.checker.pattern",
                found=config.pattern,
                expected=f"a Python regular expression ({error})",
            ) from None

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the last match's first group (or whole match) equals the reference, white space apart."""
        if example.answer is None:
            return _no_reference(self.name, self.version)
        matches = list(self._pattern.finditer(text))
        if not matches:
            return Verdict(correct=False, reason="no match", checker=self.name, checker_version=self.version)
        last = matches[-1]
        found = ((last.group(1) if last.re.groups else last.group(0)) or "").strip()
        wanted = example.answer.strip()
        reason = "" if found == wanted else f"expected {wanted!r}"
        return Verdict(
            correct=found == wanted,
            extracted=found,
            reason=reason,
            checker=self.name,
            checker_version=self.version,
        )


class NumericJudge:
    """The last number in the completion, thousands separators allowed; a percent sign is not interpreted."""

    name = "numeric"
    version = "1"

    def __init__(self, config: NumericChecker) -> None:
        self._tolerance = config.tolerance

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the last number is the reference within the tolerance; undecided without a reference number."""
        wanted = _last_number(example.answer or "")
        if wanted is None:
            return _no_reference(self.name, self.version)
        found = _last_number(text)
        if found is None:
            return Verdict(correct=False, reason="no number", checker=self.name, checker_version=self.version)
        correct = abs(found - wanted) <= self._tolerance
        reason = "" if correct else f"expected {wanted:g}"
        return Verdict(
            correct=correct,
            extracted=f"{found:g}",
            reason=reason,
            checker=self.name,
            checker_version=self.version,
        )


def _last_number(text: str) -> float | None:
    matches = _NUMBER.findall(text)
    return float(matches[-1].replace(",", "")) if matches else None


def _no_reference(name: str, version: str) -> Verdict:
    return Verdict(correct=None, reason="the example has no usable answer", checker=name, checker_version=version)
