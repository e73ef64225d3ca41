"""The ledger of device-seconds: everything is charged as it is spent, even when a process is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from predictor.records import LedgerEntry, utc_now
from predictor.store import Study

ChargeKind = Literal["probe", "calibration", "pilot", "train", "record"]
_FLUSH_SECONDS = 15.0
"""Longest stretch of work that a kill can leave uncharged."""


class Meter:
    """Counts wall-clock seconds of one piece of work and writes them to the ledger in small pieces."""

    def __init__(self, study: Study, kind: ChargeKind, key: str = "") -> None:
        self._study, self._kind, self._key = study, kind, key
        self._last = time.monotonic()
        self.seconds = 0.0

    def tick(self) -> None:
        """Charge what has passed, when it is worth a line."""
        if time.monotonic() - self._last >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Charge what has passed since the last line."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self.seconds += passed
        charge = LedgerEntry(kind=self._kind, key=self._key, seconds=passed, time_utc=utc_now())
        self._study.append("ledger", charge)


@contextmanager
def metered(study: Study, kind: ChargeKind, key: str = "") -> Iterator[Meter]:
    """A meter that charges the rest when the block ends, however it ends."""
    meter = Meter(study, kind, key)
    try:
        yield meter
    finally:
        meter.flush()


def charged_seconds(study: Study) -> float:
    """Device-seconds charged to the study so far."""
    return sum(charge.seconds for charge in study.records("ledger", LedgerEntry))


def seconds_of(study: Study, kind: ChargeKind, key: str = "") -> float:
    """Device-seconds charged for one kind of work (and one run)."""
    charges = study.records("ledger", LedgerEntry)
    return sum(c.seconds for c in charges if c.kind == kind and (not key or c.key == key))
