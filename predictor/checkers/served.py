"""Checkers whose verdict comes from a worker process: reasoning-gym, a Python function, a reward server."""

from __future__ import annotations

import re
from typing import Any

from predictor.checkers.verdicts import Named, verdict
from predictor.checkers.worker import Failed, Worker
from predictor.records import Example, FunctionChecker, HttpChecker, ReasoningGymChecker, Verdict

_FULL_SCORE = 1.0 - 1e-9


class ReasoningGymJudge:
    """The task's own scorer; its partial credit (nonsense can earn 0.01) is never correct."""

    name = "reasoning_gym"

    def __init__(self, config: ReasoningGymChecker) -> None:
        self._dataset = config.dataset
        self._tagged = None if config.tag is None else _tag_pattern(config.tag)
        self._worker = Worker("reasoning_gym", {"dataset": config.dataset}, timeout_s=config.timeout_s)
        self.version = f"1+reasoning-gym {self._worker.version}"

    def check(self, text: str, example: Example) -> Verdict:
        """Correct for the full score; undecided without a task name, and when the scorer raises or takes too long."""
        dataset = self._dataset or example.metadata.get("source_dataset")
        if not isinstance(dataset, str):
            return verdict(self, correct=None, reason="the example has no `metadata.source_dataset`")
        found = self._tagged.findall(text) if self._tagged is not None else []
        answer = (found[-1] if found else text).strip()
        entry = {"question": example.question, "answer": example.answer, "metadata": example.metadata}
        score = self._worker.ask({"dataset": dataset, "answer": answer, "entry": entry})
        return _scored(self, score, _FULL_SCORE, answer)


class FunctionJudge:
    """A user's reward function in TRL's shape: prompts, completions and the example's fields as lists of one.

    A prompt is text, or a list of messages for examples that have `messages`, and the completion then is a list of one
    assistant message. `None` means that the function does not apply, which is undecided.
    """

    name = "function"

    def __init__(self, config: FunctionChecker) -> None:
        self._threshold = config.threshold
        self._worker = Worker("function", {"function": config.function}, timeout_s=config.timeout_s)
        self.version = f"1+{config.function} {self._worker.version}"

    def check(self, text: str, example: Example) -> Verdict:
        """Correct from the threshold on; undecided when the function raises, takes too long or returns no number."""
        reward = self._worker.ask({"columns": _columns(text, example)})
        return _scored(self, reward, self._threshold, "")


class HttpJudge:
    """A reward server; an outage is never a pass and never a fail."""

    name = "http"
    version = "1"

    def __init__(self, config: HttpChecker) -> None:
        self._threshold = config.threshold
        options = {"url": config.url, "timeout_s": config.timeout_s}
        self._worker = Worker("http", options, timeout_s=config.timeout_s)

    def check(self, text: str, example: Example) -> Verdict:
        """Correct as the server says; undecided (infra) when it does not answer in time, or not as agreed."""
        fields = ("example_id", "prompt", "messages", "answer", "solution", "metadata")
        answer = self._worker.ask({"completion": text, **example.model_dump(mode="json", include=set(fields))})
        if isinstance(answer, Failed):
            return verdict(self, correct=None, reason=f"infra: {answer.reason}")
        if isinstance(answer, bool):
            return verdict(self, correct=answer, reason="" if answer else "the server says so")
        return _scored(self, answer, self._threshold, "")


def _scored(judge: Named, score: Any, threshold: float, answer: str) -> Verdict:
    """The verdict on a score; None and a worker's failure are undecided."""
    if isinstance(score, Failed):
        return verdict(judge, correct=None, extracted=answer, reason=score.reason)
    if score is None:
        return verdict(judge, correct=None, extracted=answer, reason="the reward does not apply to this example")
    correct = float(score) >= threshold
    return verdict(
        judge, correct=correct, extracted=answer or f"{score:g}", reason="" if correct else f"scored {score:g}"
    )


def _columns(text: str, example: Example) -> dict[str, list[Any]]:
    own = {"answer": example.answer, "solution": example.solution, "example_id": example.example_id}
    if example.messages is None:
        asked: dict[str, Any] = {"prompts": example.prompt, "completions": text}
    else:
        said = [{"role": "assistant", "content": text}]
        asked = {"prompts": [message.model_dump() for message in example.messages], "completions": said}
    return {name: [value] for name, value in (example.metadata | own | asked).items()}


def _tag_pattern(tag: str) -> re.Pattern[str]:
    name = re.escape(tag)
    # Nothing that opens again in between: without that, many openings and no end would be searched again and again.
    return re.compile(rf"<{name}>((?:(?!<{name}>).)*?)</{name}>", re.DOTALL)
