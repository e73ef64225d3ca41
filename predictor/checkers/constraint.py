"""The rule checker: does a completion keep a format rule that a system prompt can state?"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from predictor.checkers.patterns import compile_pattern, within_deadline
from predictor.errors import HintError
from predictor.fields import lookup_field
from predictor.records import ConstraintChecker, ConstraintRule, Example, Verdict

Part = tuple[str, Callable[[str], bool]]


class ConstraintJudge:
    """Every part of the rule must hold; the reason names the first one that does not."""

    name = "constraint"
    version = "1"

    def __init__(self, config: ConstraintChecker) -> None:
        self._by = config.by
        rules = {"": config.rule} if config.rule is not None else config.rules
        self._parts = {name: _parts(rule) for name, rule in rules.items()}

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the completion keeps the example's rule.

        Undecided when the example names no known rule, and when a pattern takes too long on this completion.
        """
        try:
            name = "" if self._by is None else str(lookup_field(example, self._by))
        except HintError as error:
            return self._verdict(None, "", error.what)
        if name not in self._parts:
            return self._verdict(None, "", f"no rule named {name!r}")
        stripped = text.strip()
        broken = within_deadline(lambda: self._first_broken(name, stripped))
        if isinstance(broken, TimeoutError):
            return self._verdict(None, stripped[:80], str(broken))
        return self._verdict(not broken, stripped[:80], f"breaks {broken}" if broken else "")

    def _first_broken(self, name: str, text: str) -> str:
        return next((label for label, holds in self._parts[name] if not holds(text)), "")

    def _verdict(self, correct: bool | None, extracted: str, reason: str) -> Verdict:  # noqa: FBT001
        return Verdict(
            correct=correct,
            extracted=extracted,
            reason=reason,
            checker=self.name,
            checker_version=self.version,
        )


def _parts(rule: ConstraintRule) -> list[Part]:
    parts: list[Part] = []
    if rule.one_of:
        allowed = {_without_full_stop(text) for text in rule.one_of}
        parts.append((f"one_of {', '.join(rule.one_of)}", lambda text: _without_full_stop(text) in allowed))
    if rule.min_words is not None:
        low = rule.min_words
        parts.append((f"min_words {low}", lambda text: len(text.split()) >= low))
    if rule.max_words is not None:
        high = rule.max_words
        parts.append((f"max_words {high}", lambda text: 0 < len(text.split()) <= high))
    return parts + _form_parts(rule)


def _form_parts(rule: ConstraintRule) -> list[Part]:
    parts: list[Part] = []
    if rule.case is not None:
        upper = rule.case == "upper"
        parts.append((f"case {rule.case}", lambda text: text.isupper() if upper else text.islower()))
    if rule.prefix is not None:
        prefix = rule.prefix
        parts.append((f"prefix {prefix!r}", lambda text: text.startswith(prefix)))
    if rule.final_line is not None:
        pattern = compile_pattern(rule.final_line, "task.checker, final_line")
        parts.append((f"final_line {rule.final_line!r}", lambda text: _final_line_matches(pattern, text)))
    parts += [(f"forbidden {word!r}", partial(_lacks, word.casefold())) for word in rule.forbidden]
    return parts


def _without_full_stop(text: str) -> str:
    return text.strip().rstrip(".").strip().casefold()


def _lacks(word: str, text: str) -> bool:
    return word not in text.casefold()


def _final_line_matches(pattern: re.Pattern[str], text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and pattern.fullmatch(lines[-1]) is not None
