"""From run records to the points of the law; nothing is left out, dropped or mixed without being named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from predictor.errors import LawError
from predictor.law.mixing import mixture_guards
from predictor.records import (
    Estimate,
    ExtraName,
    GapEstimate,
    GapName,
    LawGuard,
    LawPoint,
    LawSpec,
    LeftOut,
    RunRecord,
)

# Enough names to find the problem; a list of thousands helps nobody.
_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Collected:
    """Points to fit on, and everything a reader must know about how they came about."""

    points: tuple[LawPoint, ...]
    left_out: tuple[LeftOut, ...]
    guards: tuple[LawGuard, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """One usable run; `config` is its identity without the seed."""

    record: RunRecord
    config: str
    gap: GapEstimate
    x: Estimate
    predictor: GapName
    extra: tuple[float, ...]
    y: Estimate


def collect_points(records: Sequence[RunRecord], spec: LawSpec) -> Collected:
    """Usable runs as points, one for each hint config (or run); raises LawError for what the specification forbids."""
    usable, left_out = _usable(records)
    usable, duplicates, guards = _without_duplicates(usable, spec)
    rows, missing, more_guards = _rows(usable, spec)
    guards += more_guards + mixture_guards([row.record for row in rows], spec)
    return Collected(_points(rows, spec), tuple(left_out + duplicates + missing), tuple(guards))


def measured_gap(gap: GapEstimate, spec: LawSpec) -> tuple[Estimate, GapName]:
    """The predictor's value and the name of the gap it came from: the specification's, or its fallback's."""
    for name in (spec.predictor, spec.fallback):
        found = None if name is None else _gap_named(gap, name)
        if found is not None:
            return found
    refused = refusal(gap) if spec.predictor == "consensus_gap" else ""
    raise LawError(
        f"`{spec.predictor}` was not measured for hint config `{gap.hint}`",
        where=f"gap of {gap.hint} on {gap.model}",
        found=refused,
        expected=f"a gap with `{spec.predictor}`",
        fix=(
            "decode it (probe.consensus_estimator: ensemble) and run `gapcast probe`"
            if refused
            else "measure it with `gapcast probe`"
        )
        + ", or name a fallback (law.fallback: gap), which is flagged",
    )


def is_stand_in(gap: GapEstimate, predictor: GapName, spec: LawSpec) -> bool:
    """Whether the fallback gave the predictor; behind a gate the net gap is what `gap` means, and no stand-in."""
    wanted = _gap_named(gap, spec.predictor)
    return wanted is None or wanted[1] != predictor


def refusal(gap: GapEstimate) -> str:
    """Why the stored rollouts gave no consensus gap; empty where there is one, or where they were not asked."""
    found = None if gap.consensus_detail is None else gap.consensus_detail.reweighted
    if gap.consensus_gap is not None or found is None or not found.refused:
        return ""
    return f"reweighting was refused: {found.refused}"


def _gap_named(gap: GapEstimate, name: GapName) -> tuple[Estimate, GapName] | None:
    if name == "gap" and gap.gating == "failed" and gap.net_gap is not None:
        # Behind a gate the bare resample, too, answers the failed rollouts anew: only the net gap is the hint's.
        return gap.net_gap, "net_gap"
    found: Estimate | None = getattr(gap, name)
    return None if found is None else (found, name)


def extra_values(spec: LawSpec, gap: GapEstimate, num_steps: int) -> tuple[float, ...]:
    """Values of the extra terms for a hint config; raises LawError for a term that nothing gives a value to."""
    recorded: dict[ExtraName, float] = {"coverage": gap.coverage, "num_steps": float(num_steps)}
    values = []
    for name in spec.extra:
        given = spec.covariates.get(name, {})
        value = given.get(gap.hint, given.get(gap.model, recorded.get(name)))
        if value is None:
            raise LawError(
                f"term `{name}` has no value for hint config `{gap.hint}`",
                where=f"gap of {gap.hint} on {gap.model}",
                expected="one of the recorded terms (" + ", ".join(sorted(recorded)) + ") or a covariate",
                fix=f"give it by model or hint config in covariates, or drop `{name}` from the law",
            )
        values.append(value)
    return tuple(values)


def _usable(records: Sequence[RunRecord]) -> tuple[list[RunRecord], list[LeftOut]]:
    usable: list[RunRecord] = []
    left_out: list[LeftOut] = []
    for record in records:
        reason = _why_unusable(record)
        if reason:
            left_out.append(_left_out(record, reason))
        else:
            usable.append(record)
    return usable, left_out


def _why_unusable(record: RunRecord) -> str:
    if record.state != "finished":
        return f"the run is {record.state}" + (f" ({record.reason})" if record.reason else "")
    if record.spec.fidelity == "pilot":
        return "a pilot; it informs the forecast of its full run instead"
    return "no gap was measured for it" if record.gap is None else ""


def _left_out(record: RunRecord, reason: str) -> LeftOut:
    return LeftOut(key=record.spec.key, hint=record.spec.hint, reason=reason)


def _without_duplicates(
    records: Sequence[RunRecord], spec: LawSpec
) -> tuple[list[RunRecord], list[LeftOut], list[LawGuard]]:
    seen: set[tuple[object, ...]] = set()
    kept: list[RunRecord] = []
    repeated: list[RunRecord] = []
    for record in records:
        identity = tuple(record.spec.__dict__.values())
        (repeated if identity in seen else kept).append(record)
        seen.add(identity)
    if not repeated:
        return kept, [], []
    names = _names(record.spec.hint + " seed " + str(record.spec.seed) for record in repeated)
    if not spec.drop_duplicates:
        raise LawError(
            "a run stands in the records more than once, and would be counted twice",
            found=names,
            fix="remove the repeated rows, or drop them with drop_duplicates (the first is kept)",
        )
    left_out = [_left_out(record, "duplicate of an earlier record") for record in repeated]
    guard = LawGuard(name="duplicate_records", message=f"repeated records were dropped: {names}")
    return kept, left_out, [guard]


def _rows(records: Sequence[RunRecord], spec: LawSpec) -> tuple[list[_Row], list[LeftOut], list[LawGuard]]:
    rows: list[_Row] = []
    missing: list[LeftOut] = []
    for record in records:
        row, problem = _row(record, spec)
        if row is None:
            missing.append(_left_out(record, problem))
        else:
            rows.append(row)
    guards: list[LawGuard] = []
    if missing:
        names = _names(f"{entry.hint}: {entry.reason}" for entry in missing)
        if not spec.drop_missing:
            raise LawError(
                "records with missing numbers cannot be fitted",
                found=names,
                fix="complete them, or leave them out with drop_missing",
            )
        guards.append(LawGuard(name="missing_values", message=f"records were dropped: {names}"))
    replaced = sorted({row.record.spec.hint for row in rows if is_stand_in(row.gap, row.predictor, spec)})
    if replaced:
        guards.append(_fallback_guard(spec, replaced))
    return rows, missing, guards


def _row(record: RunRecord, spec: LawSpec) -> tuple[_Row | None, str]:
    gap = record.gap
    if gap is None:
        return None, "no gap was measured for it"
    response: Estimate | None = getattr(record, spec.response)
    if response is None or not math.isfinite(response.value):
        return None, f"{spec.response} is missing"
    x, predictor = measured_gap(gap, spec)
    if not math.isfinite(x.value):
        return None, f"{predictor} is not a number"
    if math.isnan(x.stderr) or math.isnan(response.stderr):
        return None, "a standard error is missing (it is never taken as 0)"
    extra = extra_values(spec, gap, record.spec.num_steps)
    return _Row(record, _config_key(record), gap, x, predictor, extra, response), ""


def _fallback_guard(spec: LawSpec, hints: Sequence[str]) -> LawGuard:
    return LawGuard(
        name="fallback_predictor",
        severity="doubt",
        message=f"{spec.predictor} was not measured for {_names(hints)}; {spec.fallback} stands in, a guess",
        subjects=tuple(hints),
    )


def _points(rows: Sequence[_Row], spec: LawSpec) -> tuple[LawPoint, ...]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        key = row.config if spec.unit == "config" else f"{row.config} seed {row.record.spec.seed}"
        groups.setdefault(key, []).append(row)
    several_models = len({row.record.spec.model for row in rows}) > 1
    return tuple(_point(members, several_models=several_models) for members in groups.values())


def _config_key(record: RunRecord) -> str:
    spec = record.spec
    return " ".join((spec.model, spec.task, spec.hint, spec.preset, str(spec.num_steps), spec.config_key))


def _point(rows: Sequence[_Row], *, several_models: bool) -> LawPoint:
    first = rows[0]
    spec, student = first.record.spec, first.record.before or first.gap.student
    count = len(rows)
    return LawPoint(
        label=f"{spec.hint} ({spec.model})" if several_models else spec.hint,
        family=spec.family,
        model=spec.model,
        task=spec.task,
        hint=spec.hint,
        config=first.config,
        xs=(math.fsum(row.x.value for row in rows) / count, *first.extra),
        x_stderr=math.sqrt(math.fsum(row.x.stderr**2 for row in rows) / count),
        ys=tuple(row.y.value for row in rows),
        y_stderr=math.sqrt(math.fsum(row.y.stderr**2 for row in rows) / count),
        y_units=first.y.num_units,
        student=student.value,
        baseline_var=_baseline_variance(first),
        baseline_id=first.record.baseline_id,
        run_keys=tuple(row.record.spec.key for row in rows),
        predictor=first.predictor,
    )


def _baseline_variance(row: _Row) -> float:
    """The student's part of the gap's variance, in proportion to the two arms' own variances.

    A net gap has no student in it, and a consensus gap has one of its own that the improvement does not share.
    """
    if row.predictor in ("net_gap", "consensus_gap"):
        return 0.0
    student, teacher = row.gap.student.stderr**2, row.gap.teacher.stderr**2
    share = student / (student + teacher) if student + teacher > 0.0 else 0.5
    return share * row.x.stderr**2


def _names(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - _NAMES_SHOWN
    return ", ".join(shown[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
