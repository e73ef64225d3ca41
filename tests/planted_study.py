"""A small study with planted numbers, written with the project's own code: what report, plots and notebooks read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from predictor.config import StudyConfig
from predictor.forecast import forecast, freeze
from predictor.law import LinearLaw
from predictor.planner import PlanRequest, candidate_from_forecast, make_plan
from predictor.probe.arms import Arm, ArmFactory
from predictor.records import (
    ConsensusDetail,
    Cost,
    Estimate,
    Fidelity,
    FrozenForecast,
    GapEstimate,
    LawFit,
    LedgerEntry,
    Provenance,
    RunRecord,
    RunSpec,
    RunState,
)
from predictor.records.costs import Budget, CostModel
from predictor.store import RolloutRow, Study
from predictor.tasks import load_examples

Stage = Literal["new", "probed", "forecast", "planned", "finished"]
STAGES: tuple[Stage, ...] = ("new", "probed", "forecast", "planned", "finished")

UNITS = 128
STUDENT = 0.150
FROZEN_AT = "2026-03-01T10:00:00.000000+00:00"
STARTED_AT = "2026-03-01T10:05:00.000000+00:00"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# hint: (kind, gap, consensus gap, gap under another example's hint, gap of an irrelevant text)
GAPS: dict[str, tuple[str, float, float | None, float | None, float | None]] = {
    "none": ("none", 0.004, 0.004, None, None),
    "rule": ("static", 0.640, 0.640, None, -0.012),
    "alias": ("static", 0.560, 0.560, None, 0.003),
    "unsure-25": ("static", 0.190, 0.190, None, 0.001),
    "answer": ("answer", 0.812, -0.021, -0.044, -0.009),
    "half-answer": ("partial", 0.533, 0.012, -0.031, 0.006),
    "demo-1": ("demonstrations", 0.334, 0.301, 0.326, 0.002),
    "own-failure": ("feedback", 0.047, None, 0.011, -0.004),
}
OUTCOMES = {"rule": 0.702, "demo-1": 0.349}
STUDY_YAML = """
model: {path: miniature/llama-s, family: "FAMILY"}
task: {source: strings, options: {rule: reverse}, eval_examples: 12, train_examples: 24}
sampling: {temperature: 1.0, max_tokens: 8}
probe: {rollouts: 8}
hints:
  - {name: none, kind: none}
  - {name: rule, kind: static, template: "rule reverse"}
  - {name: alias, kind: static, template: "rule mirror"}
  - {name: unsure-25, kind: static, template: "maybe25 reverse"}
  - {name: answer, kind: answer, template: "answer {{ hint }}"}
  - {name: half-answer, kind: partial, template: "half {{ hint }}", source: answer}
  - {name: demo-1, kind: demonstrations, num_demonstrations: 1}
  - {name: own-failure, kind: feedback, template: "tried {{ attempt }}"}
training: {preset: miniature, num_steps: 50, seeds: [0, 1]}
plan: {objective: best, budget: {seconds: 150}, threshold: 0.05, max_runs: 3}
"""


def share(value: float, stderr: float = 0.021) -> Estimate:
    return Estimate(value=value, stderr=stderr, num_units=UNITS, kind="share")


def contrast(value: float, stderr: float = 0.024) -> Estimate:
    return Estimate(value=value, stderr=stderr, num_units=UNITS, kind="difference")


def provenance(*, dirty: bool = False, time_utc: str = "2026-03-01T09:30:00.000000+00:00") -> Provenance:
    return Provenance(
        time_utc=time_utc,
        versions={"gapcast": "0.1.0", "numpy": "2.4.0"},
        git_commit=COMMIT,
        git_dirty=dirty,
        config_key="c0ffee",
        engine="scripted",
        engine_version="1",
    )


def planted_study(
    path: Path, stage: Stage = "finished", *, family: str = "llama", dirty: bool = False, text: str = "d c b a"
) -> Study:
    """The study as it stands after a stage; `family`, `dirty` and the rollouts' `text` can be made hostile."""
    path.mkdir(parents=True, exist_ok=True)
    quoted = family.replace("\\", "\\\\").replace('"', '\\"')
    (path / "study.yaml").write_text(STUDY_YAML.replace("FAMILY", quoted), encoding="utf-8")
    study = Study(path)
    reached = STAGES.index(stage)
    gaps = planted_gaps(study.config, dirty=dirty)
    runs = planted_runs(study.config, gaps) if reached >= 4 else []
    if reached >= 1:
        study.replace("gaps", gaps)
        study.rollouts.append(planted_rollouts(study, text))
        study.append("ledger", LedgerEntry(kind="probe", seconds=21.5, time_utc=FROZEN_AT))
    if reached >= 2:
        study.append("forecasts", planted_forecasts(study.config, gaps))
    for run in runs:
        study.append("runs", run)
        _charge(study, run)
    if reached >= 3:
        study.append("ledger", LedgerEntry(kind="calibration", seconds=6.25, time_utc=FROZEN_AT))
        _plan(study, gaps, runs)
    if reached >= 4:
        study.write("law", planted_law(runs))
    return study


def planted_gaps(config: StudyConfig, *, dirty: bool = False) -> list[GapEstimate]:
    """Every hint config followed by its controls."""
    found: list[GapEstimate] = []
    for hint, (kind, gap, consensus, other, irrelevant) in GAPS.items():
        base = GapEstimate(
            model=config.model.path,
            family=config.model.law_family,
            task=config.task.key,
            hint=hint,
            kind=kind,
            student=share(STUDENT),
            teacher=share(STUDENT + gap),
            gap=contrast(gap),
            copy_rate=share(0.431 if kind == "answer" else 0.0, 0.03),
            coverage=0.852 if kind == "feedback" else 1.0,
            truncated=0.017,
            undecided=0.003,
            num_rollouts=8 * UNITS,
            baseline_id="student-arm",
            decoding="planted",
            provenance=provenance(dirty=dirty),
        )
        whole = {
            "net_gap": contrast(gap - 0.004),
            "transferable_gap": contrast(other) if other is not None else (contrast(gap) if kind == "static" else None),
            "consensus_gap": contrast(consensus, 0.031) if consensus is not None else None,
            "consensus_detail": _detail(kind, consensus) if consensus is not None else None,
        }
        found.append(base.model_copy(update=whole))
        found += [
            base.model_copy(update={"hint": f"{hint}/{control}", "is_control": True, "control_of": hint, "gap": value})
            for control, value in _controls(other, irrelevant)
        ]
    return found


def planted_runs(config: StudyConfig, gaps: Sequence[GapEstimate]) -> list[RunRecord]:
    """Two finished runs, one failed run and one finished pilot."""
    by_name = {gap.hint: gap for gap in gaps}
    finished = [planted_run(config, by_name[hint], improvement) for hint, improvement in OUTCOMES.items()]
    failed = planted_run(config, by_name["alias"], None, state="failed")
    pilot = planted_run(config, by_name["unsure-25"], 0.052, fidelity="pilot", num_steps=10)
    return [*finished, failed, pilot]


def planted_run(
    config: StudyConfig,
    gap: GapEstimate,
    improvement: float | None,
    *,
    state: RunState = "finished",
    fidelity: Fidelity = "full",
    num_steps: int = 50,
) -> RunRecord:
    spec = run_spec(config, gap.hint).model_copy(update={"fidelity": fidelity, "num_steps": num_steps})
    measured = improvement is not None
    return RunRecord(
        spec=spec,
        state=state,
        gap=gap,
        before=share(STUDENT) if measured else None,
        after=share(STUDENT + improvement) if improvement is not None else None,
        improvement=contrast(improvement, 0.026) if improvement is not None else None,
        baseline_id="student-arm",
        decoding="planted",
        truncated=0.009,
        cost=Cost(train_seconds=14.0 if fidelity == "full" else 3.0, eval_seconds=4.0),
        started_at=STARTED_AT if measured else "",
        reason="" if measured else "the loss is not finite",
        provenance=provenance(time_utc=STARTED_AT),
    )


def run_spec(config: StudyConfig, hint: str) -> RunSpec:
    return RunSpec(
        model=config.model.path,
        family=config.model.law_family,
        task=config.task.key,
        hint=hint,
        preset="miniature",
        num_steps=config.training.num_steps,
        seed=0,
        config_key=hint,
    )


def planted_law(runs: Sequence[RunRecord]) -> LawFit:
    return LinearLaw(predictor="consensus_gap", fallback="gap").fit(runs)


def planted_forecasts(config: StudyConfig, gaps: Sequence[GapEstimate]) -> FrozenForecast:
    """The prior's forecasts of full runs, and one of the pilot, frozen five minutes before any training."""
    full = forecast(planted_law([]), gaps, threshold=config.plan.threshold)
    pilot = [item.model_copy(update={"fidelity": "pilot"}) for item in full if item.hint == "unsure-25"]
    return freeze([*full, *pilot], inputs={"gaps": list(gaps)}, provenance=provenance(time_utc=FROZEN_AT))


def planted_rollouts(study: Study, text: str) -> list[RolloutRow]:
    """One rollout of each arm, one trained checkpoint included, for each of two held-out examples."""
    config = study.config
    data = load_examples(config.task, study.path)
    factory = ArmFactory(config, data.train, None)
    trained = run_spec(config, "rule").key
    arms = [factory.student(), *(factory.teacher(hint) for hint in config.hints), factory.after(trained)]
    arms.append(factory.control(config.hints[4], "other_example"))
    return [_rollout(arm, example.example_id, text) for arm in arms for example in data.eval[:2]]


def _rollout(arm: Arm, example_id: str, text: str) -> RolloutRow:
    return RolloutRow(
        arm_key=arm.key,
        arm=arm.name,
        example_id=example_id,
        unit=example_id,
        split="eval",
        index=0,
        has_context=arm.name not in ("student", "none"),
        prompt_hash="00ff",
        prompt_len=7,
        completion_ids=(4, 5, 6),
        text=text,
        finish_reason="length" if arm.name == "alias" else "stop",
        logprob_sum=-2.5,
        correct=None if arm.name == "none" else arm.role != "student",
        extracted=text,
        reason="",
        copied=False,
        checker="exact",
        checker_version="1",
        seed=1,
        engine="scripted",
        engine_version="1",
        time_utc=FROZEN_AT,
    )


def _detail(kind: str, consensus: float) -> ConsensusDetail:
    return ConsensusDetail(
        mean="geometric",
        num_hints=1 if kind in ("none", "static") else 8,
        estimator="identical" if kind in ("none", "static") else "ensemble",
        student=share(STUDENT),
        consensus=share(STUDENT + consensus),
    )


def _controls(other: float | None, irrelevant: float | None) -> list[tuple[str, Estimate]]:
    named = (("other_example", other), ("irrelevant", irrelevant))
    return [(name, contrast(value, 0.019)) for name, value in named if value is not None]


def _charge(study: Study, run: RunRecord) -> None:
    assert run.cost is not None
    key = run.spec.key
    kind: Literal["pilot", "train"] = "pilot" if run.spec.fidelity == "pilot" else "train"
    study.append("ledger", LedgerEntry(kind=kind, key=key, seconds=run.cost.train_seconds, time_utc=STARTED_AT))
    study.append("ledger", LedgerEntry(kind="record", key=key, seconds=run.cost.eval_seconds, time_utc=STARTED_AT))


def _plan(study: Study, gaps: Sequence[GapEstimate], runs: Sequence[RunRecord]) -> None:
    config = study.config
    law = planted_law(runs)
    wanted = [gap for gap in gaps if not gap.is_control]
    forecasts = forecast(law, wanted, threshold=config.plan.threshold)
    pairs = zip(forecasts, wanted, strict=True)
    candidates = [candidate_from_forecast(item, gap, run_spec(config, gap.hint)) for item, gap in pairs]
    spent = tuple(study.records("ledger", LedgerEntry))
    request = PlanRequest(
        candidates=tuple(candidates),
        config=config.plan,
        budget=Budget(device_seconds=150.0, charges=spent),
        costs=CostModel(
            startup_seconds=2.0,
            seconds_per_step=0.25,
            eval_startup_seconds=1.0,
            seconds_per_eval_rollout=0.03,
        ),
        seeds=config.training.seeds,
        num_eval_rollouts=96,
        runs=tuple(runs),
    )
    study.write("plan", make_plan(request))
