"""A study's directory: where everything measured, fitted, planned and trained lives."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from predictor.config import StudyConfig, load_study_config
from predictor.errors import StoreError, StudyError
from predictor.records import Record
from predictor.store.contrasts import ContrastRow, ContrastStore
from predictor.store.files import append_line, atomic_writer, checked_line, is_unfinished, read_lines, write_text
from predictor.store.rollouts import RolloutRow, RolloutStore, judged
from predictor.store.scores import ScoreRow, ScoreStore

__all__ = [
    "ContrastRow",
    "ContrastStore",
    "RolloutRow",
    "RolloutStore",
    "ScoreRow",
    "ScoreStore",
    "Study",
    "append_line",
    "atomic_writer",
    "is_unfinished",
    "judged",
    "read_lines",
    "write_text",
]

AnyRecord = TypeVar("AnyRecord", bound=Record)


class Study:
    """One study directory with its configuration; all paths and all reading and writing of records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: StudyConfig = load_study_config(path)
        self.rollouts = RolloutStore(path / "rollouts")
        self.scores = ScoreStore(path / "scores")
        self.contrasts = ContrastStore(path / "diagnostics.parquet")

    @property
    def runs_dir(self) -> Path:
        """Directory that holds one directory for each run."""
        return self.path / "runs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the study for one writing command; StudyError when another process holds it."""
        try:
            handle = (self.path / ".lock").open("a")
        except OSError as error:
            raise StoreError(
                "the study directory cannot be written",
                where=str(self.path),
                found=error.strerror or str(error),
                fix="free space or correct the permissions, then start the same command again",
            ) from None
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StudyError(
                    "another gapcast command is working on this study",
                    where=str(self.path),
                    fix="wait for it, or stop it; the lock goes with its process",
                ) from None
            yield

    def append(self, name: str, record: Record) -> None:
        """Append a record to `<name>.jsonl`."""
        append_line(self.path / f"{name}.jsonl", json.loads(record.to_json()))

    def replace(self, name: str, records: Sequence[Record]) -> None:
        """Write `<name>.jsonl` anew, atomically."""
        lines = [checked_line(json.loads(record.to_json())) for record in records]
        write_text(self.path / f"{name}.jsonl", "".join(lines))

    def records(self, name: str, kind: type[AnyRecord]) -> list[AnyRecord]:
        """All records of `<name>.jsonl`, oldest first."""
        path = self.path / f"{name}.jsonl"
        return [_validated(kind, fields, path) for fields in read_lines(path)]

    def write(self, name: str, record: Record) -> None:
        """Replace `<name>.json`."""
        write_text(self.path / f"{name}.json", record.model_dump_json(indent=2) + "\n")

    def read(self, name: str, kind: type[AnyRecord]) -> AnyRecord | None:
        """The record in `<name>.json`; None when there is none."""
        path = self.path / f"{name}.json"
        if not path.exists():
            return None
        try:
            return kind.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValidationError, OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from None


def _validated(kind: type[AnyRecord], fields: dict[str, Any], path: Path) -> AnyRecord:
    try:
        return kind.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        "a record does not have the expected form",
        where=str(path),
        found=" ".join(str(error).split())[:300],
        expected="a record written by this version of gapcast",
        fix="use the version that wrote it, or delete the file and run the command again",
    )
