"""The fitted law: a line per family with points, guards and held-out errors; it predicts, prints and saves itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Literal

from predictor.errors import LawError
from predictor.records.base import Record
from predictor.records.estimate import Estimate, finite_or_none
from predictor.records.law.line import FamilyLaw, HeldOutErrors, Prediction
from predictor.records.law.predict import predict_run
from predictor.records.law.spec import LawGuard, LawPoint, LawSpec, LeftOut
from predictor.records.law.text import law_summary


class LawFit(Record):
    """A fitted law: frozen, prints itself, survives JSON. `predictor.law` fits it, `predict` uses it."""

    spec: LawSpec
    form: Literal["linear", "saturating"] = "linear"
    """The form that was fitted; the specification may have left the choice to held-out error."""
    families: tuple[FamilyLaw, ...]
    new_family: FamilyLaw | None = None
    """The line for a family without runs of its own: the prior, or the pooled law of `hierarchical`."""
    points: tuple[LawPoint, ...]
    left_out: tuple[LeftOut, ...] = ()
    guards: tuple[LawGuard, ...] = ()
    leave_one_out: HeldOutErrors | None = None
    """Leave-one-config-out errors; None where fewer points are left than the law needs."""
    note: str = ""
    """One sentence on choices made during the fit (form, predictors)."""

    @property
    def num_runs(self) -> int:
        """Runs behind all points."""
        return sum(len(point.ys) for point in self.points)

    @property
    def exit_code(self) -> int:
        """3 when a guard casts doubt on the result, else 0."""
        return 3 if any(guard.severity == "doubt" for guard in self.guards) else 0

    def line(self, family: str = "") -> FamilyLaw:
        """The family's line; without a name the only one; for an unseen family the prior's or pooled line."""
        if not family and len(self.families) == 1:
            return self.families[0]
        for law in self.families:
            if law.family == family:
                return law
        if self.new_family is None:
            raise LawError(
                f"the law has no line for family `{family}`",
                found=", ".join(law.family for law in self.families) or "no family",
                fix="record runs of this family, or use method `bayes` with the published prior",
            )
        return self.new_family

    def predict(
        self,
        gap: Estimate,
        *,
        family: str = "",
        student: float | None = None,
        num_eval_units: int | None = None,
        extra: Sequence[float] = (),
    ) -> Prediction:
        """Distribution of the measured improvement of ONE new run with this value of the gap predictor.

        Without `student` the bounds are -1 and 1; without `num_eval_units` the evaluation is as large as the probe.
        """
        if len(extra) != len(self.spec.extra):
            raise LawError(
                "a prediction needs one value for each extra term of the law",
                found=f"{len(extra)} values",
                expected=", ".join(self.spec.extra) or "none",
            )
        units = gap.num_units if num_eval_units is None else num_eval_units
        return predict_run(self.line(family), gap, tuple(extra), student=student, num_eval_units=units)

    def as_json(self) -> dict[str, Any]:
        """What `gapcast fit --json` prints (design, section 12), plus the specification and what was left out."""
        return {
            "method": self.spec.method,
            "formula": self.spec.formula,
            "form": self.form,
            "num_runs": self.num_runs,
            "families": [
                {
                    "family": law.family,
                    "num_configs": law.num_configs,
                    "intercept": law.intercept.as_json(),
                    "slope": law.slope.as_json(),
                    "r2": finite_or_none(law.r2),
                    "residual_sd": finite_or_none(law.residual_sd),
                }
                for law in self.families
            ],
            "leave_one_out": self.leave_one_out.as_json() if self.leave_one_out else None,
            "left_out": [entry.model_dump() for entry in self.left_out],
            "guards": [{"name": guard.name, "message": guard.message} for guard in self.guards],
        }

    def __str__(self) -> str:
        """A text table: one row per family, then held-out errors, guards and what was left out."""
        return law_summary(self)

    def _repr_html_(self) -> str:
        """The same table for a notebook, escaped."""
        return f"<pre>{escape(str(self))}</pre>"
