"""The law as a text table for terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from predictor.records.law.fit import LawFit
    from predictor.records.law.line import Coefficient, FamilyLaw, HeldOutErrors


def law_summary(fit: LawFit) -> str:
    """Heading, one row per family, held-out errors, guards, records left out; numbers as shares, not points."""
    rows = [_family_row(law) for law in fit.families]
    if fit.new_family is not None:
        rows.append(_family_row(fit.new_family))
    head = ("family", "configs", "runs", "intercept [95 %]", "slope [95 %]", "R2", "residual SD")
    plural = "s" if len(fit.points) != 1 else ""
    lines = [
        f"Law: {fit.spec.formula}",
        f"method {fit.spec.method}, form {fit.form}, {len(fit.points)} point{plural} from {fit.num_runs} runs",
        "",
        *text_table(head, rows),
        "",
        held_out_line(fit.leave_one_out),
    ]
    if fit.note:
        lines.append(fit.note)
    lines += [f"{guard.severity}: {guard.name}: {guard.message}" for guard in fit.guards]
    lines += [f"left out: {entry.hint} ({entry.key}): {entry.reason}" for entry in fit.left_out]
    return "\n".join(lines)


def held_out_line(errors: HeldOutErrors | None) -> str:
    """Held-out errors in one sentence, or why there are none."""
    if errors is None:
        return "Leave-one-config-out: too few hint configs"
    return (
        f"Leave-one-config-out over {errors.num_folds} configs ({errors.num_runs} runs): "
        f"MAE {errors.mae:.3f}, RMSE {errors.rmse:.3f}, CRPS {errors.crps:.3f}, "
        f"coverage 50/80/95 %: {errors.coverage50:.2f} / {errors.coverage80:.2f} / {errors.coverage95:.2f}"
    )


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns under a rule; the first column left, the others right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [_table_line(head, widths), "-" * (sum(widths) + 2 * (len(widths) - 1))]
    return lines + [_table_line(row, widths) for row in rows]


def _table_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *rest]).rstrip()


def _family_row(law: FamilyLaw) -> tuple[str, ...]:
    return (
        law.family,
        str(law.num_configs),
        str(law.num_runs),
        _with_interval(law.intercept),
        _with_interval(law.slope),
        _number(law.r2, 2),
        _number(law.residual_sd, 3),
    )


def _with_interval(coefficient: Coefficient) -> str:
    low, high = coefficient.interval()
    return f"{coefficient.value:+.3f} [{_number(low, 2)}, {_number(high, 2)}]"


def _number(value: float, digits: int) -> str:
    return "?" if math.isnan(value) else f"{value:.{digits}f}"
