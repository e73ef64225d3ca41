"""What can go wrong, as a tree; every message says what, where, found, expected and what to do.

- GapcastError                 exit 1: the work failed
    - InputError               exit 2: the caller must change something (also a ValueError)
        - StudyError           study.yaml or the study directory
        - DataError            task rows
        - HintError            a hint config that cannot be built for an example
        - CheckerError         an unknown or misconfigured checker
        - ModelError           a model directory that cannot be used
        - PromptError          a prompt that cannot be rendered or does not fit
        - LawError             records the law cannot be fitted on
    - EngineError              the inference engine failed or disagrees with itself
    - StoreError               files that cannot be written or do not match their checksum (also an OSError)
    - RunError                 a training run failed
    - BudgetError              exit 4: the budget is spent; finished work is kept
"""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """The text with control characters shown as escapes, so that no completion or file can drive a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class GapcastError(Exception):
    """Base of every error a user can meet; carries the parts of its message and an exit code."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", found: str = "", expected: str = "", fix: str = "") -> None:
        self.what, self.where, self.found, self.expected, self.fix = what, where, found, expected, fix
        super().__init__(what)

    def __str__(self) -> str:
        """One sentence, then one line for each part that is known; what it quotes is made printable."""
        parts = (("where", self.where), ("found", self.found), ("expected", self.expected), ("do", self.fix))
        return printable("\n".join([self.what, *(f"  {label}: {text}" for label, text in parts if text)]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Picklable in spite of keyword-only parts, because workers send errors across processes."""
        return _rebuild, (type(self), self.what, self.where, self.found, self.expected, self.fix)


def _rebuild(kind: type[GapcastError], what: str, where: str, found: str, expected: str, fix: str) -> GapcastError:
    return kind(what, where=where, found=found, expected=expected, fix=fix)


class InputError(GapcastError, ValueError):
    """The caller's input must change."""

    exit_code = 2


class StudyError(InputError):
    """study.yaml or the study directory cannot be used as it stands."""


class DataError(InputError):
    """Task rows are missing, malformed or contradict each other."""


class HintError(InputError):
    """A hint cannot be built for an example."""


class CheckerError(InputError):
    """A checker is unknown or misconfigured."""


class ModelError(InputError):
    """A model directory lacks something, or cannot be served here."""


class PromptError(InputError):
    """A prompt cannot be rendered or does not fit the model's context."""


class LawError(InputError):
    """The law cannot be fitted on, or applied to, these records."""


class EngineError(GapcastError, RuntimeError):
    """The inference engine failed, or an update of its weights was not proven."""


class StoreError(GapcastError, OSError):
    """A file cannot be written, or its content does not match its checksum."""

    def __str__(self) -> str:
        """The parts of the message; OSError would print its errno instead."""
        return GapcastError.__str__(self)


class RunError(GapcastError, RuntimeError):
    """A training run failed; its directory and log are kept."""


class BudgetError(GapcastError, RuntimeError):
    """The budget does not allow the next step; everything finished is kept."""

    exit_code = 4
