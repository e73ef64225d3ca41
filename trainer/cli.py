"""The command `gapcast-train`: check a run, train it, go on with it. Results to stdout, progress to stderr."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from predictor.errors import GapcastError, StudyError

# torch, transformers and the records are imported inside the commands, so that --help answers at once.
_STARTED = time.monotonic()

app = App(
    name="gapcast-train",
    help="Train one run directory that `gapcast launch` (or you) wrote a run.json into.",
    version_flags=[],
    result_action="return_value",
)

RunDir = Annotated[Path, Parameter(help="Directory that holds run.json.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print the result as JSON.")]


@app.command
def check(
    run_dir: RunDir,
    *,
    calibrate: Annotated[bool, Parameter(negative="", help="Time two steps; nothing is saved.")] = False,
    as_json: Json = False,
) -> None:
    """Validate run.json and show both prompts of two examples; with --calibrate also time two steps."""
    from trainer.check import check_run

    _quiet()
    report = check_run(run_dir, started=_STARTED, calibrate=calibrate)
    if as_json:
        _print(json.dumps(report, ensure_ascii=False))
        return
    for prompt in report.pop("prompts"):
        _print(f"--- {prompt['example_id']}, student prompt, {prompt['student_tokens']} tokens\n{prompt['student']}")
        _print(f"--- {prompt['example_id']}, teacher prompt, {prompt['teacher_tokens']} tokens\n{prompt['teacher']}")
    for name, value in report.items():
        _print(f"{name}: {value}")


@app.command
def run(run_dir: RunDir, *, as_json: Json = False) -> None:
    """Train to the last step, going on from the newest checkpoint; a finished run is left as it is."""
    from trainer.config import RunFiles
    from trainer.train import train

    if RunFiles(run_dir).result.exists():
        sys.stderr.write(f"{run_dir} is already finished\n")
    _quiet()
    result = train(run_dir)
    if as_json:
        _print(result.model_dump_json())
    else:
        _print(f"{run_dir}: {result.num_steps} steps, {result.seconds:.1f} s, final loss {result.final_loss:.4f}")


@app.command
def resume(run_dir: RunDir, *, as_json: Json = False) -> None:
    """Go on with a run that was stopped or killed; refuses one that was never started."""
    from trainer.config import RunFiles

    files = RunFiles(run_dir)
    # metrics.jsonl appears before the first step, a checkpoint only after some.
    if not files.metrics.exists() and not files.result.exists():
        raise StudyError(
            "there is nothing to resume", where=str(run_dir), fix=f"start it with `gapcast-train run {run_dir}`"
        )
    run(run_dir, as_json=as_json)


def main(arguments: list[str] | None = None) -> None:
    """Entry point; exit code 0 done, 1 failed, 2 wrong usage or input, 130 or 143 stopped by a signal."""
    try:
        app(arguments, exit_on_error=False)
    except CycloptsError:
        # cyclopts has said what is wrong.
        sys.exit(2)
    except GapcastError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _quiet() -> None:
    """No progress bars of transformers between our own lines."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _print(text: Any) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
