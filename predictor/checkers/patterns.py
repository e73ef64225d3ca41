"""Regular expressions from a study file, which may be wrong, or take for ever on some completion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from predictor.errors import CheckerError
from predictor.fields import cpu_deadline

_LONGEST_SECONDS = 0.5
Result = TypeVar("Result")


def compile_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """The compiled pattern; CheckerError when Python cannot compile it."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise CheckerError(
            "the checker's pattern is not a regular expression",
            where=where,
            found=pattern[:200],
            expected=f"a Python regular expression ({error})",
        ) from None


def within_deadline(match: Callable[[], Result]) -> Result | TimeoutError:
    """The result of matching, or the TimeoutError (as a value) of a pattern that backtracks without end."""
    try:
        with cpu_deadline(_LONGEST_SECONDS):
            return match()
    except TimeoutError:
        return TimeoutError(f"the pattern took more than {_LONGEST_SECONDS:g} s on this completion")
