"""The run directory: its files, and run.json validated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from predictor.errors import StudyError
from predictor.records import RunConfig, SamplingConfig


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where everything of one run lies."""

    root: Path

    @property
    def config(self) -> Path:
        """run.json, written by the launcher."""
        return self.root / "run.json"

    @property
    def metrics(self) -> Path:
        """metrics.jsonl, one line for each finished step."""
        return self.root / "metrics.jsonl"

    @property
    def state(self) -> Path:
        """Resume states, one directory for each checkpointed step; deleted on success."""
        return self.root / "state"

    @property
    def checkpoint(self) -> Path:
        """The final model, loadable by transformers and vLLM."""
        return self.root / "checkpoint"

    @property
    def result(self) -> Path:
        """result.json, written last: a run that has it is finished."""
        return self.root / "result.json"

    @property
    def lock(self) -> Path:
        """Locked by the process that trains."""
        return self.root / ".lock"


def load_run(root: Path) -> RunConfig:
    """run.json of a run directory; StudyError when it is missing, malformed or asks for what training cannot do."""
    path = RunFiles(root).config
    try:
        config = RunConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(
            "the run directory has no readable run.json",
            where=str(root),
            found=error.strerror or str(error),
            fix="`gapcast launch` writes it",
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise StudyError("run.json is not valid", where=str(path), found=_first_problem(error)) from None
    _check(config, path)
    return config


def _check(config: RunConfig, path: Path) -> None:
    if config.spec.num_steps < 1:
        raise StudyError(
            "a run needs steps",
            where=f"{path}, spec.num_steps",
            found=str(config.spec.num_steps),
            expected="at least 1",
        )
    if config.sampling.temperature == 0.0:
        raise StudyError(
            "on-policy training needs sampled rollouts",
            where=f"{path}, sampling.temperature",
            found="0 (greedy)",
            expected="above 0: both distributions are compared at the sampling temperature",
        )


def rollout_sampling(config: RunConfig) -> SamplingConfig:
    """The study's decoding, with the training's own limit on rollout length where it has one."""
    if config.training.max_tokens is None:
        return config.sampling
    return config.sampling.model_copy(update={"max_tokens": config.training.max_tokens})


def _first_problem(error: ValidationError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
