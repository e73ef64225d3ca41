"""Dotted look-ups in an example, and sandboxed templates over its fields.

Templates and data are hostile: Jinja runs in its immutable sandbox, data is never parsed as a template, and a
missing field is an error that names the example, the template and the fields there are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, UndefinedError, meta
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from predictor.errors import HintError
from predictor.records import Example

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
_LONGEST_RESULT = 1_000_000


def lookup_field(example: Example, dotted: str) -> Any:
    """The value of `answer` or `metadata.rule`; HintError when the example has no such field, or it is empty."""
    value: Any = template_fields(example)
    for part in dotted.split("."):
        if not isinstance(value, dict) or value.get(part) is None:
            raise HintError(
                f"example `{example.example_id}` has no field `{dotted}`",
                where=f"example `{example.example_id}`",
                found=f"fields {', '.join(available_fields(example))}",
                fix="add the field to the task's rows, or choose another `source`",
            )
        value = value[part]
    return value


def template_fields(example: Example) -> dict[str, Any]:
    """The names a template sees: question, answer, solution, feedback, metadata, example_id."""
    return {
        "question": example.question,
        "answer": example.answer,
        "solution": example.solution,
        "feedback": example.feedback,
        "metadata": example.metadata,
        "example_id": example.example_id,
    }


def available_fields(example: Example) -> list[str]:
    """Dotted names of the fields that this example really has, for error messages."""
    fields = template_fields(example)
    present = [name for name, value in fields.items() if value is not None and name != "metadata"]
    return present + [f"metadata.{name}" for name in sorted(example.metadata)]


def render_template(source: str, example: Example, **extra: str) -> str:
    """The template over the example's fields and `extra`; HintError for a missing field or an unsafe template."""
    try:
        values = {name: value for name, value in template_fields(example).items() if value is not None}
        text = compile_template(source).render(**(values | extra))
    except UndefinedError as error:
        raise HintError(
            f"a template asks for a field that example `{example.example_id}` lacks: {error.message}",
            where=f"template {_short(source)!r}",
            found=f"fields {', '.join([*available_fields(example), *extra])}",
            fix="correct the template, or add the field to the task's rows",
        ) from None
    except SecurityError as error:
        raise HintError("a template does something unsafe", where=_short(source), found=str(error)) from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise HintError(
            "a template failed while rendering", where=f"template {_short(source)!r}", found=str(error)
        ) from None
    if len(text) > _LONGEST_RESULT:
        raise HintError("a hint is longer than 1,000,000 characters", where=f"template {_short(source)!r}")
    return text


@lru_cache(maxsize=256)
def compile_template(source: str) -> Template:
    """The parsed template; HintError with the line when it is not valid Jinja."""
    try:
        return _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise HintError(
            "a template is not valid Jinja",
            where=f"line {error.lineno} of {_short(source)!r}",
            found=str(error.message),
        ) from None


def template_names(source: str) -> set[str]:
    """Names of the variables that a template reads."""
    return set(meta.find_undeclared_variables(_ENVIRONMENT.parse(source)))


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
