"""What the planner is asked."""

from __future__ import annotations

from collections import Counter
from typing import Self

from pydantic import Field, model_validator

from predictor.config import PlanConfig
from predictor.records.base import Record
from predictor.records.costs import Budget, CostModel
from predictor.records.plan import Candidate
from predictor.records.runs import RunRecord


class PlanRequest(Record):
    """Everything a plan depends on: equal requests give equal plans."""

    candidates: tuple[Candidate, ...]
    config: PlanConfig
    budget: Budget
    """The cap with all that is charged so far; `config.budget` is where the cap comes from."""
    costs: CostModel
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    """Training seeds that may be launched, in this order."""
    num_eval_rollouts: int = Field(ge=0)
    """Rollouts that measure one finished run, all splits together."""
    num_pilot_rollouts: int | None = Field(None, ge=0)
    """Rollouts that measure one pilot; None measures it like a full run."""
    runs: tuple[RunRecord, ...] = ()
    """Full runs and pilots so far, in any state; of two records of one run the later one counts."""
    min_gain: float = Field(0.005, ge=0.0)
    """Least rise of objective `best` or `sum`, in accuracy, that is worth a run."""
    min_probability: float = Field(0.1, gt=0.0, lt=0.5)
    """Least P(improvement ≥ threshold) with which `best` and `sum` launch; pilots go to what lies between it and
    its complement."""
    allow_unmeasured: bool = False
    """Whether a hint config without a consensus gap may be launched."""
    num_draws: int = Field(4096, ge=64)
    """Joint draws of all improvements that expectations are taken over."""
    draw_seed: int = 0

    @model_validator(mode="after")
    def _nothing_is_there_twice(self) -> Self:
        names = Counter(candidate.hint for candidate in self.candidates)
        if repeated := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"candidates occur more than once: {', '.join(repeated)}")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds occur more than once: {self.seeds}")
        if len({len(candidate.shared) for candidate in self.candidates if candidate.shared}) > 1:
            raise ValueError("candidates disagree about the number of shared errors")
        return self
