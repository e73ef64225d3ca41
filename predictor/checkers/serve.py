"""Runs in the worker process: loads what judges, then answers requests, one JSON object a line.

Started by path with only the standard library loaded. Whatever the judging code prints is dropped, and whatever it
raises is an answer, never a traceback.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import select
import sys
import urllib.request
from collections.abc import Callable, Mapping
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

Judge = Callable[[Mapping[str, Any]], Any]
_MOST_BYTES = 1_000_000
_PARENT_SECONDS = 5.0


class Missing(Exception):
    """What the user must install or correct; its fields become a CheckerError."""

    def __init__(self, **parts: str) -> None:
        super().__init__(parts["what"])
        self.parts = parts


def math_judge(_options: Mapping[str, Any]) -> tuple[str, Judge]:
    """Equality by math-verify; None where it cannot read the reference."""
    library = _imported("math_verify", "math")

    def judge(request: Mapping[str, Any]) -> bool | None:
        # Its own timeouts use SIGALRM and swallow errors; the deadline is the parent's.
        gold, target = (library.parse(f"${request[side]}$", parsing_timeout=None) for side in ("reference", "answer"))
        return bool(library.verify(gold, target, timeout_seconds=None)) if gold else None

    return _version("math-verify"), judge


def reasoning_gym_judge(options: Mapping[str, Any]) -> tuple[str, Judge]:
    """The task's own score of an answer, in [0, 1]."""
    library = _imported("reasoning_gym", "reasoning-gym")
    if options["dataset"] is not None:
        try:
            library.get_score_answer_fn(options["dataset"])
        except (ValueError, KeyError):
            raise Missing(
                what="reasoning-gym has no such task", where="task.checker.dataset", found=str(options["dataset"])
            ) from None

    def judge(request: Mapping[str, Any]) -> float:
        score = library.get_score_answer_fn(request["dataset"])
        return float(score(answer=request["answer"], entry=request["entry"]))

    return _version("reasoning-gym"), judge


def function_judge(options: Mapping[str, Any]) -> tuple[str, Judge]:
    """A user's reward function, called as TRL does: lists in, a list of one reward or None out."""
    module_name, _, name = options["function"].partition(":")
    sys.path.insert(0, str(Path.cwd()))
    where = "task.checker.function"
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # noqa: BLE001  # supervised: a module may raise anything while it is imported
        raise Missing(
            what=f"the module `{module_name}` cannot be imported",
            where=where,
            found=f"{type(error).__name__}: {error}",
            fix="start gapcast in the module's directory, or install it",
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise Missing(what=f"`{module_name}` has no function `{name}`", where=where)

    def judge(request: Mapping[str, Any]) -> float | None:
        rewards = list(function(**request["columns"]))
        if len(rewards) != 1:
            raise ValueError(f"returned {len(rewards)} rewards for one completion")
        return None if rewards[0] is None else _number(rewards[0])

    source = Path(getattr(module, "__file__", None) or os.devnull)
    return blake2b(source.read_bytes(), digest_size=4).hexdigest(), judge


def http_judge(options: Mapping[str, Any]) -> tuple[str, Judge]:
    """A reward server's answer to a POST of the request as JSON: True, False, a number, or None."""
    opener = urllib.request.build_opener(_NoRedirects())

    def judge(request: Mapping[str, Any]) -> bool | float | None:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        question = urllib.request.Request(options["url"], json.dumps(request).encode(), headers)
        with opener.open(question, timeout=options["timeout_s"]) as response:
            answer = json.loads(response.read(_MOST_BYTES))
        if not isinstance(answer, dict) or not {"correct", "reward"} & answer.keys():
            raise ValueError("the server's answer holds neither `correct` nor `reward`")
        value = answer.get("correct", answer.get("reward"))
        return value if value is None or isinstance(value, bool) else _number(value)

    return "1", judge


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """Never: completions go where the study says, and nowhere else."""


_JUDGES: dict[str, Callable[[Mapping[str, Any]], tuple[str, Judge]]] = {
    "math": math_judge,
    "reasoning_gym": reasoning_gym_judge,
    "function": function_judge,
    "http": http_judge,
}


def main() -> int:
    """Answer until the parent closes the pipe or is gone."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests = _Lines(sys.stdin.buffer)
    started = json.loads(requests.next() or b"{}")
    try:
        version, judge = _JUDGES[started["kind"]](started["options"])
    except Missing as missing:
        _send(replies, missing.parts)
        return 2
    except BaseException as error:  # noqa: BLE001  # supervised: a library may raise anything while it is loaded
        what = "what the checker judges with cannot be loaded"
        _send(replies, {"what": what, "where": "task.checker", "found": f"{type(error).__name__}: {error}"[:500]})
        return 2
    _send(replies, {"ready": version})
    while (line := requests.next()) is not None:
        _send(replies, _answered(judge, line))
    return 0


def _answered(judge: Judge, line: bytes) -> dict[str, Any]:
    try:
        return {"value": judge(json.loads(line))}
    except BaseException as error:  # noqa: BLE001  # supervised: whatever judging code raises is its answer
        return {"raised": f"the checker raised {type(error).__name__}: {error}"[:500]}


def _send(replies: Any, reply: Mapping[str, Any]) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the reward is {number}")
    return number


def _imported(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(
            what=f"this checker needs {module.replace('_', '-')}, which is not installed",
            where="task.checker",
            found=str(error),
            fix=f'pip install "gapcast[{extra}]"',
        ) from None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


class _Lines:
    """Lines of a pipe; ends, too, when the parent is gone while another process still holds the pipe's other end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._descriptor = stream.fileno()
        self._parent = os.getppid()
        self._read = bytearray()

    def next(self) -> bytes | None:
        """The next line; None at the end."""
        while b"\n" not in self._read:
            while not select.select([self._descriptor], [], [], _PARENT_SECONDS)[0]:
                if os.getppid() != self._parent:
                    return None
            chunk = os.read(self._descriptor, 65_536)
            if not chunk:
                return None
            self._read += chunk
        line, _, rest = self._read.partition(b"\n")
        self._read = rest
        return bytes(line)


if __name__ == "__main__":
    sys.exit(main())
