"""The study directory: records come back, one command at a time holds it, and time is charged however work ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from predictor.errors import InputError, StoreError, StudyError
from predictor.launch.ledger import Meter, charged_seconds, metered, seconds_of
from predictor.records import Cost, Estimate, LedgerEntry
from predictor.store import Study, append_line

ROOT = Path(__file__).parents[2]
STUDY_YAML = """
model: {path: m}
task: {source: strings, options: {rule: reverse}}
hints: [{name: none, kind: none}]
plan: {budget: {seconds: 60}}
"""
ESTIMATE = Estimate(value=0.5, stderr=float("nan"), num_units=1)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "study.yaml").write_text(STUDY_YAML, encoding="utf-8")
    return Study(tmp_path)


def test_records_come_back_in_order_and_a_replacement_replaces_them(study: Study) -> None:
    assert study.records("numbers", Estimate) == []
    values = [Estimate(value=float(i), stderr=0.1, num_units=i) for i in range(4)]
    for value in values[:3]:
        study.append("numbers", value)
    assert study.records("numbers", Estimate) == values[:3]
    study.replace("numbers", values[2:])
    study.append("numbers", ESTIMATE)
    assert [again.to_json() for again in study.records("numbers", Estimate)] == [
        value.to_json() for value in (*values[2:], ESTIMATE)
    ]


def test_a_single_record_is_read_back_or_absent(study: Study) -> None:
    assert study.read("number", Estimate) is None
    study.write("number", ESTIMATE)
    again = study.read("number", Estimate)
    assert again is not None
    assert again.to_json() == ESTIMATE.to_json()


@pytest.mark.parametrize("content", ["", "{", '{"value": 1}', '{"train_seconds": 1, "eval_seconds": 1}', "null"])
def test_a_record_of_another_form_is_a_store_error_with_its_file(content: str, study: Study) -> None:
    (study.path / "number.json").write_text(content)
    with pytest.raises(StoreError, match="expected form") as caught:
        study.read("number", Estimate)
    assert caught.value.where.endswith("number.json")


def test_a_line_of_another_record_is_a_store_error(study: Study) -> None:
    study.append("numbers", Cost(train_seconds=1, eval_seconds=1))
    with pytest.raises(StoreError, match="expected form"):
        study.records("numbers", Estimate)
    append_line(study.path / "more.jsonl", {"value": "text", "stderr": 0, "num_units": 1})
    with pytest.raises(StoreError, match="expected form"):
        study.records("more", Estimate)


HOLD = """
import sys
from pathlib import Path
from predictor.store import Study
with Study(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_hold_a_study_and_a_killed_one_lets_go(study: Study) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(study.path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyError, match="another gapcast command"):
            enter(study)
        holder.kill()
    enter(study)


def enter(study: Study) -> None:
    with study.locked():
        assert (study.path / ".lock").exists()


def test_the_lock_is_free_again_after_an_error_and_not_shared_within_a_process(study: Study) -> None:
    with study.locked(), pytest.raises(StudyError, match="another gapcast command"):
        enter(study)
    enter(study)


def test_a_lock_that_cannot_be_made_is_a_store_error(study: Study) -> None:
    (study.path / ".lock").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        enter(study)


def fail_after_a_flush(study: Study) -> None:
    with metered(study, "train", "run-1") as meter:
        meter.flush()
        raise InputError("failed")


def test_time_is_charged_even_when_the_work_fails(study: Study) -> None:
    with pytest.raises(InputError):
        fail_after_a_flush(study)
    with metered(study, "train", "run-2"):
        pass
    with metered(study, "probe"):
        pass
    entries = study.records("ledger", LedgerEntry)
    assert [(entry.kind, entry.key) for entry in entries] == [
        ("train", "run-1"),
        ("train", "run-1"),
        ("train", "run-2"),
        ("probe", ""),
    ]
    assert all(entry.seconds >= 0.0 for entry in entries)
    assert charged_seconds(study) == pytest.approx(sum(entry.seconds for entry in entries))
    assert seconds_of(study, "train") == pytest.approx(sum(entry.seconds for entry in entries[:3]))
    assert seconds_of(study, "train", "run-2") == entries[2].seconds
    assert seconds_of(study, "record") == 0.0


def test_a_meter_counts_every_second_once_in_pieces_worth_a_line(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 105.0, 116.0, 116.0, 117.0, 120.5])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    meter = Meter(study, "probe")
    meter.tick()
    meter.tick()
    assert [entry.seconds for entry in study.records("ledger", LedgerEntry)] == [16.0]
    meter.tick()
    meter.flush()
    assert charged_seconds(study) == meter.seconds == 20.5


def test_a_study_without_runs_has_charged_nothing(study: Study) -> None:
    assert charged_seconds(study) == 0
    assert study.runs_dir == study.path / "runs"


def test_a_torn_charge_costs_only_itself(study: Study) -> None:
    entry: dict[str, Any] = {"kind": "probe", "seconds": 2.0, "time_utc": "t"}
    for _ in range(2):
        study.append("ledger", LedgerEntry(**entry))
    ledger = study.path / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-5])
    assert charged_seconds(study) == 2.0
    study.append("ledger", LedgerEntry(**entry))
    assert charged_seconds(study) == 4.0
