"""Record a finished run: the probe's own instrument on the final checkpoint, never the trainer's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from predictor.errors import RunError
from predictor.launch.ledger import Meter, metered, seconds_of
from predictor.launch.process import read_result, started_at
from predictor.probe import OnProgress, Probe
from predictor.probe.estimates import Measured
from predictor.records import (
    Cost,
    GapEstimate,
    RunConfig,
    RunRecord,
    RunState,
    TrainResult,
    current_provenance,
)
from predictor.stats import difference
from predictor.store import Study


def find_record(study: Study, key: str) -> RunRecord | None:
    """The last record of a run; None when it was never recorded."""
    records = [record for record in study.records("runs", RunRecord) if record.spec.key == key]
    return records[-1] if records else None


def record_run(probe: Probe, config: RunConfig, on_progress: OnProgress) -> RunRecord:
    """Measure the run's final weights on held-out and training examples and append its RunRecord.

    A run that is recorded already is returned as it stands; RunError when it has not finished training.
    """
    study, key = probe.study, config.spec.key
    known = find_record(study, key)
    if known is not None and known.state == "finished":
        return known
    run_dir = study.runs_dir / key
    result = read_result(run_dir)
    if result is None:
        raise RunError(
            "a run without result.json cannot be recorded",
            where=str(run_dir),
            fix="train it first: `gapcast launch`",
        )
    with metered(study, "record", key) as meter:
        _measure(probe, config, result, on_progress, meter)
    record = _finished(probe, config, result)
    study.append("runs", record)
    return record


def record_failure(study: Study, config: RunConfig, state: Literal["failed", "cancelled"], reason: str) -> RunRecord:
    """Append a run that did not finish; it stays in the table with its reason."""
    record = RunRecord(
        spec=config.spec,
        state=state,
        gap=gap_of(study, config.spec.hint),
        reason=reason,
        cost=_cost(study, config),
        started_at=started_at(study.runs_dir / config.spec.key),
        provenance=current_provenance(config_key=study.config.key),
    )
    study.append("runs", record)
    return record


def gap_of(study: Study, hint: str) -> GapEstimate | None:
    """The latest gap estimate of a hint config."""
    gaps = [gap for gap in study.records("gaps", GapEstimate) if gap.hint == hint]
    return gaps[-1] if gaps else None


def _measure(probe: Probe, config: RunConfig, result: TrainResult, on_progress: OnProgress, meter: Meter) -> None:
    key = config.spec.key
    checkpoint = probe.study.runs_dir / key / result.checkpoint
    arm = probe.factory.after(key)
    jobs = probe.factory.jobs(arm, probe.remeasured, probe.config.probe.rollouts, {})
    if not probe.instrument.missing(jobs):
        return

    def progress(stage: str, done: int, total: int) -> None:
        meter.tick()
        on_progress(stage, done, total)

    _serve_trained(probe, checkpoint, result)
    probe.instrument.collect(jobs, stage=f"record {key}", on_progress=progress)


def _serve_trained(probe: Probe, checkpoint: Path, result: TrainResult) -> None:
    """Serve the checkpoint; RunError when the student's rollouts keep the very log-probabilities they had before.

    A run that never met a hint learned nothing, and may be the initial model.
    """
    before = probe.initial_scores
    probe.instrument.serve(checkpoint)
    if result.coverage > 0.0 and probe.canary and probe.engine.score(probe.canary) == before:
        raise RunError(
            "the trained weights cannot be told from the initial ones, and an improvement would be noise",
            where=str(checkpoint),
            found=f"the same log-probabilities to the last bit on {len(probe.canary)} rollouts",
            expected="other ones, because the run was trained",
            fix="check that the checkpoint holds what was trained (adapters merged), train longer or with a larger "
            "learning rate, or probe with model.dtype: float32",
        )


def _finished(probe: Probe, config: RunConfig, result: TrainResult) -> RunRecord:
    key = config.spec.key
    student_arm, after_arm = probe.factory.student(), probe.factory.after(key)
    measured = Measured.from_frame(probe.study.rollouts.read([student_arm.key, after_arm.key]))
    before, after = measured.accuracies(student_arm), measured.accuracies(after_arm)
    train_before = measured.accuracies(student_arm, "train")
    train_after = measured.accuracies(after_arm, "train")
    state: RunState = "finished"
    return RunRecord(
        spec=config.spec,
        state=state,
        gap=gap_of(probe.study, config.spec.hint),
        before=before.estimate(),
        after=after.estimate(),
        improvement=difference(after, before),
        train_before=train_before.estimate(),
        train_after=train_after.estimate(),
        train_improvement=difference(train_after, train_before),
        baseline_id=student_arm.key,
        decoding=config.sampling.content_hash()[:16],
        training_key=config.training.content_hash()[:16],
        truncated=measured.truncated(after_arm),
        undecided=after.undecided,
        cost=_cost(probe.study, config, result),
        started_at=started_at(probe.study.runs_dir / key),
        provenance=current_provenance(
            config_key=probe.config.key, engine=probe.engine.name, engine_version=probe.engine.version
        ),
    )


def _cost(study: Study, config: RunConfig, result: TrainResult | None = None) -> Cost:
    """Charged seconds of the run; where the ledger knows none (an outside run), the trainer's own clock."""
    key = config.spec.key
    kind: Literal["pilot", "train"] = "pilot" if config.spec.fidelity == "pilot" else "train"
    charged = seconds_of(study, kind, key)
    train = charged if charged or result is None else result.seconds
    return Cost(train_seconds=train, eval_seconds=seconds_of(study, "record", key))
