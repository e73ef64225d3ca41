"""Sandboxed Jinja over an example's fields.

Templates and data are hostile. A template may read fields, compare, branch, loop over a list and use a few filters;
it calls nothing, sees no attribute of a Python object, and cannot multiply text. Data is never parsed as a template.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from predictor.errors import HintError
from predictor.fields.deadline import cpu_deadline
from predictor.fields.lookup import available_fields, template_fields
from predictor.records import Example

_LONGEST_RESULT = 1_000_000
_LONGEST_SECONDS = 1.0
_ALLOWED_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.List, nodes.Tuple),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Keyword, nodes.Concat),
    *(nodes.If, nodes.For, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Add, nodes.Sub, nodes.Neg),
)
_BORROWED_FILTERS = (
    *("capitalize", "count", "d", "default", "first", "int", "last", "length"),
    *("list", "lower", "string", "title", "trim", "truncate", "upper"),
)
_FAILURES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, TimeoutError)
"""What a filter raises on a value it was not made for (`truncate` asserts), and the deadline."""
_LOOP_FIELDS = ("index", "index0", "revindex", "revindex0", "first", "last", "length")


class _FieldEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox in which a dot means a field, so that `metadata.values` is never the method of a dictionary."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The field, or `loop.index` and its like; undefined for everything else."""
        if isinstance(obj, LoopContext) and attribute in _LOOP_FIELDS:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """The item of a mapping, a list or a text; undefined for everything else."""
        try:
            return obj[argument]
        except (LookupError, TypeError):
            return self.undefined(obj=obj, name=argument)


def render_template(source: str, example: Example, **extra: str) -> str:
    """The template over the example's fields and `extra`; HintError for a missing field or an unsafe template."""
    template = compile_template(source)
    values = {name: value for name, value in template_fields(example).items() if value is not None}
    try:
        with cpu_deadline(_LONGEST_SECONDS):
            return _joined(template.generate(**(values | extra)))
    except UndefinedError as error:
        raise HintError(
            f"a template asks for a field that example `{example.example_id}` lacks: {error.message}",
            where=f"template {_short(source)!r}",
            found=f"fields {', '.join([*available_fields(example), *extra])}",
            fix="correct the template, or add the field to the task's rows",
        ) from None
    except (TemplateError, *_FAILURES) as error:
        raise HintError(
            f"a template failed on example `{example.example_id}`",
            where=f"template {_short(source)!r}",
            found=str(error),
        ) from None


@lru_cache(maxsize=256)
def compile_template(source: str) -> Template:
    """The parsed template; HintError when it is not valid Jinja, or asks for more than fields, branches and filters."""
    try:
        _refuse_unsafe(_ENVIRONMENT.parse(source), source)
        return _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise HintError(
            "a template is not valid Jinja",
            where=f"line {error.lineno} of {_short(source)!r}",
            found=str(error.message),
        ) from None
    except (SyntaxError, RecursionError):
        raise HintError("a template is nested too deeply", where=f"template {_short(source)!r}") from None


def template_names(source: str) -> set[str]:
    """Names of the variables that a template reads."""
    return set(meta.find_undeclared_variables(_ENVIRONMENT.parse(source)))


def _refuse_unsafe(tree: nodes.Template, source: str) -> None:
    """Before compiling, because Jinja computes constant expressions such as 'a' * 10**9 while it compiles."""
    pending: list[nodes.Node] = [tree]
    while pending:
        node = pending.pop()
        unknown = isinstance(node, nodes.Filter) and node.name not in _ENVIRONMENT.filters
        if unknown or not isinstance(node, _ALLOWED_NODES) or (isinstance(node, nodes.Name) and node.name == "self"):
            raise HintError(
                "a template does something that a hint must not do",
                where=f"line {node.lineno} of {_short(source)!r}",
                found=f"{type(node).__name__.lower()} {getattr(node, 'name', '')}".strip(),
                expected=f"fields, `if`, `for`, comparisons, and the filters {', '.join(sorted(_ENVIRONMENT.filters))}",
            )
        pending += node.iter_child_nodes()


def _joined(pieces: Iterable[str]) -> str:
    kept: list[str] = []
    length = 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        _refuse_length(length)
    return "".join(kept)


def _refuse_length(length: int) -> None:
    if length > _LONGEST_RESULT:
        raise SecurityError(f"a text of more than {_LONGEST_RESULT:,} characters")


def _join(value: Iterable[Any], d: str = "") -> str:
    """The filter `join`, refused before a huge text is made."""
    parts = [str(part) for part in value]
    _refuse_length(sum(map(len, parts)) + len(d) * len(parts))
    return d.join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    """The filter `replace`, refused before a huge text is made."""
    text = str(value)
    _refuse_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _not_null(value: Any) -> Any:
    if value is None:
        raise UndefinedError("it is null")
    return value


def _field_environment() -> _FieldEnvironment:
    environment = _FieldEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_not_null
    )
    environment.globals.clear()
    borrowed = {name: environment.filters[name] for name in _BORROWED_FILTERS}
    environment.filters.clear()
    environment.filters.update(borrowed, join=_join, replace=_replace)
    return environment


_ENVIRONMENT = _field_environment()


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
