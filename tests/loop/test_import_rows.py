"""Outside runs become records with what was said about them, and with nothing else."""

from __future__ import annotations

import base64
import csv
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predictor.errors import DataError
from predictor.forecast import score
from predictor.law import LinearLaw
from predictor.loop.outside import import_rows, store_rows
from predictor.loop.outside.read import ALIASES, COLUMNS
from predictor.records import FrozenForecast, RunRecord
from predictor.report.rows import LAW_COLUMNS, downloads
from predictor.store import Study
from tests.planted_study import OUTCOMES, planted_study

ROW: dict[str, Any] = {
    "family": "qwen3",
    "model": "Qwen3-1.7B",
    "task": "gsm8k",
    "hint": "first-step",
    "gap": 0.147,
    "gap_stderr": 0.056,
    "num_units": 300,
    "before": 0.807,
    "improvement": 0.061,
    "improvement_stderr": 0.02,
    "num_steps": 200,
    "checkpoint_rule": "final",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return planted_study(tmp_path_factory.mktemp("import") / "study")


def write_csv(path: Path, *rows: dict[str, Any]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_table(path: Path, *rows: dict[str, Any]) -> Path:
    if path.suffix == ".csv":
        return write_csv(path, *rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_row_becomes_a_record_with_its_numbers_and_its_source(study: Study, tmp_path: Path, suffix: str) -> None:
    (record,) = import_rows(study, write_table(tmp_path / f"runs{suffix}", ROW), "rows")
    assert record.gap is not None
    assert record.improvement is not None
    assert (record.gap.gap.value, record.gap.gap.stderr, record.gap.gap.num_units) == (0.147, 0.056, 300)
    assert (record.improvement.value, record.improvement.stderr) == (0.061, 0.02)
    assert (record.spec.family, record.spec.model, record.spec.task) == ("qwen3", "Qwen3-1.7B", "gsm8k")
    assert (record.spec.num_steps, record.checkpoint_rule, record.state) == (200, "final", "finished")
    assert record.source == "rows"
    assert record.provenance.engine == "import of rows"
    assert record.gap.student.value == 0.807
    assert record.gap.teacher.value == pytest.approx(0.954)


def test_what_nobody_said_stays_unknown(study: Study, tmp_path: Path) -> None:
    row = {name: value for name, value in ROW.items() if name != "before"}
    (record,) = import_rows(study, write_csv(tmp_path / "runs.csv", row), "rows")
    assert record.gap is not None
    assert record.before is None
    assert record.after is None
    assert record.gap.consensus_gap is None
    assert math.isnan(record.gap.student.value)
    assert math.isnan(record.gap.teacher.value)
    assert math.isnan(record.gap.truncated)
    assert (record.started_at, record.baseline_id, record.decoding) == ("", "", "unknown")
    assert record.cost is None


@pytest.mark.parametrize(
    "name", ["family", "gap", "gap_stderr", "improvement", "improvement_stderr", "num_units", "num_steps", "task"]
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_missing_fact_is_one_error_that_names_row_and_column(
    study: Study, tmp_path: Path, name: str, suffix: str
) -> None:
    file = write_table(tmp_path / f"runs{suffix}", ROW, ROW | {name: None, "seed": 1} | {"before": None})
    with pytest.raises(DataError, match="cannot be imported") as caught:
        import_rows(study, file, "rows")
    assert f"`{name}` is missing" in caught.value.found
    assert "`unknown`" in caught.value.fix


@pytest.mark.parametrize("value", [math.nan, "nan", -0.1, "about 0.1", math.inf])
def test_a_standard_error_is_a_number_or_the_word_unknown(study: Study, tmp_path: Path, value: object) -> None:
    with pytest.raises(DataError, match="cannot be imported"):
        import_rows(study, write_csv(tmp_path / "runs.csv", ROW | {"gap_stderr": value}), "rows")


def test_a_standard_error_that_is_declared_unknown_is_nan_and_the_law_refuses_it(study: Study, tmp_path: Path) -> None:
    (record,) = import_rows(study, write_csv(tmp_path / "runs.csv", ROW | {"improvement_stderr": "unknown"}), "rows")
    assert record.improvement is not None
    assert math.isnan(record.improvement.stderr)
    with pytest.raises(ValueError, match="missing numbers"):
        LinearLaw(predictor="gap").fit([record])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gap": 14.7}, "`gap`"),
        ({"before": 80.7}, "`before`"),
        ({"checkpoint_rule": "peak"}, "`checkpoint_rule`"),
        ({"wall_clock": 3}, "`wall_clock` is no column of ours"),
        ({"num_steps": 0}, "`num_steps`"),
        ({"consensus_gap": 0.1}, "come together"),
    ],
)
def test_a_number_that_cannot_be_is_named(study: Study, tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match="cannot be imported") as caught:
        import_rows(study, write_csv(tmp_path / "runs.csv", ROW | change), "rows")
    assert told in caught.value.found


def test_many_bad_rows_are_counted_not_listed_without_end(study: Study, tmp_path: Path) -> None:
    rows = [ROW | {"gap": "x", "seed": seed} for seed in range(30)]
    with pytest.raises(DataError) as caught:
        import_rows(study, write_csv(tmp_path / "runs.csv", *rows), "rows")
    assert "and 24 more" in caught.value.found


def test_other_tools_names_are_understood_and_improvement_is_after_minus_before(study: Study, tmp_path: Path) -> None:
    ours = {name: value for name, value in ROW.items() if name != "improvement"} | {"after": 0.868}
    theirs = {old: ours.pop(new) for old, new in ALIASES.items() if new in ours}
    (record,) = import_rows(study, write_csv(tmp_path / "runs.csv", ours | theirs), "rows")
    assert record.improvement is not None
    assert record.improvement.value == pytest.approx(0.061)
    assert record.spec.hint == "first-step"


def test_rows_without_seed_are_numbered_and_repeated_seeds_refused(study: Study, tmp_path: Path) -> None:
    records = import_rows(study, write_csv(tmp_path / "runs.csv", ROW, ROW, ROW | {"hint": "other"}), "rows")
    assert [(record.spec.hint, record.spec.seed) for record in records] == [
        ("first-step", 0),
        ("first-step", 1),
        ("other", 0),
    ]
    with pytest.raises(DataError, match="more than once"):
        import_rows(study, write_csv(tmp_path / "twice.csv", ROW | {"seed": 3}, ROW | {"seed": 3}), "rows")


def test_the_word_study_means_the_studys_own_model_and_task(study: Study, tmp_path: Path) -> None:
    row = ROW | {"family": "study", "model": "study", "task": "study", "hint": "demo-1"}
    (record,) = import_rows(study, write_csv(tmp_path / "runs.csv", row), "rows")
    assert record.spec.task == study.config.task.key
    assert record.spec.model == study.config.model.path
    assert record.gap is not None
    assert record.gap.kind == "demonstrations"


def test_the_reports_own_table_imports_again_with_the_same_numbers(study: Study, tmp_path: Path) -> None:
    runs = study.records("runs", RunRecord)
    uri = next(file.uri for file in downloads([], runs) if file.name == "runs.csv")
    file = tmp_path / "runs.csv"
    file.write_bytes(base64.b64decode(uri.partition("base64,")[2]))
    again = {record.spec.hint: record for record in import_rows(study, file, "rows")}
    assert set(again) == set(OUTCOMES)
    for run in runs[:2]:
        other = again[run.spec.hint]
        assert other.improvement == run.improvement
        assert other.gap is not None
        assert run.gap is not None
        assert (other.gap.gap, other.gap.student) == (run.gap.gap, run.gap.student)
        assert (other.before, other.after, other.decoding) == (run.before, run.after, run.decoding)
    assert set(LAW_COLUMNS) == set(COLUMNS)
    with file.open(encoding="utf-8", newline="") as stream:
        assert tuple(next(csv.reader(stream))) == LAW_COLUMNS


def test_importing_twice_stores_nothing_twice_and_other_numbers_are_refused(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "new")
    records = import_rows(study, write_csv(tmp_path / "runs.csv", ROW, ROW | {"hint": "b"}), "rows")
    assert store_rows(study, records) == records
    assert store_rows(study, records) == []
    assert len(study.records("runs", RunRecord)) == 2
    changed = import_rows(study, write_csv(tmp_path / "runs2.csv", ROW | {"improvement": 0.5}), "rows")
    with pytest.raises(DataError, match="other numbers"):
        store_rows(study, changed)


def test_an_imported_run_is_never_scored_as_if_it_had_been_forecast(study: Study, tmp_path: Path) -> None:
    row = ROW | {"family": "study", "model": "study", "task": "study", "hint": "rule"}
    (record,) = import_rows(study, write_csv(tmp_path / "runs.csv", row), "rows")
    result = score(study.records("forecasts", FrozenForecast), [record])
    assert result.scored == ()
    assert "does not say when training began" in result.refused[0].reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.csv", b""),
        ("runs.csv", b"family,model\nqwen3\n"),
        ("runs.csv", b"\xff\xfe\x00"),
        ("runs.jsonl", b"[1, 2]"),
        ("runs.jsonl", b"{oops"),
        ("runs.parquet", b"not parquet"),
        ("runs.xlsx", b""),
    ],
)
def test_a_file_that_is_no_table_is_one_clear_error(study: Study, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        import_rows(study, tmp_path / name, "rows")
    with pytest.raises(DataError):
        import_rows(study, tmp_path / "missing.csv", "rows")
