"""Fits side by side, and the runs that move a slope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from predictor.errors import LawError
from predictor.law.methods import lines_of
from predictor.law.table import tabulate
from predictor.records import FamilyLaw, LawFit, Record
from predictor.records.law.text import text_table


class Comparison(Record):
    """One column per fit, one row per quantity."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """The table as text."""
        return "\n".join(text_table(self.head, self.rows))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compare(fits: Mapping[str, LawFit]) -> Comparison:
    """Formula, size, every family's slope with its 95 % interval, and held-out errors, one column for each name."""
    columns = [_column(fit) for fit in fits.values()]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    rows = tuple((label, *(column.get(label, "") for column in columns)) for label in labels)
    return Comparison(head=("", *fits), rows=rows)


def _column(fit: LawFit) -> dict[str, str]:
    column = {
        "formula": fit.spec.formula,
        "method, form": f"{fit.spec.method}, {fit.form}",
        "runs, configs": f"{fit.num_runs}, {sum(law.num_configs for law in fit.families)}",
    }
    for law in fit.families:
        low, high = law.slope.interval()
        column[f"slope {law.family}"] = f"{law.slope.value:+.3f} [{low:+.2f}, {high:+.2f}]"
        column[f"intercept {law.family}"] = f"{law.intercept.value:+.3f}"
        column[f"R2 {law.family}"] = f"{law.r2:.3f}"
    if fit.leave_one_out is not None:
        errors = fit.leave_one_out
        column |= {
            "held-out MAE": f"{errors.mae:.4f}",
            "held-out CRPS": f"{errors.crps:.4f}",
            "coverage 80 %": f"{errors.coverage80:.2f}",
        }
    column["guards"] = ", ".join(sorted({guard.name for guard in fit.guards})) or "none"
    return column


class Influence(Record):
    """What one hint config does to its family's slope."""

    label: str
    family: str
    slope: float
    """Slope without it."""
    shift: float
    """Change of the slope when it is added."""
    shift_in_stderrs: float
    """The same in standard errors of the full slope; beyond 1 a single hint config decides the law."""
    residual: float
    """Its improvement minus the line fitted without it."""


def influence(fit: LawFit) -> tuple[Influence, ...]:
    """Every hint config by how far it moves the slope, largest first; those that no fit can do without are left out."""
    table = tabulate(fit.points, 2 + len(fit.spec.extra))
    spec = fit.spec.model_copy(update={"form": fit.form})
    found = []
    for config in range(int(table.config_N.max()) + 1 if len(table) else 0):
        row = int((table.config_N == config).argmax())
        point = fit.points[row]
        try:
            law = lines_of(table.take(table.config_N != config), spec).of(point.family)
        except LawError:
            continue
        if law is not None and law.num_runs:
            found.append(_influence(fit.line(point.family), law, point.label, (point.xs, point.y)))
    return tuple(sorted(found, key=lambda row: -abs(row.shift)))


def _influence(full: FamilyLaw, without: FamilyLaw, label: str, point: tuple[tuple[float, ...], float]) -> Influence:
    xs, y = point
    shift = full.slope.value - without.slope.value
    line = math.fsum(value * x for value, x in zip(without.coefficients, (1.0, *xs), strict=True))
    return Influence(
        label=label,
        family=full.family,
        slope=without.slope.value,
        shift=shift,
        shift_in_stderrs=shift / full.slope.stderr if full.slope.stderr > 0.0 else math.nan,
        residual=y - line,
    )
