"""The published laws as a conjugate prior, read from `published_prior.yaml` beside this file."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.resources import files
from statistics import fmean, stdev

import yaml

from predictor.law.pilot import PilotPrior
from predictor.law.regression import Prior, flat_prior
from predictor.records import LawSpec, Record


class PublishedLaw(Record):
    """One published fit."""

    model: str
    across: str
    """What its points differ in."""
    slope: float
    intercept: float | None
    r2: float
    source: str


class PriorChoices(Record):
    """Numbers of the prior that no publication gives; the reasons stand in the file."""

    intercept_sd: float
    residual_sd: float
    residual_df: float
    gap_stderr: float
    improvement_stderr: float


class PublishedPrior(Record):
    """Published laws and the choices made beside them."""

    laws: tuple[PublishedLaw, ...]
    choices: PriorChoices
    pilot: PilotPrior

    @property
    def slope(self) -> float:
        """Mean of the published slopes."""
        return fmean(law.slope for law in self.laws)

    @property
    def slope_sd(self) -> float:
        """Spread of the NEXT family's slope: sample SD · sqrt(1 + 1/n) over the published ones."""
        return stdev(law.slope for law in self.laws) * math.sqrt(1.0 + 1.0 / len(self.laws))

    @property
    def intercept(self) -> float:
        """Mean of the published intercepts."""
        return fmean(law.intercept for law in self.laws if law.intercept is not None)


@lru_cache(maxsize=1)
def published_prior() -> PublishedPrior:
    """The prior that ships with the package."""
    text = files("predictor.law").joinpath("published_prior.yaml").read_text(encoding="utf-8")
    return PublishedPrior.model_validate(yaml.safe_load(text))


def prior_of(spec: LawSpec) -> Prior:
    """The prior a specification asks for; extra terms are flat, because nothing is published about them."""
    if spec.method != "bayes" or spec.prior == "none":
        return flat_prior(2 + len(spec.extra))
    return _informed_prior(len(spec.extra))


@lru_cache(maxsize=16)
def _informed_prior(num_extra: int) -> Prior:
    published = published_prior()
    choices = published.choices
    variance = choices.residual_sd**2
    precisions = (variance / choices.intercept_sd**2, variance / published.slope_sd**2)
    return Prior(
        means=(published.intercept, published.slope) + (0.0,) * num_extra,
        precisions=precisions + (0.0,) * num_extra,
        df=choices.residual_df,
        variance=variance,
        probe_var=choices.gap_stderr**2,
        eval_var=choices.improvement_stderr**2,
    )
