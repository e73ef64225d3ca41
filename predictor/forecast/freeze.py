"""Forecasts fixed before training: time, commit and a hash of everything they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from predictor.errors import StoreError
from predictor.records import Forecast, FrozenForecast, Provenance, Record, content_hash


def freeze(forecasts: Sequence[Forecast], *, inputs: Mapping[str, Any], provenance: Provenance) -> FrozenForecast:
    """Freeze at `provenance.time_utc`; `inputs` maps names to records, sequences of records or JSON values."""
    draft = FrozenForecast(
        forecasts=tuple(forecasts),
        frozen_at=provenance.time_utc,
        inputs={name: input_hash(value) for name, value in inputs.items()},
        provenance=provenance,
        frozen_hash="",
    )
    return draft.model_copy(update={"frozen_hash": draft.expected_hash()})


def input_hash(value: Any) -> str:
    """Content hash of a record, a sequence of records, or any JSON value."""
    if isinstance(value, Record):
        return value.content_hash()
    if isinstance(value, (list, tuple)):
        return content_hash([input_hash(item) if isinstance(item, Record) else item for item in value])
    return content_hash(value)


def verify(frozen: FrozenForecast, inputs: Mapping[str, Any] | None = None) -> None:
    """Raise StoreError when the forecast was changed after its freeze, or when a given input is not the frozen one."""
    if not frozen.is_intact:
        raise StoreError(
            "a frozen forecast does not match its hash",
            where=f"forecast of {frozen.frozen_at}",
            found=frozen.expected_hash(),
            expected=frozen.frozen_hash,
            fix="restore forecasts.jsonl; an edited forecast cannot be scored",
        )
    for name, value in (inputs or {}).items():
        if input_hash(value) != frozen.inputs.get(name):
            raise StoreError(
                f"input `{name}` is not what the forecast was made from",
                where=f"forecast of {frozen.frozen_at}",
                found=input_hash(value),
                expected=frozen.inputs.get(name, "no such input"),
                fix="forecast again, which freezes a new entry",
            )
