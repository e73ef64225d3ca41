"""Rows to examples: JSON Lines in, every bad row named with its line and reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from predictor.errors import DataError
from predictor.records import Example
from predictor.records.base import only_json
from predictor.records.explain import explain_errors

_MOST_LISTED = 5


def read_jsonl(path: Path) -> list[Example]:
    """One example a line; DataError lists the first bad lines with their reasons, and nothing is dropped silently."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError("the task's example file does not exist", where=str(path), fix="correct task.path") from None
    except (OSError, ValueError) as error:
        raise DataError("the task's example file cannot be read", where=str(path), found=str(error)) from None
    numbered: list[tuple[int, Any]] = []
    bad: list[str] = []
    # Only "\n" ends a row: str.splitlines would also cut at characters that JSON strings may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            numbered.append((number, json.loads(line, object_pairs_hook=_unique_keys)))
        except (ValueError, RecursionError) as error:
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
            examples.append(Example.model_validate(only_json(row)))
        except ValidationError as error:
            bad.append(f"line {number}: {explain_errors(Example, error)[0]}")
        except ValueError as error:
            bad.append(f"line {number}: {error}")
    _refuse(bad, where)
    return examples


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key is given twice")
    return fields


def _refuse(bad: list[str], where: str) -> None:
    if bad:
        more = f" (and {len(bad) - _MOST_LISTED} more)" if len(bad) > _MOST_LISTED else ""
        raise DataError(
            f"{len(bad)} rows are not valid examples",
            where=where,
            found="; ".join(bad[:_MOST_LISTED]) + more,
            expected="example_id, prompt or messages, and what checker and hints need (other fields: under `metadata`)",
            fix="correct these rows",
        )
