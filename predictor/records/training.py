"""Training settings and their presets: the contract between `gapcast launch` and `gapcast-train`.

Presets follow the published recipes as far as those are known (knowledge: methods dossier, sections 2.3, 3.4, 11);
`miniature` and `smollm` are ours, measured on the embedded models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from predictor.errors import StudyError
from predictor.records.base import Record
from predictor.records.data import Mean
from predictor.records.explain import explain_errors, join_explained


class FullVocabulary(Record):
    """Divergence over every vocabulary entry."""

    kind: Literal["full"] = "full"
    chunk: int = Field(256, ge=1)
    """Positions whose logits are in memory at once."""


class StudentTopK(Record):
    """Divergence over the student's k most likely tokens plus one tail bucket with the remaining mass."""

    kind: Literal["student_top_k"] = "student_top_k"
    k: int = Field(20, ge=1)
    chunk: int = Field(256, ge=1)


Support = Annotated[FullVocabulary | StudentTopK, Field(discriminator="kind")]


class ForwardKL(Record):
    """KL(teacher‖student): mass covering; its consensus policy is the arithmetic mean of the teachers."""

    kind: Literal["forward_kl"] = "forward_kl"


class ReverseKL(Record):
    """KL(student‖teacher): mode seeking; its consensus policy is the normalised geometric mean."""

    kind: Literal["reverse_kl"] = "reverse_kl"


class JensenShannon(Record):
    """(1-alpha)·KL(S‖M) + alpha·KL(T‖M) with M = (1-alpha)·S + alpha·T; strictly between the two KLs."""

    kind: Literal["jsd"] = "jsd"
    alpha: float = Field(0.5, gt=0.0, lt=1.0)


Divergence = Annotated[ForwardKL | ReverseKL | JensenShannon, Field(discriminator="kind")]


class FrozenTeacher(Record):
    """The teacher keeps the initial weights."""

    kind: Literal["frozen"] = "frozen"


class EmaTeacher(Record):
    """After every step teacher ← (1 - rate)·teacher + rate·student."""

    kind: Literal["ema"] = "ema"
    rate: float = Field(0.05, gt=0.0, lt=1.0)


Teacher = Annotated[FrozenTeacher | EmaTeacher, Field(discriminator="kind")]


class OptimizerConfig(Record):
    """AdamW with linear warm-up and an optional linear decay to zero."""

    lr: float = Field(1e-6, gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: int = Field(0, ge=0)
    decay_from: float = Field(1.0, ge=0.0, le=1.0)
    """Share of the steps after which the rate falls linearly to zero; 1 keeps it constant."""
    clip_norm: float = Field(1.0, gt=0.0)
    """Largest global gradient norm."""


class TrainingConfig(Record):
    """Everything about training that is not the model, the task, the hint or the seed."""

    divergence: Divergence = ReverseKL()
    support: Support = FullVocabulary()
    teacher: Teacher = FrozenTeacher()
    optimizer: OptimizerConfig = OptimizerConfig()
    prompts_per_step: int = Field(32, ge=1)
    rollouts_per_prompt: int = Field(8, ge=1)
    micro_batch: int = Field(64, ge=1)
    """Rollouts in one forward and backward pass; the loss and its gradient do not depend on it."""
    max_tokens: int | None = None
    """Longest training rollout; None takes the study's sampling."""
    autocast: Literal["none", "bfloat16"] = "none"
    """Precision of forward passes; weights and optimiser state stay float32."""
    checkpoint_every: int = Field(20, ge=1)
    """Steps between checkpoints that a killed run resumes from."""

    @property
    def consensus_mean(self) -> Mean:
        """The mean of teachers that a student trained with this divergence converges to."""
        means: dict[str, Mean] = {"forward_kl": "arithmetic", "reverse_kl": "geometric", "jsd": "jsd"}
        return means[self.divergence.kind]

    @property
    def consensus_alpha(self) -> float:
        """Weight of the teachers in the `jsd` mean; 0.5 where another mean has no use for it."""
        return self.divergence.alpha if isinstance(self.divergence, JensenShannon) else 0.5


PRESETS: dict[str, TrainingConfig] = {
    "sdpo_lcb": TrainingConfig(
        support=StudentTopK(k=20),
        teacher=EmaTeacher(rate=0.01),
        optimizer=OptimizerConfig(lr=1e-6, weight_decay=0.01),
    ),
    "sdpo_science": TrainingConfig(
        divergence=JensenShannon(alpha=0.5),
        support=StudentTopK(k=100),
        teacher=EmaTeacher(rate=0.05),
        optimizer=OptimizerConfig(lr=1e-5, weight_decay=0.01, warmup_steps=10),
    ),
    "opsd_math": TrainingConfig(
        divergence=ForwardKL(),
        optimizer=OptimizerConfig(lr=5e-6, clip_norm=0.1),
        rollouts_per_prompt=1,
    ),
    "miniature": TrainingConfig(
        optimizer=OptimizerConfig(lr=5e-4, warmup_steps=5, decay_from=0.5),
        prompts_per_step=64,
        rollouts_per_prompt=1,
    ),
    "smollm": TrainingConfig(
        divergence=ForwardKL(),
        optimizer=OptimizerConfig(lr=1e-5),
        prompts_per_step=16,
        rollouts_per_prompt=1,
        micro_batch=16,
    ),
}


def resolve_training(preset: str, overrides: dict[str, Any]) -> TrainingConfig:
    """The preset with the study's overrides; nested sections are merged, a changed `kind` replaces its section."""
    if preset not in PRESETS:
        raise StudyError(
            f"unknown training preset `{preset}`",
            where="training.preset",
            expected=", ".join(sorted(PRESETS)),
        )
    merged = _merge(PRESETS[preset].model_dump(), overrides)
    try:
        return TrainingConfig.model_validate(merged)
    except ValidationError as error:
        raise StudyError(
            "training overrides are not valid",
            where="training.overrides",
            found=join_explained(explain_errors(TrainingConfig, error, prefix="training.overrides")),
            fix=f"see the fields of the `{preset}` preset with `gapcast run --dry-run`",
        ) from None


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        same_kind = (
            isinstance(old, dict) and isinstance(value, dict) and value.get("kind", old.get("kind")) == old.get("kind")
        )
        merged[key] = _merge(old, value) if same_kind and isinstance(old, dict) else value
    return merged
