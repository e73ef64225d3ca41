"""The command: what it prints, and the code it exits with."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from predictor.errors import StoreError
from predictor.records import HintConfig
from trainer import checkpoint
from trainer.cli import main

WriteRun = Callable[..., Path]
COMMAND = [sys.executable, "-m", "trainer.cli"]
ROOT = Path(__file__).parents[2]


def exit_code(*arguments: str) -> int:
    try:
        main(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def processor_seconds_at_best(limit_s: float, *command: str) -> tuple[float, str]:
    """Least processor time of a few starts, and the output; other tests share the cores and slow each other down."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    best, output = math.inf, ""
    for _ in range(12):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        output = done.stdout
        if best < limit_s:
            break
    return best, output


def test_help_answers_within_half_a_second_and_loads_no_torch() -> None:
    seconds, shown = processor_seconds_at_best(0.5, *COMMAND, "--help")
    assert all(word in shown for word in ("check", "run", "resume"))
    assert seconds < 0.5
    code = "import sys, trainer.cli; print([n for n in ('torch', 'transformers', 'scipy') if n in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_check_shows_both_prompts_and_writes_nothing(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_run()
    assert exit_code("check", str(directory), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"key", "prompts"}
    assert len(report["prompts"]) == 2
    for prompt in report["prompts"]:
        assert prompt["teacher"] == prompt["student"].replace("<bos>", "<bos> rule reverse")
        assert prompt["teacher_tokens"] == prompt["student_tokens"] + 2
    assert [path.name for path in directory.iterdir()] == ["run.json"]


def test_check_shows_feedback_hints_for_an_empty_attempt(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = HintConfig(name="feedback", kind="feedback", template="tried {{ attempt }} note {{ hint }}")
    assert exit_code("check", str(write_run(hint=hint))) == 0
    shown = capsys.readouterr().out
    assert "student prompt" in shown
    assert "tried  note" in shown


def test_check_calibrates_without_saving(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_run()
    assert exit_code("check", str(directory), "--calibrate", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert 0 < report["seconds_per_step"] < 30
    assert report["start_seconds"] > 0
    assert report["peak_memory_bytes"] > 2**26
    assert [path.name for path in directory.iterdir()] == ["run.json"]


def test_run_trains_then_says_it_is_finished(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_run()
    assert exit_code("run", str(directory), "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads((directory / "result.json").read_text())
    assert "step 6/6" in captured.err
    for command in ("run", "resume"):
        assert exit_code(command, str(directory)) == 0
        captured = capsys.readouterr()
        assert "already finished" in captured.err
        assert "6 steps" in captured.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "{missing}"], "no readable run.json"),
        (["run", "{missing}"], "no readable run.json"),
        (["resume", "{run}"], "nothing to resume"),
        (["run"], "run-dir"),
        (["paint", "{run}"], "paint"),
        (["run", "{run}", "--seed", "1"], "--seed"),
        (["run", "{modelless}"], "model directory does not exist"),
    ],
)
def test_wrong_usage_and_input_exit_with_2_and_no_traceback(
    write_run: WriteRun, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    places = {
        "{run}": str(write_run()),
        "{missing}": str(tmp_path / "missing"),
        "{modelless}": str(write_run("modelless", model_dir=str(tmp_path / "nowhere"))),
    }
    assert exit_code(*(places.get(argument, argument) for argument in arguments)) == 2
    captured = capfd.readouterr()
    assert message in captured.out + captured.err
    assert "Traceback" not in captured.err


def test_a_full_disk_is_one_error_and_the_next_start_goes_on(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_run()
    save = checkpoint.save_file

    def full(tensors: object, path: Path) -> None:
        if "step-00000004" in str(path):
            raise OSError(28, "No space left on device")
        save(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    assert exit_code("run", str(directory)) == 1
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert "Traceback" not in error
    assert sorted(path.name for path in (directory / "state").iterdir()) == ["step-00000002"]
    monkeypatch.undo()
    assert exit_code("run", str(directory)) == 0
    with pytest.raises(StoreError):
        raise StoreError("still an OSError with parts")


def test_a_signal_finishes_the_step_and_exits_with_one_line(write_run: WriteRun) -> None:
    directory = write_run(num_steps=2000, training={"checkpoint_every": 1000})
    child = subprocess.Popen(
        [*COMMAND, "run", str(directory)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    path = directory / "metrics.jsonl"
    while child.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= 2):
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    _, error = child.communicate(timeout=300)
    assert child.returncode == 143
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("error: stopped by SIG")
    steps = len(path.read_text().splitlines())
    assert [p.name for p in (directory / "state").iterdir()] == [f"step-{steps:08d}"]
