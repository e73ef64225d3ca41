"""Hints become contexts: one builder turns a hint config and an example into what the teacher is shown.

A worked hint (answer, solution, partial, and everything made from the student's rollouts) of ANOTHER example says
nothing without its question, so `others` shows it together with that question, as a demonstration.
"""

from predictor.contexts.attempts import Attempt, choose_peer, num_answer_blocks, without_thinking
from predictor.contexts.builder import ContextBuilder, Groups, HintContext
from predictor.contexts.corrupt import corrupt

__all__ = [
    "Attempt",
    "ContextBuilder",
    "Groups",
    "HintContext",
    "choose_peer",
    "corrupt",
    "num_answer_blocks",
    "without_thinking",
]
