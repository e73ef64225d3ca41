"""Fitting the law on a study's runs and those of further studies, and scoring their frozen forecasts."""

from __future__ import annotations

from collections.abc import Sequence

from predictor.config import LawConfig
from predictor.forecast import score_studies
from predictor.law import LinearLaw
from predictor.law.select import Selection, select_law
from predictor.loop.session import Session
from predictor.records import ExtraName, ForecastScore, FrozenForecast, LawFit, RunRecord

EXTRA_TERMS: tuple[ExtraName, ...] = ("coverage", "num_steps")
"""Terms beyond the gap that every record has a value for."""


def fit_law(session: Session, law: LawConfig, others: Sequence[Session] = ()) -> LawFit:
    """The law on this study's finished full runs (and others'), as law.json too."""
    fitted = _specification(law).fit(_full_runs(session, others))
    session.study.write("law", fitted)
    return fitted


def select_fit(session: Session, law: LawConfig, others: Sequence[Session] = ()) -> tuple[LawFit, Selection]:
    """The formula with the smallest held-out error that the number of hint configs supports, as law.json too."""
    fitted, selection = select_law(_full_runs(session, others), _specification(law), extra=EXTRA_TERMS)
    session.study.write("law", fitted)
    return fitted, selection


def score_forecasts(*sessions: Session) -> ForecastScore:
    """Frozen forecasts of one or several studies beside what happened; each run against its own study's forecasts."""
    return score_studies([(s.study.records("forecasts", FrozenForecast), s.runs) for s in sessions])


def _full_runs(session: Session, others: Sequence[Session]) -> list[RunRecord]:
    """The study's runs, then those of `law.runs_from` and of the others; no study's runs are taken twice."""
    known = {session.study.path.resolve(), *(path.resolve() for path in session.paths_elsewhere)}
    runs = [*session.runs, *session.runs_elsewhere]
    for other in others:
        if other.study.path.resolve() not in known:
            known.add(other.study.path.resolve())
            runs += other.runs
    return [run for run in runs if run.spec.fidelity == "full"]


def _specification(law: LawConfig) -> LinearLaw:
    return LinearLaw(
        method=law.method,
        predictor=law.predictor,
        fallback=law.fallback,
        form=law.form,
        prior=law.prior,
        allow_mixed=law.allow_mixed,
    )
