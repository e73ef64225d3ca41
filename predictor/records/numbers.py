"""What each number of a probe means: from the records' own fields, so that it cannot drift away from them."""

from __future__ import annotations

from predictor.errors import InputError
from predictor.records.base import Record
from predictor.records.definitions import DEFINITIONS, explain
from predictor.records.explain import nearest_key
from predictor.records.measure import ConsensusDetail, Estimands, GapEstimate, Stopping

_DEFINED: tuple[type[Record], ...] = (GapEstimate, Estimands, ConsensusDetail, Stopping)
_NO_NUMBERS = frozenset({"model", "family", "task", "hint", "kind", "is_control", "control_of", "provenance"})


def definitions() -> dict[str, str]:
    """Definition of every number that a probe reports, by its name; names inside a section carry the section."""
    found: dict[str, str] = {}
    for record in _DEFINED:
        prefix = {ConsensusDetail: "consensus_detail.", Stopping: "stopping."}.get(record, "")
        for name, field in record.model_fields.items():
            if name not in _NO_NUMBERS:
                found[prefix + name] = " ".join((field.description or "").split())
    return found | {name: explain(name).removeprefix(f"{name} ") for name in DEFINITIONS}


def definition(name: str) -> str:
    """The definition of one number; InputError with the nearest name for an unknown one.

    >>> definition("truncated_pooled")
    'Share of teacher rollouts with finish reason `length`.'
    """
    known = definitions()
    if name not in known:
        raise InputError(
            "there is no number of this name", where="--explain", found=name, fix=nearest_key(name, sorted(known))
        )
    return known[name]
