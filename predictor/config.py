"""study.yaml: everything a study needs; an unknown key is an error that names the nearest valid one."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from predictor.errors import StudyError
from predictor.records import (
    HintConfig,
    ModelConfig,
    Record,
    SamplingConfig,
    TaskConfig,
    TrainingConfig,
    content_hash,
    resolve_training,
)

STUDY_FILE = "study.yaml"


class ProbeConfig(Record):
    """How much is measured before training."""

    rollouts: int = Field(8, ge=1)
    """Rollouts of each example in each arm."""
    confidence: float = Field(0.95, gt=0.5, lt=1.0)
    """Level of the intervals that are printed."""
    seed: int = 0
    consensus_hints: int = Field(8, ge=2)
    """Hints of other examples that the consensus policy averages (M)."""
    consensus_examples: int = Field(64, ge=2)
    """Held-out examples that the consensus policy answers, at most all."""
    consensus_rollouts: int = Field(4, ge=1)
    """Rollouts of each of them."""
    shard_rollouts: int = Field(2048, ge=1)
    """Rollouts in one Parquet shard: what a killed probe can lose."""
    max_undecided: float = Field(0.05, ge=0.0, le=1.0)
    """Share of undecided rollouts above which results are not to be trusted (exit code 3)."""
    max_truncated: float = Field(0.25, ge=0.0, le=1.0)
    """Share of truncated rollouts above which results are not to be trusted (exit code 3)."""


class TrainingPlan(Record):
    """Which training is forecast and launched."""

    preset: str = "sdpo_lcb"
    """Name of a published or embedded recipe; `overrides` change parts of it."""
    num_steps: int = Field(60, ge=1)
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    overrides: dict[str, Any] = {}
    """Changed fields of the preset, nested as in the preset."""

    @property
    def resolved(self) -> TrainingConfig:
        """The preset with the overrides applied; StudyError when they do not fit."""
        return resolve_training(self.preset, self.overrides)


class LawConfig(Record):
    """How improvements are forecast."""

    method: Literal["ols", "bayes"] = "bayes"
    predictor: Literal["consensus_gap", "gap", "net_gap", "transferable_gap"] = "consensus_gap"
    """What the law is fitted on; `gap` is the published one."""
    prior: Literal["published", "none"] = "published"


class BudgetConfig(Record):
    """The hard cap on all that is charged; exactly one unit."""

    gpu_hours: float | None = Field(None, gt=0.0)
    """Device-hours; on a CPU, process-hours."""
    seconds: float | None = Field(None, gt=0.0)

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if (self.gpu_hours is None) == (self.seconds is None):
            raise ValueError("a budget has exactly one of `gpu_hours` and `seconds`")
        return self

    @property
    def total_seconds(self) -> float:
        """The cap in device-seconds."""
        return self.seconds if self.seconds is not None else (self.gpu_hours or 0.0) * 3600.0


class PlanConfig(Record):
    """What to optimise under which budget."""

    objective: Literal["best", "threshold", "sum"] = "best"
    budget: BudgetConfig
    threshold: float = Field(0.02, ge=0.0, le=1.0)
    """Smallest improvement that pays, in accuracy."""
    probability: float = Field(0.8, gt=0.0, lt=1.0)
    """P(improvement ≥ threshold) that objective `threshold` asks for."""
    max_runs: int | None = Field(None, ge=1)
    """Most full runs that are launched, whatever the budget."""
    pilot_steps: int | None = Field(None, ge=1)
    """Steps of a pilot; None means no pilots in `gapcast run`."""


class StudyConfig(Record):
    """The content of study.yaml."""

    model: ModelConfig
    task: TaskConfig
    sampling: SamplingConfig = SamplingConfig()
    probe: ProbeConfig = ProbeConfig()
    hints: tuple[HintConfig, ...] = Field(min_length=1)
    training: TrainingPlan = TrainingPlan()
    law: LawConfig = LawConfig()
    plan: PlanConfig

    @model_validator(mode="after")
    def _hint_names_are_unique(self) -> Self:
        repeated = [name for name, count in Counter(hint.name for hint in self.hints).items() if count > 1]
        if repeated:
            raise ValueError(f"hint names occur more than once: {', '.join(repeated)}")
        return self

    @property
    def key(self) -> str:
        """Hash of the whole configuration."""
        return self.content_hash()[:16]

    @property
    def measurement_key(self) -> str:
        """Hash of what a stored rollout depends on; budgets, laws and training may change without it."""
        parts = [
            self.model.path,
            self.model.dtype,
            self.task.key,
            self.sampling.content_hash(),
            self.probe.seed,
        ]
        return content_hash(parts)[:16]


def load_study_config(study: Path) -> StudyConfig:
    """study.yaml of a study directory, validated; StudyError names each bad key with its nearest valid one."""
    path = study / STUDY_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(
            "this is not a study directory",
            where=str(study),
            expected=f"a file {STUDY_FILE}",
            fix=f"create one with `gapcast init {study} --template miniature`",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError("study.yaml cannot be read", where=str(path), found=str(error)) from None
    return parse_study_config(text, where=str(path))


def parse_study_config(text: str, *, where: str) -> StudyConfig:
    """The study that a YAML text describes; `where` is named in errors."""
    try:
        raw = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise StudyError("study.yaml is not valid YAML", where=where, found=" ".join(str(error).split())) from None
    if not isinstance(raw, dict):
        raise StudyError("study.yaml is not a mapping", where=where, found=type(raw).__name__)
    try:
        config = StudyConfig.model_validate(raw)
    except ValidationError as error:
        raise StudyError(
            f"study.yaml has {error.error_count()} error(s)",
            where=where,
            found="; ".join(_explain(problem) for problem in error.errors()[:6]),
            fix="correct these keys; `gapcast init --template …` writes a commented example",
        ) from None
    _ = config.training.resolved
    return config


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, where YAML would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        keys = [key.value for key, _ in node.value]
        repeated = [key for key, count in Counter(map(str, keys)).items() if count > 1 and key != "<<"]
        if repeated:
            raise yaml.constructor.ConstructorError(
                None, None, f"key given twice: {', '.join(repeated)}", node.start_mark
            )
        return dict(super().construct_mapping(node, deep))


def _explain(problem: Mapping[str, Any]) -> str:
    """One pydantic error as 'where: what', with the nearest valid key for an unknown one."""
    location = [part for part in problem["loc"] if not _is_union_tag(part)]
    where = ".".join(str(part) for part in location)
    if problem["type"] != "extra_forbidden":
        shown = repr(problem.get("input"))
        found = f" (found {shown[:60]})" if len(location) and problem["type"] != "missing" else ""
        return f"{where or 'study'}: {problem['msg']}{found}"
    valid = _fields_at(StudyConfig, problem["loc"][:-1])
    near = difflib.get_close_matches(str(location[-1]), valid, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"valid keys: {', '.join(valid)}"
    return f"{where}: unknown key; {hint}"


_UNION_TAGS = frozenset({"exact", "regex", "numeric", "constraint"})


def _is_union_tag(part: Any) -> bool:
    return part in _UNION_TAGS


def _fields_at(model: type[BaseModel], location: Sequence[Any]) -> list[str]:
    """Names of the fields that are valid at a location inside the study."""
    current: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        if _is_union_tag(part):
            current = next((m for m in _models_in(current) if m.model_fields["kind"].default == part), current)
            continue
        owner = next((m for m in _models_in(current) if part in m.model_fields), None)
        current = owner.model_fields[part].annotation if owner is not None else current
    return sorted({name for m in _models_in(current) for name in m.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The model classes inside an annotation, through unions, tuples and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in getattr(annotation, "__args__", ()) for m in _models_in(inner)]
