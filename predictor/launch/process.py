"""Local training processes: start `gapcast-train`, watch it, and stop it at the budget.

predictor never imports trainer: it writes run.json, starts the command, and reads metrics.jsonl and result.json.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from predictor.errors import BudgetError, RunError
from predictor.records import RunConfig, TrainResult, utc_now
from predictor.store import write_text

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
LOG_FILE = "train.log"
STARTED_FILE = "started.json"
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 60.0
"""How long a trainer may take to finish its step and write a checkpoint after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What to do while a run trains, and when to stop it."""

    on_step: Callable[[int], None]
    """Called about five times a second with the number of finished steps."""
    deadline_seconds: float
    """Seconds after which the run is stopped."""


def write_run(run_dir: Path, config: RunConfig) -> None:
    """Write run.json once; RunError when the directory holds another run."""
    path = run_dir / RUN_FILE
    if path.exists():
        stored = RunConfig.model_validate_json(path.read_text(encoding="utf-8"))
        if stored.spec != config.spec:
            raise RunError("a run directory holds another run", where=str(run_dir), fix="remove the directory")
        return
    write_text(path, config.model_dump_json(indent=2) + "\n")


def mark_started(run_dir: Path) -> None:
    """Write the time at which training first began; a resumed run keeps the first one."""
    path = run_dir / STARTED_FILE
    if not path.exists():
        write_text(path, json.dumps({"started_at": utc_now()}) + "\n")


def started_at(run_dir: Path) -> str:
    """When training first began, ISO 8601 UTC; empty when it never did."""
    path = run_dir / STARTED_FILE
    return str(json.loads(path.read_text(encoding="utf-8"))["started_at"]) if path.exists() else ""


def read_result(run_dir: Path) -> TrainResult | None:
    """The trainer's result; None while the run is not finished."""
    path = run_dir / RESULT_FILE
    if not path.exists():
        return None
    try:
        return TrainResult.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise RunError("a run's result.json is damaged", where=str(path), found=str(error)[:200]) from None


def train(run_dir: Path, watch: Watch) -> TrainResult:
    """Train (or go on training) the run until its result is there.

    BudgetError when the deadline passes, RunError with the log's last lines when the trainer fails.
    """
    _wait_for_orphan(run_dir, watch)
    result = read_result(run_dir)
    if result is not None:
        return result
    code = _run_process(run_dir, watch)
    result = read_result(run_dir)
    if code != 0 or result is None:
        raise RunError(
            f"training ended with exit code {code}",
            where=str(run_dir / LOG_FILE),
            found=log_tail(run_dir),
            fix="read the log; `gapcast launch` tries the run again after its directory is removed",
        )
    return result


def calibrate(run_dir: Path) -> dict[str, Any]:
    """Measured `seconds_per_step` and `start_seconds` of a run that is not started; RunError when the check fails."""
    command = [*_command(), "check", str(run_dir), "--calibrate", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RunError("the trainer refuses this run", where=str(run_dir / RUN_FILE), found=done.stderr.strip()[-800:])
    return dict(json.loads(done.stdout))


def steps_done(run_dir: Path) -> int:
    """Finished steps by the run's metrics file."""
    path = run_dir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def log_tail(run_dir: Path, lines: int = 12) -> str:
    """Last lines of the run's log."""
    path = run_dir / LOG_FILE
    if not path.exists():
        return ""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _command() -> list[str]:
    return [sys.executable, "-m", "trainer.cli"]


def _run_process(run_dir: Path, watch: Watch) -> int:
    end = time.monotonic() + watch.deadline_seconds
    with (run_dir / LOG_FILE).open("ab") as log:
        child = subprocess.Popen([*_command(), "run", str(run_dir)], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            while (code := _poll(child)) is None:
                watch.on_step(steps_done(run_dir))
                if time.monotonic() > end:
                    raise BudgetError(
                        "a run was stopped because the budget is spent",
                        where=str(run_dir),
                        found=f"{steps_done(run_dir)} steps done",
                        fix="raise plan.budget and start again: the run goes on from its checkpoint",
                    )
        finally:
            _stop(child)
    return code


def _poll(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(timeout=_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a child that still runs: politely, so that it writes a checkpoint, then for good."""
    if child.poll() is not None:
        return
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _wait_for_orphan(run_dir: Path, watch: Watch) -> None:
    """Wait for a trainer that outlived a killed launcher; it holds the run's lock."""
    with (run_dir / ".lock").open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                watch.on_step(steps_done(run_dir))
                time.sleep(_POLL_SECONDS)
                continue
            return
