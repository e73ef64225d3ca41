"""How a pilot's improvement relates to its full run's: the one model that prices pilots and forecasts again after them.

The prior stands in `published_prior.yaml`; own pairs of pilot and full run sharpen it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from predictor.records import Estimate, Record, RunRecord, RunSpec
from predictor.records.runs import latest


class PilotPair(Record):
    """A pilot and the full run of the same hint config, both measured by the probe's instrument."""

    hint: str
    pilot: Estimate
    full: Estimate


class PilotPrior(Record):
    """How a pilot relates to its full run, pilot = rho · full + deviation: normal-inverse-χ², conjugate to pairs."""

    rho: float
    """Improvement of a pilot for one unit of its full run's."""
    rho_sd: float
    deviation: float
    """Scale of a pilot's distance from rho · full."""
    df: float
    """Pairs that the deviation's prior counts for."""
    num_pairs: int = 0
    """Own pairs of pilot and full run behind it; 0 is the shipped prior alone."""

    @property
    def weight(self) -> float:
        """Squared full improvement that the prior of rho counts for."""
        return (self.deviation / self.rho_sd) ** 2

    def updated(self, pairs: Sequence[PilotPair]) -> PilotPrior:
        """Posterior after pairs of pilot and full run, in closed form; their measurement noise is in the deviation."""
        full_N, pilot_N = [pair.full.value for pair in pairs], [pair.pilot.value for pair in pairs]
        squares = math.fsum(full**2 for full in full_N)
        products = math.fsum(full * pilot for full, pilot in zip(full_N, pilot_N, strict=True))
        weight = self.weight + squares
        rho = (self.weight * self.rho + products) / weight
        misfit = math.fsum(pilot**2 for pilot in pilot_N) + self.weight * self.rho**2 - weight * rho**2
        df = self.df + len(pairs)
        deviation = math.sqrt(max(0.0, self.df * self.deviation**2 + misfit) / df)
        return PilotPrior(
            rho=rho,
            rho_sd=deviation / math.sqrt(weight),
            deviation=deviation,
            df=df,
            num_pairs=self.num_pairs + len(pairs),
        )


def pilot_pairs(runs: Sequence[RunRecord], full: RunSpec, *, pilot_steps: int) -> tuple[PilotPair, ...]:
    """Pairs of finished pilots and full runs of this model, task, preset and numbers of steps, seed by seed.

    A pilot whose own seed has no full run takes that of the first seed there is.
    """
    wanted = (full.model, full.task, full.preset)
    pilots: list[tuple[RunSpec, Estimate]] = []
    fulls: dict[tuple[str, str], dict[int, Estimate]] = {}
    for run in latest(runs):
        spec, outcome = run.spec, run.measured_improvement
        if outcome is None or (spec.model, spec.task, spec.preset) != wanted:
            continue
        if spec.fidelity == "pilot" and spec.num_steps == pilot_steps:
            pilots.append((spec, outcome))
        if spec.fidelity == "full" and spec.num_steps == full.num_steps:
            fulls.setdefault((spec.hint, spec.config_key), {})[spec.seed] = outcome
    pairs = []
    for spec, outcome in pilots:
        seeds = fulls.get((spec.hint, spec.config_key), {})
        if seeds:
            # The same seed shares data order with its pilot; any seed is better than no pair.
            match = seeds.get(spec.seed, next(iter(seeds.values())))
            pairs.append(PilotPair(hint=spec.hint, pilot=outcome, full=match))
    return tuple(pairs)
