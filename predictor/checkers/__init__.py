"""Checkers judge a completion's text; one function judges it everywhere (design, rule 1).

A checker never raises for model output: what it cannot judge is undecided (`correct=None`) with a reason. Checkers
that run other people's code (math-verify, reasoning-gym, a user's function, a reward server) do so in a worker process
with a deadline of our own; programs written by the model run in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from predictor.checkers.choices import MultipleChoiceJudge
from predictor.checkers.constraint import ConstraintJudge
from predictor.checkers.mathematics import MathJudge
from predictor.checkers.served import FunctionJudge, HttpJudge, ReasoningGymJudge
from predictor.checkers.text import ExactJudge, NumericJudge, RegexJudge
from predictor.checkers.tool_call import ToolCallJudge
from predictor.checkers.unit_tests import CodeJudge
from predictor.records import CheckerConfig, Example, Verdict

__all__ = ["Checker", "build_checker"]


class Checker(Protocol):
    """What the probe and the trainer ask of a checker."""

    name: str
    version: str
    """Changes whenever a verdict can change; stored with every verdict."""

    def check(self, text: str, example: Example) -> Verdict:
        """The verdict on one completion; never raises for what the model wrote."""
        ...


_JUDGES: dict[str, Callable[[Any], Checker]] = {
    "exact": ExactJudge,
    "regex": RegexJudge,
    "numeric": NumericJudge,
    "constraint": ConstraintJudge,
    "multiple_choice": MultipleChoiceJudge,
    "math": MathJudge,
    "tool_call": ToolCallJudge,
    "code": CodeJudge,
    "reasoning_gym": ReasoningGymJudge,
    "function": FunctionJudge,
    "http": HttpJudge,
}


def build_checker(config: CheckerConfig) -> Checker:
    """The checker that a task's configuration names.

    CheckerError when its pattern is not a regular expression, or its package, module or function is missing.
    """
    return _JUDGES[config.kind](config)
