"""Joint draws of what the candidates' runs truly improve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from predictor.planner.situation import Situation, standing
from predictor.records.base import derive_seed
from predictor.records.estimate import Estimate
from predictor.records.plan import Candidate

Floats = NDArray[np.float64]


def run_draws(candidate: Candidate, seed: int, now: Situation) -> Floats:
    """Draws (D,) of the true improvement of one run of a candidate, cut to [-student, 1 - student].

    improvement = mean + w · (shared · z + own_sd · z_hint + seed_sd · z_seed) with w² = df / χ²(df). The law's
    errors z and the quantile behind w are the same for all candidates; everything is drawn from its name, so
    another candidate or budget changes no draw.
    """
    num, start = now.asked.num_draws, now.asked.draw_seed
    seed_sd = 0.0 if math.isnan(candidate.seed_sd) else candidate.seed_sd
    error_D = candidate.own_sd * normals(num, start, candidate.hint, "own")
    error_D += seed_sd * normals(num, start, candidate.hint, "seed", seed)
    for index, loading in enumerate(candidate.shared):
        error_D += loading * normals(num, start, "shared", index)
    # Without the cut a t with few degrees of freedom has an infinite expected maximum.
    improvement_D = candidate.mean + _heavy_tail(candidate.df, num, start) * error_D
    return np.clip(improvement_D, -candidate.student, 1.0 - candidate.student)


def standing_draws(now: Situation) -> list[tuple[str, Floats]]:
    """Hint config and draws of each full run of this model and task that is there already.

    A finished run has its measured improvement, a running one its forecast.
    """
    draws: list[tuple[str, Floats]] = []
    by_hint = {candidate.hint: candidate for candidate in now.asked.candidates}
    settings = {(candidate.spec.model, candidate.spec.task) for candidate in now.asked.candidates}
    for run in now.runs:
        spec = run.spec
        if spec.fidelity != "full" or (spec.model, spec.task) not in settings:
            continue
        measured = run.measured_improvement
        if measured is not None:
            stderr = 0.0 if math.isnan(measured.stderr) else measured.stderr
            # Without a standard error the measured value alone is the best guess there is.
            noise_D = normals(now.asked.num_draws, now.asked.draw_seed, spec.key, "measured")
            draws.append((spec.hint, measured.value + stderr * noise_D))
        elif standing(run) == "running" and spec.hint in by_hint:
            draws.append((spec.hint, run_draws(by_hint[spec.hint], spec.seed, now)))
    return draws


def conditioned(candidate: Candidate, outcomes: Sequence[Estimate]) -> Candidate:
    """The forecast of one more seed of a candidate, given the outcomes of its finished ones (normal updating).

    What the seeds share has variance stderr² - seed_sd²; each outcome saw it with variance seed_sd² + its own
    standard error². Without a known seed spread the outcome is taken for what another seed would give.
    """
    seed_sd = 0.0 if math.isnan(candidate.seed_sd) else candidate.seed_sd
    common = max(0.0, candidate.stderr**2 - seed_sd**2)
    seen = [(o.value, seed_sd**2 + (0.0 if math.isnan(o.stderr) else o.stderr) ** 2) for o in outcomes]
    if not seen or common == 0.0:
        return candidate
    # Exact outcomes leave nothing for noisy ones to add, and their precision is infinite.
    if any(variance == 0.0 for _, variance in seen):
        exact = [value for value, variance in seen if variance == 0.0]
        return candidate.model_copy(update={"mean": math.fsum(exact) / len(exact), "stderr": seed_sd, "shared": ()})
    precision = 1.0 / common + math.fsum(1.0 / variance for _, variance in seen)
    pull = candidate.mean / common + math.fsum(value / variance for value, variance in seen)
    stderr = math.sqrt(1.0 / precision + seed_sd**2)
    return candidate.model_copy(update={"mean": pull / precision, "stderr": stderr, "shared": ()})


@lru_cache(maxsize=1024)
def normals(num: int, *name: str | int) -> Floats:
    """Standard normals fixed by a name, one in each of `num` equally likely intervals, in random order."""
    rng = np.random.default_rng(derive_seed(*name))
    draws_D = np.asarray(ndtri(_strata(num, rng)), dtype=np.float64)
    draws_D.setflags(write=False)
    return draws_D


def _strata(num: int, rng: np.random.Generator) -> Floats:
    return (rng.permutation(num) + rng.uniform(size=num)) / num


@lru_cache(maxsize=64)
def _heavy_tail(df: float, num: int, seed: int) -> Floats:
    """sqrt(df / χ²) that turns normals into t; equal quantiles for all candidates, whatever their df."""
    if math.isinf(df):
        return np.ones(num)
    upper = _strata(num, np.random.default_rng(derive_seed(seed, "scale")))
    return np.sqrt(df / np.asarray(chdtri(df, upper), dtype=np.float64))
