"""`gapcast fit`: the law on one or several studies, formulas compared, and how the frozen forecasts did."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from predictor.cli import show
from predictor.cli.commands import changed, doubts, opened
from predictor.cli.tables import print_fit
from predictor.law import measured_gap
from predictor.law.size import next_gaps, noise_of, plan_sizes
from predictor.loop.fitting import fit_law, score_forecasts, select_fit
from predictor.loop.session import Session
from predictor.records import GapName, LawFit, LawForm, LawMethod


@dataclass(frozen=True, slots=True)
class FitOptions:
    """What `gapcast fit` changes in the study's law; None leaves the study's own."""

    method: LawMethod | None = None
    predictor: GapName | None = None
    form: LawForm | None = None
    allow_mixed: bool = False
    select: bool = False
    half_width: float | None = None
    """Wanted half-width of the 80 % interval for a new run: print which study sizes reach it."""


def fit(studies: Sequence[Path], options: FitOptions, *, as_json: bool) -> int:
    """Refit the law, print it with its held-out errors and how the frozen forecasts of all these studies did."""
    with ExitStack() as stack:
        session = stack.enter_context(opened(studies[0]))
        stack.enter_context(session.study.locked())
        others = [Session(path) for path in studies[1:]]
        asked = {"method": options.method, "predictor": options.predictor, "form": options.form}
        law = changed(session.config.law, asked | {"allow_mixed": options.allow_mixed or None})
        select = select_fit(session, law, others) if options.select else None
        fitted, selection = select or (fit_law(session, law, others), None)
        scored = score_forecasts(session, *(other for other in others if not _same(other, session)))
        if as_json:
            chosen = {"selection": selection.model_dump(mode="json")} if selection is not None else {}
            show.print_json(show.nulls(fitted.as_json() | chosen | {"forecasts": scored.as_json()}))
        else:
            if selection is not None:
                show.say(f"{selection}\n")
            print_fit(fitted, scored)
            if options.half_width is not None:
                _print_sizes(session, fitted, options.half_width)
        return doubts(fitted.guards)


def _print_sizes(session: Session, fitted: LawFit, wanted: float) -> None:
    """Study sizes for each family, and the measured gap without a run that would sharpen the slope most."""
    trained = {point.hint for point in fitted.points}
    waiting = {g.hint: measured_gap(g, fitted.spec)[0].value for g in session.gaps if g.hint not in trained}
    for law in fitted.families:
        show.say(f"\n{law.family}: {plan_sizes(noise_of(law, rollouts=session.config.probe.rollouts), wanted=wanted)}")
        best = next(iter(next_gaps(fitted, list(waiting.values()), family=law.family)), None)
        if best is not None:
            hint = next(name for name, gap in waiting.items() if gap == best.gap)
            show.say(
                f"A run of `{hint}` would sharpen the slope most: {law.slope.stderr:.3f} to {best.slope_stderr:.3f}"
            )


def _same(one: Session, other: Session) -> bool:
    return one.study.path.resolve() == other.study.path.resolve()
