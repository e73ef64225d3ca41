"""Which predictors earn their place: formulas compared by the error of forecasts for held-out hint configs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from predictor.errors import LawError
from predictor.law.model import LinearLaw, leave_one_family_out
from predictor.records import ExtraName, GapName, HeldOutErrors, LawFit, Record, RunRecord
from predictor.records.law.text import text_table

GAPS: tuple[GapName, ...] = ("gap", "net_gap", "transferable_gap", "consensus_gap")
# A further term must lower the held-out CRPS by this share; below it, held-out errors of a few dozen runs are noise.
_WORTH_A_TERM = 0.1
# Hint configs that each term beyond the gap needs.
_CONFIGS_PER_TERM = 10


class Candidate(Record):
    """One formula with the errors of its held-out forecasts, or why it was not compared."""

    formula: str
    predictor: GapName
    extra: tuple[ExtraName, ...]
    form: str = ""
    errors: HeldOutErrors | None = None
    """Leave-one-config-out."""
    family_errors: HeldOutErrors | None = None
    """Leave-one-family-out; None for one family or a method that knows no unseen family."""
    refused: str = ""
    """Why it could not be chosen."""


class Selection(Record):
    """Formulas in the order tried, and the one with the smallest held-out error that the number of runs supports."""

    candidates: tuple[Candidate, ...]
    chosen: str
    reason: str

    def __str__(self) -> str:
        """One row for each formula, then the choice."""
        head = ("formula", "CRPS", "MAE", "RMSE", "coverage 80 %", "family MAE", "")
        rows = [_row(candidate, chosen=self.chosen) for candidate in self.candidates]
        return "\n".join([*text_table(head, rows), "", f"Chosen: {self.chosen}. {self.reason}"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def select_law(
    records: Sequence[RunRecord],
    law: LinearLaw,
    *,
    predictors: Sequence[GapName] = GAPS,
    extra: Sequence[ExtraName] = (),
) -> tuple[LawFit, Selection]:
    """Fit every gap alone, then the best one with each extra term, and return the best fit and the comparison.

    Terms beyond the gap are refused below ten hint configs each, and must lower the held-out CRPS by a tenth.
    """
    fits: dict[str, LawFit] = {}
    alone = [_tried(records, law, (name, ()), fits) for name in predictors]
    best = _best(alone)
    if best is None:
        raise LawError(
            "no predictor could be compared on these records",
            found="; ".join(f"{candidate.formula}: {candidate.refused}" for candidate in alone),
            fix="record more runs with measured gaps",
        )
    longer = [_tried(records, law, (best.predictor, (name,)), fits) for name in extra]
    winner = _best([candidate for candidate in longer if _earns_its_term(candidate, best)]) or best
    errors, base = winner.errors, best.errors
    reason = "" if errors is None else f"Held-out CRPS {errors.crps:.4f}, the smallest"
    if winner is not best and base is not None:
        reason += f"; without its extra term {base.crps:.4f}"
    selection = Selection(candidates=(*alone, *longer), chosen=winner.formula, reason=reason + ".")
    return fits[winner.formula], selection


def _tried(
    records: Sequence[RunRecord],
    law: LinearLaw,
    terms: tuple[GapName, tuple[ExtraName, ...]],
    fits: dict[str, LawFit],
) -> Candidate:
    predictor, extra = terms
    trial = law.model_copy(update={"predictor": predictor, "extra": extra, "fallback": None})
    candidate = Candidate(formula=trial.formula, predictor=predictor, extra=extra)
    try:
        fit = trial.fit(records)
        family_errors = leave_one_family_out(fit.points, fit.spec) if len(fit.families) > 1 else None
    except LawError as error:
        return candidate.model_copy(update={"refused": error.what})
    fits[trial.formula] = fit
    num_configs = len({point.config for point in fit.points})
    refused = "" if fit.leave_one_out else "too few hint configs to hold one out"
    if extra and num_configs <= _CONFIGS_PER_TERM * len(extra):
        refused = f"{num_configs} hint configs do not support {len(extra)} further terms"
    found = {
        "form": fit.form,
        "errors": fit.leave_one_out,
        "family_errors": family_errors,
        "refused": refused,
    }
    return candidate.model_copy(update=found)


def _best(candidates: Sequence[Candidate]) -> Candidate | None:
    usable = [candidate for candidate in candidates if not candidate.refused and candidate.errors is not None]
    return min(usable, key=_crps, default=None)


def _crps(candidate: Candidate) -> float:
    return candidate.errors.crps if candidate.errors is not None else float("inf")


def _earns_its_term(candidate: Candidate, best: Candidate) -> bool:
    return not candidate.refused and _crps(candidate) <= (1.0 - _WORTH_A_TERM) * _crps(best)


def _row(candidate: Candidate, *, chosen: str) -> tuple[str, ...]:
    errors, family = candidate.errors, candidate.family_errors
    if errors is None:
        return (candidate.formula, "", "", "", "", "", candidate.refused)
    return (
        candidate.formula,
        f"{errors.crps:.4f}",
        f"{errors.mae:.4f}",
        f"{errors.rmse:.4f}",
        f"{errors.coverage80:.2f}",
        f"{family.mae:.4f}" if family else "",
        candidate.refused or ("chosen" if candidate.formula == chosen else ""),
    )
