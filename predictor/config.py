"""study.yaml: everything a study needs; an unknown key is an error that names the nearest valid one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

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
from predictor.records.base import JsonFields, only_json
from predictor.records.explain import explain_errors, join_explained
from predictor.records.law import GapName, LawForm, LawMethod

STUDY_FILE = "study.yaml"
_MOST_NODES = 100_000


class ProbeConfig(Record):
    """How much is measured before training."""

    rollouts: int = Field(8, ge=1)
    """Rollouts of each example in each arm."""
    adaptive: bool = False
    """Whether a hint config stops when it is decided against plan.threshold, instead of answering every example."""
    first_rollouts: int = Field(2, ge=1)
    """Adaptive: rollouts of each example while examples are added; what stays open gets all `rollouts`."""
    stage_examples: int = Field(16, ge=2)
    """Adaptive: examples of the first stage; later stages add as many, or a quarter of what there is."""
    confidence: float = Field(0.95, gt=0.5, lt=1.0)
    """Level of the intervals that are printed."""
    seed: int = 0
    """Noise of the probe's own sampling; what is shown to whom comes from `task.seed`."""
    consensus_hints: int = Field(8, ge=2)
    """Hints of other examples that the consensus policy averages (M)."""
    consensus_examples: int = Field(64, ge=2)
    """Held-out examples that the consensus policy answers, at most all."""
    consensus_rollouts: int = Field(4, ge=1)
    """Rollouts of each of them."""
    consensus_estimator: Literal["ensemble", "reweight", "both"] = "ensemble"
    """`ensemble` decodes from the mean policy; `reweight` scores stored rollouts under it and generates nothing."""
    least_effective_rollouts: float = Field(1.0, ge=0.0, allow_inf_nan=False)
    """Effective rollouts for each example below which a reweighted consensus gap is refused."""
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
    overrides: JsonFields = {}
    """Changed fields of the preset, nested as in the preset."""

    @model_validator(mode="after")
    def _seeds_are_unique(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("`seeds` holds a seed twice, which would be the same run twice")
        return self

    @property
    def resolved(self) -> TrainingConfig:
        """The preset with the overrides applied; StudyError when they do not fit."""
        return resolve_training(self.preset, self.overrides)


class LawConfig(Record):
    """How improvements are forecast."""

    method: LawMethod = "bayes"
    predictor: GapName = "consensus_gap"
    """What the law is fitted on; `gap` is the published one."""
    fallback: GapName | None = None
    """What stands in, flagged, for a hint config whose predictor was not measured; None refuses such a forecast."""
    form: LawForm = "auto"
    """`linear` as published, `saturating` at the ceiling, or `auto`: the one with the smaller held-out error."""
    prior: Literal["published", "none"] = "published"
    runs_from: tuple[str, ...] = ()
    """Further studies (relative to this one) whose runs the law is fitted on too, as in `gapcast fit STUDY MORE`."""
    allow_mixed: bool = False
    """Fit runs that differ in task, decoding, steps or training settings, with guards that say so."""


class BudgetConfig(Record):
    """The hard cap on all that is charged; exactly one unit."""

    gpu_hours: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    """Device-hours; on a CPU, process-hours."""
    seconds: float | None = Field(None, gt=0.0, allow_inf_nan=False)

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

    @model_validator(mode="after")
    def _hints_made_from_rollouts_have_others(self) -> Self:
        names = ", ".join(f"`{hint.name}`" for hint in self.hints if hint.reads_attempts)
        examples = min(self.probe.consensus_examples, self.task.eval_examples)
        if names and examples <= self.probe.consensus_hints:
            # Refused here, or the probe would find out after it has sampled every other arm.
            raise ValueError(
                f"hint {names} is made from rollouts, so its consensus hints are drawn among the {examples} "
                f"examples of the consensus arm: more than probe.consensus_hints ({self.probe.consensus_hints}) are "
                "needed; raise probe.consensus_examples and task.eval_examples, or lower probe.consensus_hints"
            )
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
            self.task.questions_key,
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
    except (OSError, ValueError) as error:
        raise StudyError("study.yaml cannot be read", where=str(path), found=str(error)) from None
    return parse_study_config(text, where=str(path))


def parse_study_config(text: str, *, where: str) -> StudyConfig:
    """The study that a YAML text describes; `where` is named in errors."""
    raw = _read_yaml(text, where)
    if not isinstance(raw, dict):
        found = "nothing" if raw is None else type(raw).__name__
        raise StudyError("study.yaml is not a mapping", where=where, found=found, expected="`model:`, `task:`, …")
    try:
        config = StudyConfig.model_validate(raw)
    except ValidationError as error:
        raise _refused(explain_errors(StudyConfig, error), where) from None
    misread = [*_booleans_as_numbers(raw, config.model_dump(), "")]
    overrides = config.training.resolved.model_dump()
    misread += _booleans_as_numbers(config.training.overrides, overrides, "training.overrides.")
    if misread:
        raise _refused(misread, where)
    return config


def _refused(sentences: list[str], where: str) -> StudyError:
    return StudyError(
        f"study.yaml has {len(sentences)} error(s)",
        where=where,
        found=join_explained(sentences),
        fix="correct these keys; `gapcast init --template …` writes a commented example",
    )


def _booleans_as_numbers(raw: Any, parsed: Any, where: str) -> Iterator[str]:
    """Where YAML's `yes`, `no`, `on` or `off` was taken for 1 or 0."""
    if isinstance(raw, bool) and not isinstance(parsed, bool):
        yield f"{where.removesuffix('.')}: should be a number (found {str(raw).lower()})"
    elif isinstance(raw, dict) and isinstance(parsed, dict):
        for key, value in raw.items():
            yield from _booleans_as_numbers(value, parsed.get(key), f"{where}{key}.")
    elif isinstance(raw, list) and isinstance(parsed, tuple):
        for index, (value, kept) in enumerate(zip(raw, parsed, strict=True)):
            yield from _booleans_as_numbers(value, kept, f"{where}{index}.")


def _read_yaml(text: str, where: str) -> Any:
    try:
        return only_json(yaml.load(text, Loader=_PlainLoader))
    except (yaml.YAMLError, ValueError) as error:
        found = " ".join(str(error).split())
    except RecursionError:
        found = "lists or mappings nested too deeply"
    raise StudyError("study.yaml is not valid YAML", where=where, found=found)


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader for what JSON can say too: no dates, sets or bytes, no key given twice, no alias inside itself."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping without repeated keys, where YAML would keep the last one silently."""
        node = super().compose_mapping_node(anchor)
        # Before merge keys are resolved: a key that overrides a merged one is not given twice.
        keys = [str(key.value) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        if repeated:
            raise yaml.composer.ComposerError(None, None, f"key given twice: {', '.join(repeated)}", node.start_mark)
        return node

    def construct_document(self, node: yaml.Node) -> Any:
        """The document, unless its aliases make it endless or huge when written out."""
        if _written_out(node, {}) > _MOST_NODES:
            raise yaml.constructor.ConstructorError(None, None, "aliases make the file too large", node.start_mark)
        return super().construct_document(node)


def _written_out(node: yaml.Node, known: dict[yaml.Node, int | None]) -> int:
    """Number of nodes with every alias written out; ConstructorError for an alias inside itself."""
    if node in known:
        size = known[node]
        if size is None:
            raise yaml.constructor.ConstructorError(None, None, "an alias stands inside itself", node.start_mark)
        return size
    known[node] = None
    inner = node.value if isinstance(node, yaml.CollectionNode) else []
    parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
    known[node] = size = 1 + sum(_written_out(part, known) for part in parts)
    return size
