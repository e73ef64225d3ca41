"""Validation errors in a user's words: where, what is wrong, and the nearest valid key for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

_MOST_LISTED = 6
_PLAIN_WORDS = {
    "missing": "is missing",
    "model_type": "should be a mapping",
    "model_attributes_type": "should be a mapping",
    "dict_type": "should be a mapping",
    "tuple_type": "should be a list",
    "union_tag_not_found": "`kind` is missing",
}


def explain_errors(model: type[BaseModel], error: ValidationError, *, prefix: str = "") -> list[str]:
    """One sentence for each error, unknown keys first; what only follows from an error further inside is left out."""
    problems = error.errors(include_url=False)
    outer = {problem["loc"][:depth] for problem in problems for depth in range(len(problem["loc"]))}
    own = [problem for problem in problems if problem["loc"] not in outer]
    own.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    return [_sentence(model, problem, prefix) for problem in own]


def join_explained(sentences: list[str]) -> str:
    """The first sentences in one line, and how many more there are."""
    more = len(sentences) - _MOST_LISTED
    return "; ".join(sentences[:_MOST_LISTED]) + (f" (and {more} more)" if more > 0 else "")


def nearest_key(key: str, valid: list[str]) -> str:
    """The valid key that looks most like `key`, as a question; all of them when none does."""
    near = difflib.get_close_matches(key, valid, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else f"valid keys: {', '.join(valid)}"


def _sentence(model: type[BaseModel], problem: Mapping[str, Any], prefix: str) -> str:
    shown = [prefix] if prefix else []
    owner: Any = model
    current: Any = model
    for part in problem["loc"]:
        owner = current
        current, is_tag = _inside(current, part)
        shown += [] if is_tag else [str(part)]
    where = f"{'.'.join(shown)}: " if shown else ""
    if problem["type"] == "extra_forbidden":
        valid = sorted({name for option in _models(owner) for name in option.model_fields})
        return f"{where}unknown key; {nearest_key(str(problem['loc'][-1]), valid)}"
    message = _PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    found = "" if problem["type"] == "missing" else f" (found {repr(problem.get('input'))[:60]})"
    return f"{where}{message}{found}"


def _inside(annotation: Any, part: str | int) -> tuple[Any, bool]:
    """What stands at one step of an error's location, and whether the step only names a member of a union."""
    options = _options(annotation)
    models = _models(annotation)
    if len(models) > 1:
        for option in models:
            if "kind" in option.model_fields and option.model_fields["kind"].default == part:
                return option, True
    for option in options:
        if option in models and part in option.model_fields:
            return option.model_fields[part].annotation, False
        if get_origin(option) in (tuple, list, dict):
            return get_args(option)[get_origin(option) is dict], False
    return Any, False


def _options(annotation: Any) -> list[Any]:
    """The alternatives of an annotation, through unions and `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [option for inner in get_args(annotation) for option in _options(inner)]
    return [annotation]


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [option for option in _options(annotation) if isinstance(option, type) and issubclass(option, BaseModel)]
