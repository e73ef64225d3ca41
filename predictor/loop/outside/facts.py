"""One outside run as facts, and the record that follows from them; nothing is filled in that was not said."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from predictor.config import StudyConfig
from predictor.records import (
    Estimate,
    GapEstimate,
    HintKind,
    Provenance,
    Record,
    RunRecord,
    RunSpec,
    content_hash,
)

UNKNOWN = "unknown"
"""What a field says to declare that its number is not known; an empty field is an error instead."""
OWN = "study"
"""What model, family or task say to mean the study's own."""


def _standard_error(value: Any) -> float:
    """The number, or NaN for the word `unknown`; a NaN that nobody declared is refused like any other bad number."""
    if isinstance(value, str) and value.strip().lower() == UNKNOWN:
        return math.nan
    # NaN fails this comparison: data frames use it for missing numbers, which nobody declared.
    if not isinstance(value, str | int | float) or not 0.0 <= float(value) < math.inf:
        raise ValueError(f"a standard error is a number of at least 0, or the word `{UNKNOWN}`")
    return float(value)


StandardError = Annotated[float, BeforeValidator(_standard_error)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Change = Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)]


class OutsideRun(Record):
    """One run as another tool's table or log tells it; shares of 1 throughout."""

    family: str = Field(min_length=1)
    """Law family; `study` is the study's own, as for `model` and `task`."""
    model: str = Field(min_length=1)
    task: str = Field(min_length=1)
    hint: str = Field(min_length=1)
    kind: HintKind | None = None
    """Kind of the hint config; None takes that of the study's hint config of this name, else `messages`."""
    gap: Change
    gap_stderr: StandardError
    consensus_gap: Change | None = None
    consensus_gap_stderr: StandardError | None = None
    num_units: int = Field(ge=1)
    """Examples behind the gap."""
    before: Share | None = None
    """Student accuracy before training."""
    before_stderr: StandardError = math.nan
    after: Share | None = None
    after_stderr: StandardError = math.nan
    improvement: Change
    improvement_stderr: StandardError
    improvement_units: int | None = Field(None, ge=1)
    """Examples behind the improvement; None are those behind the gap."""
    seed: int | None = None
    """None numbers the rows of one training in their order."""
    num_steps: int = Field(ge=1)
    preset: str = UNKNOWN
    baseline_id: str = ""
    """Equal ids share one measurement of the student; empty when unknown."""
    checkpoint_rule: Literal["final", "best"]
    decoding: str = UNKNOWN

    @model_validator(mode="after")
    def _consensus_gap_is_whole(self) -> Self:
        if (self.consensus_gap is None) != (self.consensus_gap_stderr is None):
            raise ValueError("`consensus_gap` and `consensus_gap_stderr` come together (`unknown` is an answer)")
        return self


def said(stderr: float) -> float | str:
    """A standard error as a field says it: the number, or `unknown` for NaN."""
    return UNKNOWN if math.isnan(stderr) else stderr


def run_spec(run: OutsideRun, config: StudyConfig, seed: int) -> RunSpec:
    """Identity of an outside run; equal facts apart from the measured numbers give equal keys."""
    # Everything but the seed and the measured numbers: seeds of one training share this key.
    settings = [run.hint, run.decoding, run.checkpoint_rule, run.preset]
    return RunSpec(
        model=config.model.path if run.model == OWN else run.model,
        family=config.model.law_family if run.family == OWN else run.family,
        task=config.task.key if run.task == OWN else run.task,
        hint=run.hint,
        preset=run.preset,
        num_steps=run.num_steps,
        seed=seed,
        config_key=content_hash(settings)[:16],
    )


def run_record(run: OutsideRun, spec: RunSpec, config: StudyConfig, source: tuple[str, Provenance]) -> RunRecord:
    """The record of an outside run; `started_at` stays empty, so no forecast is ever scored against it."""
    units = run.improvement_units if run.improvement_units is not None else run.num_units
    before = _share(run.before, run.before_stderr, units)
    return RunRecord(
        spec=spec,
        state="finished",
        gap=_gap(run, spec, config, source[1]),
        before=before if run.before is not None else None,
        after=_share(run.after, run.after_stderr, units) if run.after is not None else None,
        improvement=_difference(run.improvement, run.improvement_stderr, units),
        baseline_id=run.baseline_id,
        decoding=run.decoding,
        checkpoint_rule=run.checkpoint_rule,
        source=source[0],
        provenance=source[1],
    )


def _gap(run: OutsideRun, spec: RunSpec, config: StudyConfig, provenance: Provenance) -> GapEstimate:
    # The sum of two given numbers is no guess; its standard error would be, so it stays unknown.
    teacher = run.before + run.gap if run.before is not None else None
    known = {hint.name: hint.kind for hint in config.hints}
    return GapEstimate(
        model=spec.model,
        family=spec.family,
        task=spec.task,
        hint=spec.hint,
        kind=run.kind or known.get(spec.hint, "messages"),
        student=_share(run.before, run.before_stderr, run.num_units),
        teacher=_share(teacher, math.nan, run.num_units),
        gap=_difference(run.gap, run.gap_stderr, run.num_units),
        consensus_gap=_consensus(run),
        # Nobody counted these for an outside run, and their defaults would say that all was well.
        coverage=math.nan,
        truncated=math.nan,
        undecided=math.nan,
        num_rollouts=0,
        baseline_id=run.baseline_id,
        decoding=run.decoding,
        provenance=provenance,
    )


def _consensus(run: OutsideRun) -> Estimate | None:
    if run.consensus_gap is None or run.consensus_gap_stderr is None:
        return None
    return _difference(run.consensus_gap, run.consensus_gap_stderr, run.num_units)


def _share(value: float | None, stderr: float, units: int) -> Estimate:
    return Estimate(value=math.nan if value is None else value, stderr=stderr, num_units=units, kind="share")


def _difference(value: float, stderr: float, units: int) -> Estimate:
    return Estimate(value=value, stderr=stderr, num_units=units, kind="difference")
