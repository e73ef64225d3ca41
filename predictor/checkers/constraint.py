"""The rule checker: does a completion keep a format rule that a system prompt can state?"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from predictor.errors import CheckerError
from predictor.fields import lookup_field
from predictor.records import ConstraintChecker, ConstraintRule, Example, Verdict

Part = tuple[str, Callable[[str], bool]]


class ConstraintJudge:
    """Every part of the rule must hold; the reason names the first one that does not."""

    name = "constraint"
    version = "1"

    def __init__(self, config: ConstraintChecker) -> None:
        if (config.rule is None) == (config.by is None):
            raise CheckerError(
                "a constraint checker has either one `rule`, or `by` and `rules`",
                where="task.checker",
                found=f"rule={config.rule is not None}, by={config.by!r}",
                expected="exactly one of them",
            )
        self._by = config.by
        rules = {"": config.rule} if config.rule is not None else config.rules
        self._parts = {name: _parts(rule) for name, rule in rules.items() if rule is not None}

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the completion keeps the example's rule; undecided when the example names no known rule."""
        name = "" if self._by is None else str(lookup_field(example, self._by))
        if name not in self._parts:
            return self._verdict(None, "", f"no rule named {name!r}")
        stripped = text.strip()
        broken = next((label for label, holds in self._parts[name] if not holds(stripped)), "")
        return self._verdict(not broken, stripped[:80], f"breaks {broken}" if broken else "")

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
        allowed = {text.casefold() for text in rule.one_of}
        parts.append((f"one_of {', '.join(rule.one_of)}", lambda text: text.rstrip(".").strip().casefold() in allowed))
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
        pattern = _compiled(rule.final_line)
        parts.append((f"final_line {rule.final_line!r}", lambda text: _final_line_matches(pattern, text)))
    parts += [(f"forbidden {word!r}", partial(_lacks, word.casefold())) for word in rule.forbidden]
    return parts


def _lacks(word: str, text: str) -> bool:
    return word not in text.casefold()


def _final_line_matches(pattern: re.Pattern[str], text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and pattern.fullmatch(lines[-1]) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise CheckerError(
            "final_line is not a regular expression", where="task.checker", found=pattern, expected=str(error)
        ) from None
