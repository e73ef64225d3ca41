"""Launch: turn planned runs into run directories, train them as local processes, record each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from predictor.errors import BudgetError, RunError
from predictor.launch.ledger import ChargeKind, Meter, charged_seconds, metered, seconds_of
from predictor.launch.process import RUN_FILE, Watch, calibrate, mark_started, read_result, train, write_run
from predictor.launch.record import find_record, gap_of, record_failure, record_run
from predictor.probe import OnProgress, Probe
from predictor.records import (
    Fidelity,
    HintConfig,
    Record,
    RunConfig,
    RunRecord,
    RunSpec,
    content_hash,
)
from predictor.store import Study

__all__ = [
    "Calibration",
    "Meter",
    "RunRequest",
    "calibrated",
    "charged_seconds",
    "find_record",
    "gap_of",
    "launch_run",
    "metered",
    "read_result",
    "read_run",
    "record_failure",
    "record_run",
    "run_config",
    "seconds_of",
]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run that the plan chose."""

    hint: str
    seed: int
    fidelity: Fidelity
    num_steps: int


class Calibration(Record):
    """calibration.json: what one training step and one start cost here, measured before the plan."""

    training_key: str
    """Hash of model and training settings that it was measured for."""
    seconds_per_step: float
    start_seconds: float
    """From starting the training process to its first step."""
    swap_seconds: float
    """Loading a checkpoint into the probing engine."""


def run_config(study: Study, model_dir: Path, request: RunRequest) -> RunConfig:
    """Everything `gapcast-train` needs for one run; equal requests have equal keys."""
    config = study.config
    hint = hint_config(study, request.hint)
    training = config.training.resolved
    settings = [
        hint.model_dump(mode="json"),
        config.sampling.model_dump(mode="json"),
        training.model_dump(mode="json"),
    ]
    spec = RunSpec(
        model=config.model.path,
        family=config.model.law_family,
        task=config.task.key,
        hint=hint.name,
        preset=config.training.preset,
        num_steps=request.num_steps,
        seed=request.seed,
        fidelity=request.fidelity,
        config_key=content_hash(settings)[:16],
    )
    return RunConfig(
        spec=spec,
        model=config.model,
        model_dir=str(model_dir.resolve()),
        task=config.task,
        task_dir=str(study.path.resolve()),
        hint=hint,
        sampling=config.sampling,
        training=training,
    )


def hint_config(study: Study, name: str) -> HintConfig:
    """The study's hint config of that name; RunError when there is none."""
    for hint in study.config.hints:
        if hint.name == name:
            return hint
    raise RunError(f"the study has no hint config `{name}`", expected=", ".join(h.name for h in study.config.hints))


def read_run(study: Study, key: str) -> RunConfig:
    """run.json of a run in this study; RunError when there is none."""
    path = study.runs_dir / key / RUN_FILE
    if not path.exists():
        known = sorted(p.name for p in study.runs_dir.glob("*") if (p / RUN_FILE).exists())
        raise RunError(f"there is no run `{key}`", where=str(study.runs_dir), expected=", ".join(known) or "none yet")
    return RunConfig.model_validate_json(path.read_text(encoding="utf-8"))


def launch_run(
    study: Study,
    open_probe: Callable[[], Probe],
    config: RunConfig,
    *,
    budget_seconds: float,
    on_progress: OnProgress,
) -> RunRecord:
    """Train one run to its last step and record it; a failure is recorded too, and a spent budget stops it.

    The probe is opened after training, so that no engine holds the accelerator's memory meanwhile. BudgetError leaves
    the run's checkpoint in place: with a larger budget it goes on.
    """
    key = config.spec.key
    known = find_record(study, key)
    if known is not None and known.state == "finished":
        return known
    run_dir = study.runs_dir / key
    write_run(run_dir, config)
    mark_started(run_dir)
    total = config.spec.num_steps
    kind: ChargeKind = "pilot" if config.spec.fidelity == "pilot" else "train"
    try:
        with metered(study, kind, key) as meter:

            def on_step(done: int) -> None:
                meter.tick()
                on_progress(f"train {config.spec.hint} seed {config.spec.seed}", done, total)

            train(run_dir, Watch(on_step, budget_seconds))
        return record_run(open_probe(), config, on_progress)
    except BudgetError as error:
        record_failure(study, config, "cancelled", error.what)
        raise
    except RunError as error:
        return record_failure(study, config, "failed", str(error))


def calibrated(
    study: Study, open_probe: Callable[[], Probe], config: RunConfig, *, release: Callable[[], None]
) -> Calibration:
    """Measured cost of a step and of a start; measured once for a model and its training settings, and charged.

    `release` gives the accelerator's memory back before the trainer is tried.
    """
    key = content_hash([config.spec.model, config.training.model_dump(mode="json")])[:16]
    stored = study.read("calibration", Calibration)
    if stored is not None and stored.training_key == key:
        return stored
    run_dir = study.runs_dir / ".calibration"
    (run_dir / RUN_FILE).unlink(missing_ok=True)
    write_run(run_dir, config)
    with metered(study, "calibration"):
        release()
        measured = calibrate(run_dir)
        probe = open_probe()
        before_swap = time.monotonic()
        probe.engine.update_weights(probe.model_dir)
        swap_seconds = time.monotonic() - before_swap
        probe.instrument.started_with(probe.model_dir)
    calibration = Calibration(
        training_key=key,
        seconds_per_step=float(measured["seconds_per_step"]),
        start_seconds=float(measured["start_seconds"]),
        swap_seconds=swap_seconds,
    )
    study.write("calibration", calibration)
    return calibration
