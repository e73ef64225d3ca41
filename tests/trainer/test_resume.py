"""A run killed at any instant and started again ends with the same weights and the same metrics, none doubled."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from predictor.errors import StoreError, StudyError
from trainer.stop import RunStopped, StopRequest
from trainer.train import train

WriteRun = Callable[..., Path]
NUM_STEPS = 9
EMA = {"teacher": {"kind": "ema", "rate": 0.1}}

# A server that has imported the trainer forks each process to be killed, so that a start takes no seconds.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["trainer.train", "transformers.models.llama.modeling_llama"])


def metrics(directory: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without their wall-clock seconds."""
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def weights(directory: Path) -> bytes:
    return (directory / "checkpoint" / "model.safetensors").read_bytes()


def outcome(directory: Path) -> tuple[bytes, list[dict[str, Any]], dict[str, Any]]:
    """Everything that must not depend on interruptions."""
    result = json.loads((directory / "result.json").read_text())
    kept = {k: v for k, v in result.items() if k not in ("seconds", "provenance")}
    return weights(directory), metrics(directory), kept


def lines(directory: Path) -> int:
    path = directory / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(directory: Path, num_lines: int, delay_s: float) -> bool:
    """Train in another process and kill it `delay_s` after a number of finished steps; whether it was still alive."""
    child = _SERVER.Process(target=train, args=(directory,))
    child.start()
    while child.is_alive() and lines(directory) < num_lines:
        time.sleep(0.001)
    time.sleep(delay_s)
    alive = child.is_alive()
    child.kill()
    child.join()
    return alive


def check_kills(write_run: WriteRun, instants: list[tuple[int, float]]) -> None:
    undisturbed = write_run("undisturbed", training=EMA, num_steps=NUM_STEPS)
    train(undisturbed)
    killed = write_run("killed", training=EMA, num_steps=NUM_STEPS)
    interrupted = [kill_after(killed, num_lines, delay_s) for num_lines, delay_s in instants]
    assert any(interrupted)
    train(killed)
    assert outcome(killed) == outcome(undisturbed)
    assert [line["step"] for line in metrics(killed)] == list(range(1, NUM_STEPS + 1))
    assert sorted(p.name for p in killed.iterdir()) == [
        ".lock",
        "checkpoint",
        "metrics.jsonl",
        "result.json",
        "run.json",
    ]


def test_a_run_killed_three_times_ends_as_if_undisturbed(write_run: WriteRun) -> None:
    """F23: resumed runs have one teacher, where it was; its weights end as if undisturbed."""
    rng = np.random.default_rng(7)
    # Between two checkpoints, during one (every second step writes one), and late in the run.
    check_kills(write_run, [(1, float(rng.uniform(0, 0.02))), (4, float(rng.uniform(0, 0.02))), (7, 0.0)])


@pytest.mark.slow
def test_a_run_killed_at_ten_random_instants_ends_as_if_undisturbed(write_run: WriteRun) -> None:
    rng = np.random.default_rng(11)
    instants = [(int(rng.integers(0, NUM_STEPS)), float(rng.uniform(0, 0.3))) for _ in range(10)]
    check_kills(write_run, instants)


@pytest.mark.parametrize(("teacher", "signum"), [("frozen", signal.SIGINT), ("ema", signal.SIGTERM)])
def test_a_run_stopped_by_a_signal_goes_on_to_the_same_end(
    write_run: WriteRun, teacher: str, signum: signal.Signals
) -> None:
    handler = signal.getsignal(signum)
    training = EMA if teacher == "ema" else {}
    undisturbed = write_run("undisturbed", training=training)
    train(undisturbed)
    stopped = write_run("stopped", training=training)

    class AfterThreeSteps(StopRequest):
        def raise_if_asked(self, num_steps: int) -> None:
            super().raise_if_asked(num_steps)
            if num_steps == 2 and lines(stopped) == 2 and not (stopped / "seen").exists():
                (stopped / "seen").touch()
                os.kill(os.getpid(), signum)

    with pytest.raises(RunStopped) as caught:
        train(stopped, AfterThreeSteps())
    assert caught.value.exit_code == 128 + signum
    assert "after step 3" in str(caught.value)
    assert [path.name for path in (stopped / "state").iterdir()] == ["step-00000003"]
    assert signal.getsignal(signum) is handler
    train(stopped)
    assert outcome(stopped) == outcome(undisturbed)


def test_a_finished_run_is_left_alone(write_run: WriteRun) -> None:
    directory = write_run()
    first = train(directory)
    stamps = {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}
    assert train(directory) == first
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()} == stamps


def test_a_kill_between_result_and_cleaning_up_leaves_a_finished_run(write_run: WriteRun) -> None:
    directory = write_run()
    train(directory)
    (directory / "state" / "step-00000004").mkdir(parents=True)
    train(directory)
    assert not (directory / "state").exists()


def stop_early(directory: Path) -> None:
    """Leave the run after its first checkpoint, as a kill would."""
    assert kill_after(directory, 3, 0.0)
    assert (directory / "state").is_dir()


def test_another_run_file_or_model_cannot_go_on_from_a_checkpoint(
    write_run: WriteRun, tiny_model_dir: Path, tmp_path: Path
) -> None:
    model_dir = tmp_path / "model"
    shutil.copytree(tiny_model_dir, model_dir)
    directory = write_run(num_steps=40, model_dir=str(model_dir))
    stop_early(directory)
    text = (directory / "run.json").read_text()
    (directory / "run.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(StudyError, match=r"run\.json has changed"):
        train(directory)
    (directory / "run.json").write_text(text)

    path = model_dir / "model.safetensors"
    save_file({name: 1.01 * weight for name, weight in load_file(path).items()}, path, {"format": "pt"})
    with pytest.raises(StudyError, match="initial model has changed"):
        train(directory)


def test_a_damaged_state_is_an_error_that_says_how_to_start_over(write_run: WriteRun) -> None:
    directory = write_run(num_steps=40)
    stop_early(directory)
    newest = max((directory / "state").glob("step-*"))
    (newest / "student.safetensors").write_bytes(b"")
    with pytest.raises(StoreError, match="damaged") as caught:
        train(directory)
    assert "remove the run's `state` directory" in str(caught.value)
