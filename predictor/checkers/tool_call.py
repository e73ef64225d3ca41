"""The tool-call checker: the right tools with the right arguments, however the call is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from predictor.checkers.patterns import within_deadline
from predictor.checkers.verdicts import verdict
from predictor.records import Example, ToolCallChecker, Verdict

_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
# ToolAlpaca's and ReAct's form; the last input may be cut off only by the end or by what comes after a call.
_ACTION = re.compile(
    r"^Action:[ \t]*([^\n]+)\n+Action Input:[ \t]*(.*?)(?=^(?:Action|Observation|Thought|Response):|\Z)",
    re.DOTALL | re.MULTILINE,
)
_NAMES = ("name", "tool", "action", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "action_input", "input")

Call = tuple[str, str]
"""Name, and arguments as canonical JSON."""


class ToolCallJudge:
    """Calls are read from `<tool_call>` tags, else fenced JSON, else `Action:` and `Action Input:`, else bare JSON.

    Arguments are compared as JSON values: order of keys and 1 against 1.0 do not matter, "1" against 1 does.
    """

    name = "tool_call"
    version = "1"

    def __init__(self, config: ToolCallChecker) -> None:
        self._ordered = config.ordered

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the completion makes the reference's calls and no others; undecided without such a reference."""
        wanted = _calls_in_json(example.answer or "")
        if not wanted:
            return verdict(self, correct=None, reason="the example's answer is no JSON tool call")
        found = within_deadline(lambda: _calls(text))
        if isinstance(found, TimeoutError):
            return verdict(self, correct=None, reason=str(found))
        shown = "; ".join(f"{name} {arguments}" for name, arguments in found)[:2000]
        if not found:
            return verdict(self, correct=False, reason="makes no tool call that can be read")
        same = found == wanted if self._ordered else sorted(found) == sorted(wanted)
        return verdict(self, correct=same, extracted=shown, reason="" if same else _difference(found, wanted))


def _difference(found: list[Call], wanted: list[Call]) -> str:
    if len(found) != len(wanted):
        return f"makes {len(found)} calls, expected {len(wanted)}"
    for (name, arguments), (right_name, right_arguments) in zip(found, wanted, strict=True):
        if name != right_name:
            return f"calls {name!r}, expected {right_name!r}"
        if arguments != right_arguments:
            return f"arguments of {name!r} are {arguments[:300]}, expected {right_arguments[:300]}"
    return "makes the calls in another order"


def _calls(text: str) -> list[Call]:
    try:
        return _read_calls(text)
    except RecursionError:
        return []


def _read_calls(text: str) -> list[Call]:
    for parts in (_TAGGED.findall(text), _FENCED.findall(text)):
        found = [call for part in parts for call in _calls_in_json(part)]
        if found:
            return found
    actions = [(name.strip(), _canonical(_loaded(value))) for name, value in _ACTION.findall(text)]
    return actions or _calls_in_json(text) or [call for value in _objects(text) for call in _calls_of(value)]


def _calls_in_json(text: str) -> list[Call]:
    return _calls_of(_loaded(text))


def _calls_of(value: Any) -> list[Call]:
    """The calls that a JSON value describes: one object, a list of them, or an object with `tool_calls`."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list):
        return [call for item in value if not isinstance(item, list) for call in _calls_of(item)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    arguments: Any = next((value[key] for key in _ARGUMENTS if key in value), {})
    if isinstance(arguments, str):
        arguments = _loaded(arguments)
    return [] if name is None else [(name.strip(), _canonical(arguments))]


def _objects(text: str) -> Iterator[Any]:
    """JSON objects in running text, one after the other."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    place = text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)


def _loaded(text: str) -> Any:
    """The JSON value of a text; the text itself, stripped, when it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text.strip()


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _canonical(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Whole numbers written as such, so that 1 and 1.0 are one value, and True is not."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
