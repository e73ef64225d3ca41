"""Hypothesis strategies for any record, read off its fields: types, bounds and patterns."""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from hypothesis import strategies as st
from hypothesis.control import reject
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from predictor.records import Record

TEXT = st.text(max_size=12)
NUMBERS = st.floats(-1e100, 1e100) | st.sampled_from([0.0, 1.0, float("nan"), float("inf"), float("-inf")])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def every_record_class() -> list[type[Record]]:
    """All subclasses of Record that the project's modules define."""
    found: list[type[Record]] = []
    pending: list[type[Any]] = [Record]
    while pending:
        children = pending.pop().__subclasses__()
        found += [child for child in children if child.__module__.startswith("predictor.")]
        pending += children
    return sorted(set(found), key=lambda kind: (kind.__module__, kind.__qualname__))


@st.composite
def records(draw: st.DrawFn, kind: type[BaseModel]) -> BaseModel:
    """A valid record of a class; combinations that its validators refuse are drawn again, a few times."""
    for _ in range(8):
        given: dict[str, Any] = {}
        for name, field in kind.model_fields.items():
            if field.is_required() or draw(st.booleans()):
                given[name] = draw(for_field(field))
        with suppress(ValidationError):
            return kind.model_validate(given)
    reject()


def for_field(field: FieldInfo) -> st.SearchStrategy[Any]:
    pattern = next((m.pattern for m in field.metadata if getattr(m, "pattern", None)), None)
    if pattern is not None:
        return st.from_regex(pattern.replace("$", r"\Z"), fullmatch=False)
    return for_type(field.annotation, tuple(field.metadata))


def for_type(annotation: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return for_type(inner[0], inner[1:])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*(for_type(option, metadata) for option in inner))
    if origin in (tuple, list):
        return _sequences(inner, metadata)
    if origin is dict:
        return st.dictionaries(for_type(inner[0]), for_type(inner[1]), max_size=1)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return records(annotation)
    return _scalars(annotation, metadata)


def _sequences(inner: tuple[Any, ...], metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if len(inner) > 1 and inner[1] is not Ellipsis:
        return st.tuples(*(for_type(item) for item in inner))
    shortest = next((m.min_length for m in metadata if isinstance(m, bounds.MinLen)), 0)
    return st.lists(for_type(inner[0]), min_size=shortest, max_size=shortest + 1).map(tuple)


def _scalars(annotation: Any, metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(_bound(metadata, ("ge", "gt"), -(2**31)), _bound(metadata, ("le", "lt"), 2**31))
    if annotation is float:
        limits = [_bound(metadata, ("ge", "gt"), None), _bound(metadata, ("le", "lt"), None)]
        return st.floats(*limits) if limits != [None, None] else NUMBERS
    if annotation is str:
        shortest = next((m.min_length for m in metadata if isinstance(m, bounds.MinLen)), 0)
        return st.text(min_size=shortest, max_size=12)
    if annotation is type(None):
        return st.none()
    assert annotation is Any, f"no strategy for {annotation}"
    return JSON_VALUES


def _bound(metadata: tuple[Any, ...], names: tuple[str, ...], default: Any) -> Any:
    return next((getattr(m, name) for m in metadata for name in names if hasattr(m, name)), default)
