"""Where a study stands: the request with its runs sorted out, costs priced and the budget's free part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from predictor.planner.request import PlanRequest
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate
from predictor.records.runs import Cost, Fidelity, RunRecord, RunSpec, latest

Standing = Literal["proposed", "running", "finished", "failed"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A request beside the latest record of each run, found by its settings."""

    asked: PlanRequest
    runs: tuple[RunRecord, ...]
    """One record of each run."""
    by_settings: Mapping[RunSpec, tuple[RunRecord, ...]]
    """The same, by their specification with seed 0."""

    @classmethod
    def of(cls, request: PlanRequest) -> Situation:
        """The situation that a request describes."""
        runs = latest(request.runs)
        found: dict[RunSpec, list[RunRecord]] = {}
        for run in runs:
            found.setdefault(run.spec.model_copy(update={"seed": 0}), []).append(run)
        return cls(asked=request, runs=tuple(runs), by_settings={spec: tuple(same) for spec, same in found.items()})

    def with_forecast(self, candidate: Candidate) -> Situation:
        """The situation in which this candidate has another forecast."""
        candidates = tuple(candidate if c.hint == candidate.hint else c for c in self.asked.candidates)
        return replace(self, asked=self.asked.model_copy(update={"candidates": candidates}))

    def with_draws(self, num_draws: int) -> Situation:
        """The situation with other accuracy of expectations."""
        return replace(self, asked=self.asked.model_copy(update={"num_draws": num_draws}))

    def runs_of(self, candidate: Candidate, *, fidelity: Fidelity = "full") -> tuple[RunRecord, ...]:
        """Records of this very training (same model, task, settings and steps), with whatever seed."""
        wanted: dict[str, object] = {"seed": 0, "fidelity": fidelity}
        if fidelity == "pilot":
            wanted["num_steps"] = self.pilot_steps
        return self.by_settings.get(candidate.spec.model_copy(update=wanted), ())

    def outcomes_of(self, candidate: Candidate) -> list[Estimate]:
        """Measured improvements of a candidate's finished full runs."""
        measured = [run.measured_improvement for run in self.runs_of(candidate)]
        return [outcome for outcome in measured if outcome is not None]

    def free_seeds(self, candidate: Candidate) -> list[int]:
        """Seeds that may still be launched: not running, finished or failed."""
        taken = {run.spec.seed for run in self.runs_of(candidate) if standing(run) != "proposed"}
        return [seed for seed in self.asked.seeds if seed not in taken]

    def run_cost(self, candidate: Candidate) -> Cost:
        """Cost of one full run of a candidate, with the safety margin."""
        return self.asked.costs.cost_of(candidate.hint, candidate.spec.num_steps, self.asked.num_eval_rollouts)

    def pilot_cost(self, candidate: Candidate) -> Cost:
        """Cost of one pilot of a candidate, with the safety margin."""
        return self.asked.costs.cost_of(candidate.hint, self.pilot_steps, self._pilot_rollouts)

    @cached_property
    def pilot_steps(self) -> int:
        """Steps of a pilot: those of the study, else a fifth of the full run's, at least one."""
        longest = max((candidate.spec.num_steps for candidate in self.asked.candidates), default=1)
        return self.asked.config.pilot_steps or math.ceil(longest / 5)

    @cached_property
    def remaining(self) -> float:
        """Device-seconds free for new runs: what is left, less what running ones are still expected to take."""
        return max(0.0, self.asked.budget.remaining - sum(self._reserved(run) for run in self.runs))

    @cached_property
    def runs_left(self) -> int:
        """Full runs that `max_runs` still allows."""
        if self.asked.config.max_runs is None:
            return len(self.asked.candidates) * len(self.asked.seeds)
        # Failed runs count: they were launched, and a study that keeps failing must stop.
        started = [run for run in self.runs if standing(run) != "proposed" and run.spec.fidelity == "full"]
        return max(0, self.asked.config.max_runs - len(started))

    @property
    def _pilot_rollouts(self) -> int:
        asked = self.asked
        return asked.num_eval_rollouts if asked.num_pilot_rollouts is None else asked.num_pilot_rollouts

    def _reserved(self, run: RunRecord) -> float:
        if standing(run) != "running":
            return 0.0
        spec = run.spec
        rollouts = self._pilot_rollouts if spec.fidelity == "pilot" else self.asked.num_eval_rollouts
        whole = device_seconds(self.asked.costs.cost_of(spec.hint, spec.num_steps, rollouts))
        # Its own charges are in the budget already.
        return max(0.0, whole - self.asked.budget.charged_to(spec.key))


def standing(run: RunRecord) -> Standing:
    """Where a run stands for planning; a cancelled run counts as proposed, so it may be launched again."""
    return "proposed" if run.state == "cancelled" else run.state


def device_seconds(cost: Cost) -> float:
    """Seconds times devices of a cost."""
    return cost.gpu_hours * 3600.0
