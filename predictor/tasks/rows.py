"""Rows to examples: JSON Lines in, every bad row named with its line and reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from predictor.errors import DataError
from predictor.records import Example

_MOST_LISTED = 5


def read_jsonl(path: Path) -> list[Example]:
    """One example a line; DataError lists the first bad lines with their reasons, and nothing is dropped silently."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("the task's example file does not exist", where=str(path), fix="correct task.path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("the task's example file cannot be read", where=str(path), found=str(error)) from None
    numbered: list[tuple[int, Any]] = []
    bad: list[str] = []
    # Only "\n" ends a row: str.splitlines would also cut at characters that JSON strings may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            numbered.append((number, json.loads(line)))
        except (json.JSONDecodeError, RecursionError) as error:
            bad.append(f"line {number}: not JSON ({error})")
    _refuse(bad, str(path))
    if not numbered:
        raise DataError("the task's example file holds no rows", where=str(path), expected="one JSON object a line")
    return parse_examples(numbered, where=str(path))


def parse_examples(rows: Iterable[tuple[int, Any]], *, where: str) -> list[Example]:
    """Examples from numbered JSON objects; DataError names each bad row, its number and the reason."""
    examples: list[Example] = []
    bad: list[str] = []
    for number, row in rows:
        try:
            examples.append(Example.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "row"
            bad.append(f"line {number}: {field}: {first['msg']}")
    _refuse(bad, where)
    return examples


def _refuse(bad: list[str], where: str) -> None:
    if bad:
        more = f" (and {len(bad) - _MOST_LISTED} more)" if len(bad) > _MOST_LISTED else ""
        raise DataError(
            f"{len(bad)} rows are not valid examples",
            where=where,
            found="; ".join(bad[:_MOST_LISTED]) + more,
            expected="example_id, prompt or messages, and what the checker and the hints need",
            fix="correct these rows",
        )
