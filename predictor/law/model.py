"""LinearLaw: the specification that fits itself on run records."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from predictor.errors import LawError
from predictor.law.guards import fit_guards
from predictor.law.heldout import held_out_errors
from predictor.law.lines import Lines
from predictor.law.methods import POOLED, lines_of
from predictor.law.points import collect_points
from predictor.law.table import tabulate
from predictor.records import (
    ExtraName,
    GapName,
    HeldOutErrors,
    LawFit,
    LawPoint,
    LawSpec,
    Response,
    RunRecord,
)

# A bent line must earn its bend: this much of the straight line's held-out error, on at least this many hint configs.
_WORTH_BENDING = 0.9
_MIN_CONFIGS_TO_BEND = 5


class LinearLaw(LawSpec):
    """improvement = intercept + slope · gap (+ extra terms), fitted for each family apart.

    The specification never changes when it is fitted; the result is a frozen `LawFit`.
    """

    @classmethod
    def from_formula(cls, formula: str, **settings: Any) -> LinearLaw:
        """A law from `improvement ~ consensus_gap + coverage`: response, one gap, then extra terms."""
        left, _, right = formula.partition("~")
        terms = [term.strip() for term in right.split("+") if term.strip() != "1"]
        response = _known(left.strip(), get_args(Response), formula)
        predictor = _known(terms[0] if terms else "", get_args(GapName), formula)
        extra = tuple(_known(term, get_args(ExtraName), formula) for term in terms[1:])
        return cls(**({"response": response, "predictor": predictor, "extra": extra} | settings))

    def fit(self, records: Sequence[RunRecord]) -> LawFit:
        """Fit finished full runs; with method `bayes` and its prior an empty sequence is enough."""
        spec = LawSpec.model_validate(self.model_dump())
        collected = collect_points(records, spec)
        chosen = _chosen_form(collected.points, spec)
        return LawFit(
            spec=spec,
            form=chosen.form,
            families=chosen.lines.families,
            new_family=chosen.lines.new_family,
            points=collected.points,
            left_out=collected.left_out,
            guards=collected.guards + tuple(fit_guards(collected.points, chosen.lines, spec)),
            leave_one_out=chosen.errors,
            note=chosen.note,
        )


def fit_lines(points: Sequence[LawPoint], spec: LawSpec) -> Lines:
    """The lines of a specification on given points, in the form that held-out error chooses."""
    return _chosen_form(points, spec).lines


def leave_one_config_out(points: Sequence[LawPoint], spec: LawSpec) -> HeldOutErrors | None:
    """Errors of forecasts for each hint config from all the others; None with too few of them."""
    return _chosen_form(points, spec).errors


def leave_one_family_out(points: Sequence[LawPoint], spec: LawSpec) -> HeldOutErrors | None:
    """Errors of forecasts for each family from all the others; None for methods that know no unseen family."""
    resolved = spec.model_copy(update={"form": _chosen_form(points, spec).form})
    return held_out_errors(points, lambda rest: lines_of(rest, resolved), hold_out="family", pooled=True)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A form with its lines and held-out errors, and one sentence on why it was chosen."""

    form: Literal["linear", "saturating"]
    lines: Lines
    errors: HeldOutErrors | None
    note: str = ""


def _chosen_form(points: Sequence[LawPoint], spec: LawSpec) -> _Chosen:
    if spec.form == "saturating":
        return _fitted(points, spec, "saturating")
    linear = _fitted(points, spec, "linear")
    if spec.form == "linear" or spec.method == "hierarchical" or not _may_bend(points):
        return linear
    bent = _fitted(points, spec, "saturating")
    if linear.errors is None or bent.errors is None:
        return linear
    text = f"held-out CRPS {bent.errors.crps:.3f} saturating, {linear.errors.crps:.3f} linear"
    if bent.errors.crps <= _WORTH_BENDING * linear.errors.crps:
        return _Chosen("saturating", bent.lines, bent.errors, f"Form: saturating, because {text}")
    return _Chosen("linear", linear.lines, linear.errors, f"Form: linear, because {text}")


def _may_bend(points: Sequence[LawPoint]) -> bool:
    """Whether some hint config came near its ceiling, among enough of them to tell a bend from noise."""
    near = [point.y > 0.8 * (1.0 - point.student) for point in points]
    return len(points) >= _MIN_CONFIGS_TO_BEND and any(near)


def _fitted(points: Sequence[LawPoint], spec: LawSpec, form: Literal["linear", "saturating"]) -> _Chosen:
    resolved = spec.model_copy(update={"form": form})
    table = tabulate(points, 2 + len(spec.extra))
    errors = None
    if len(points) > 1:
        pooled = spec.method in POOLED
        errors = held_out_errors(points, lambda rest: lines_of(rest, resolved), pooled=pooled, table=table)
    return _Chosen(form, lines_of(table, resolved), errors)


def _known(name: str, allowed: Sequence[str], formula: str) -> str:
    if name in allowed:
        return name
    near = difflib.get_close_matches(name, allowed, n=1)
    raise LawError(
        f"the formula has an unknown term `{name}`",
        where=formula,
        expected=", ".join(allowed),
        fix=f"did you mean `{near[0]}`?" if near else "write it as `improvement ~ gap`",
    )
