"""Outside runs become records: tables with one run a row, and logs with one run a file."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from predictor.errors import DataError
from predictor.loop.outside.facts import UNKNOWN, OutsideRun, run_record, run_spec
from predictor.loop.outside.logs import LogFacts, LogKind, outside_run, read_facts
from predictor.records import Provenance, RunRecord, content_hash, current_provenance
from predictor.store import Study

ImportKind = Literal["rows"] | LogKind
COLUMNS = tuple(OutsideRun.model_fields)
"""Columns of a table of runs, those of `runs.csv` in the report."""
ALIASES: Mapping[str, str] = {
    "config": "hint",
    "gap_se": "gap_stderr",
    "consensus_gap_se": "consensus_gap_stderr",
    "improvement_se": "improvement_stderr",
    "n_problems": "num_units",
    "baseline": "before",
    "baseline_se": "before_stderr",
    "steps": "num_steps",
}
"""Other tools' names for our columns."""


def import_rows(study: Study, file: Path, kind: ImportKind, *, facts: LogFacts | None = None) -> list[RunRecord]:
    """Records of the runs that `file` tells of; nothing is written, and one DataError names everything that is missing.

    `rows` is a CSV, JSONL or Parquet table in COLUMNS (or ALIASES). `trl`, `verl` and `wandb` are the log of one
    run; `facts` says what a log cannot (None reads `<file>.facts.yaml` beside it).
    """
    runs = _table(file) if kind == "rows" else [outside_run(study, file, kind, facts or read_facts(file))]
    source = (kind, _provenance(study, file, kind))
    seeds: Counter[str] = Counter()
    records = []
    # Seeds only tell repeated trainings apart here, so unnamed ones are numbered as they come.
    for run in runs:
        identity = run_spec(run, study.config, 0).key
        seed = seeds[identity] if run.seed is None else run.seed
        seeds[identity] += 1
        records.append(run_record(run, run_spec(run, study.config, seed), study.config, source))
    _refuse_repeated(records, file)
    return records


def store_rows(study: Study, records: Sequence[RunRecord]) -> list[RunRecord]:
    """Append the records that the study does not hold yet and return them; importing twice counts nothing twice.

    DataError when a run is stored already with other numbers.
    """
    # The key is a hash of what was trained, so the same file read again gives the same keys.
    known = {run.spec.key: run for run in study.records("runs", RunRecord)}
    new = [record for record in records if record.spec.key not in known]
    changed = [
        record.spec.hint
        for record in records
        if record.spec.key in known and _numbers(record) != _numbers(known[record.spec.key])
    ]
    if changed:
        raise DataError(
            "these runs are recorded already, with other numbers",
            where=str(study.path / "runs.jsonl"),
            found=", ".join(changed[:8]),
            fix="give them another seed, or remove the old records first",
        )
    for record in new:
        study.append("runs", record)
    return new


def _numbers(record: RunRecord) -> str:
    """The measured part of a record, comparable across imports (NaN equals NaN)."""
    gap = record.gap.gap if record.gap is not None else None
    return content_hash([e.model_dump(mode="json") if e else None for e in (gap, record.improvement)])


def _provenance(study: Study, file: Path, kind: str) -> Provenance:
    """Now, here, and the identity of the file's content."""
    # The path says nothing once the file has moved; its content does.
    fingerprint = content_hash(file.read_bytes().hex())[:16]
    return current_provenance(config_key=study.config.key, engine=f"import of {kind}", engine_version=fingerprint)


def _table(file: Path) -> list[OutsideRun]:
    rows = list(_rows(file))
    if not rows:
        raise DataError("the table has no rows", where=str(file), expected=f"columns {', '.join(COLUMNS)}")
    # All rows are read before anything is refused: one error for a file, not one for each attempt.
    problems: list[str] = []
    runs: list[OutsideRun] = []
    for number, row in rows:
        try:
            runs.append(OutsideRun.model_validate(_named(row)))
        except ValidationError as error:
            problems += [f"{number}: {_explain(item)}" for item in error.errors()]
    if problems:
        more = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
        raise DataError(
            "these rows cannot be imported as they stand",
            where=str(file),
            found="; ".join(problems[:6]) + more,
            expected=f"columns {', '.join(COLUMNS)}",
            fix=f"complete them; where a standard error is not known, write `{UNKNOWN}` instead of leaving it empty",
        )
    return runs


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with the words that find it again; DataError for a file that cannot be read as its name says."""
    readers = {".csv": _csv_rows, ".jsonl": _jsonl_rows, ".parquet": _parquet_rows}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise DataError("this is no table of runs", where=str(file), expected="a .csv, .jsonl or .parquet file")
    try:
        yield from reader(file)
    except (OSError, UnicodeDecodeError, csv.Error, json.JSONDecodeError, pa.ArrowInvalid) as error:
        raise DataError("the file cannot be read", where=str(file), found=str(error)[:200]) from None


def _csv_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    # Spreadsheets put a byte order mark before the first column's name.
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error(f"line {reader.line_num} has another number of fields than the header")
            yield f"line {reader.line_num}", dict(row)


def _jsonl_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise DataError("a row is not a JSON object", where=f"{file}, line {number}", found=line[:80])
            yield f"line {number}", row


def _parquet_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(pq.read_table(file).to_pylist(), start=1):
        yield f"row {number}", row


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row under our names, without empty fields; improvement is after minus before where only those are given."""
    named = {ALIASES.get(name.strip(), name.strip()): value for name, value in row.items()}
    filled = {name: value for name, value in named.items() if not _is_empty(value)}
    if "improvement" not in filled and {"before", "after"} <= set(filled):
        filled["improvement"] = _difference(filled["after"], filled["before"])
    return filled


def _is_empty(value: Any) -> bool:
    """Whether a field says nothing: empty, null, or the NaN that data frames keep for missing numbers."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _difference(after: Any, before: Any) -> Any:
    """After minus before; the first of them that is no number is left for validation to name."""
    try:
        return float(after) - float(before)
    except (TypeError, ValueError):
        return after


def _explain(problem: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in problem["loc"]) or "row"
    if problem["type"] == "missing":
        return f"`{name}` is missing"
    if problem["type"] == "extra_forbidden":
        return f"`{name}` is no column of ours"
    return f"`{name}`: {problem['msg']} (found {problem.get('input')!r})"


def _refuse_repeated(records: Sequence[RunRecord], file: Path) -> None:
    counts = Counter((record.spec.hint, record.spec.seed, record.spec.key) for record in records)
    repeated = [f"{hint} seed {seed}" for (hint, seed, _), count in counts.items() if count > 1]
    if repeated:
        raise DataError(
            "a run stands in the file more than once",
            where=str(file),
            found=", ".join(repeated[:8]),
            expected="each training once; other seeds have other numbers in `seed`",
        )
