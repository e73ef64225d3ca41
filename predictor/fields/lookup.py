"""Dotted look-ups in an example; a missing field is an error that names the example and the fields there are."""

from __future__ import annotations

from typing import Any

from predictor.errors import HintError
from predictor.records import Example


def lookup_field(example: Example, dotted: str) -> Any:
    """The value of `answer` or `metadata.rule`; HintError when the example has no such field, or it is empty."""
    value: Any = template_fields(example)
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
        if value is None or (isinstance(value, str) and not value.strip()):
            raise HintError(
                f"example `{example.example_id}` has no field `{dotted}`",
                where=f"example `{example.example_id}`",
                found=f"fields {', '.join(available_fields(example))}",
                fix="add the field to the task's rows, or choose another `source`",
            )
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
