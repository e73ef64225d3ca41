"""Checkers judge a completion's text; one function judges it everywhere (design, rule 1).

A checker never raises for model output: what it cannot judge is undecided (`correct=None`) with a reason.
"""

from __future__ import annotations

from typing import Protocol

from predictor.checkers.constraint import ConstraintJudge
from predictor.checkers.text import ExactJudge, NumericJudge, RegexJudge
from predictor.records import (
    CheckerConfig,
    ConstraintChecker,
    Example,
    NumericChecker,
    RegexChecker,
    Verdict,
)

__all__ = ["Checker", "build_checker"]


class Checker(Protocol):
    """What the probe and the trainer ask of a checker."""

    name: str
    version: str
    """Changes whenever a verdict can change; stored with every verdict."""

    def check(self, text: str, example: Example) -> Verdict:
        """The verdict on one completion; never raises for what the model wrote."""
        ...


def build_checker(config: CheckerConfig) -> Checker:
    """The checker that a task's configuration names; CheckerError when its pattern is not a regular expression."""
    if isinstance(config, ConstraintChecker):
        return ConstraintJudge(config)
    if isinstance(config, RegexChecker):
        return RegexJudge(config)
    if isinstance(config, NumericChecker):
        return NumericJudge(config)
    return ExactJudge(config)
