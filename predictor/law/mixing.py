"""Records that differ in what the law holds fixed: refused, or flagged when the user asked for a mixture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from predictor.errors import LawError
from predictor.records import LawGuard, LawSpec, RunRecord
from predictor.records.law import GuardName

_HELD_FIXED: Mapping[GuardName, tuple[str, Callable[[RunRecord], str]]] = {
    "mixed_task": ("task", lambda record: record.spec.task),
    "mixed_decoding": ("decoding", lambda record: record.decoding),
    "mixed_steps": ("number of steps", lambda record: str(record.spec.num_steps)),
    "mixed_preset": ("preset", lambda record: record.spec.preset),
    "mixed_training": ("training settings", lambda record: record.training_key),
    "mixed_checkpoint_rule": ("checkpoint rule", lambda record: record.checkpoint_rule),
}


def mixture_guards(records: Sequence[RunRecord], spec: LawSpec) -> list[LawGuard]:
    """One guard for each thing that differs; LawError instead, unless `spec.allow_mixed`."""
    guards = []
    for name, (label, value) in _HELD_FIXED.items():
        if name == "mixed_steps" and "num_steps" in spec.extra:
            continue
        # Outside records and older ones do not say; what is not known is no difference.
        values = [name for name in _distinct(value(record) for record in records) if name]
        if len(values) > 1:
            guards.append(_guard(name, label, values))
    remeasured = _remeasured_baselines(records)
    if remeasured:
        guards.append(_guard("mixed_baseline", "student baseline", remeasured))
    if guards and not spec.allow_mixed:
        raise LawError(
            "these records do not belong to one law",
            found="; ".join(guard.message for guard in guards),
            expected="one task, decoding, number of steps, preset, checkpoint rule and student baseline",
            fix="fit them apart, or pass allow_mixed (--allow-mixed) and read the guards",
        )
    return guards + _peak_guard(records)


def _remeasured_baselines(records: Sequence[RunRecord]) -> list[str]:
    """Baselines of the first model and task whose student was measured more than once.

    A baseline's noise enters gap and improvement with the same sign: measured anew for each hint config it
    manufactures slope (a true slope of 0 reads 0.05 to 0.23).
    """
    baselines: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.baseline_id:
            baselines.setdefault((record.spec.model, record.spec.task), []).append(record.baseline_id)
    distinct = [_distinct(values) for values in baselines.values()]
    return next((values for values in distinct if len(values) > 1), [])


def _peak_guard(records: Sequence[RunRecord]) -> list[LawGuard]:
    peaks = _distinct(record.spec.hint for record in records if record.checkpoint_rule == "best")
    if not peaks:
        return []
    message = "improvement was taken at the best checkpoint on the same examples; it flatters every run: "
    return [
        LawGuard(name="peak_checkpoint", severity="doubt", message=message + ", ".join(peaks), subjects=tuple(peaks))
    ]


def _guard(name: GuardName, label: str, values: Sequence[str]) -> LawGuard:
    shown = ", ".join(values[:4]) + (" …" if len(values) > 4 else "")
    return LawGuard(name=name, severity="doubt", message=f"the {label} differs: {shown}", subjects=tuple(values))


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
