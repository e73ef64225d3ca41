"""While vLLM generates, garbage is collected seldom; afterwards the process is as it was."""

from __future__ import annotations

import gc
import weakref

import pytest

from predictor.engines.vllm_runtime import seldom_collecting


class _Ring:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


def _stopped_inside() -> None:
    with seldom_collecting():
        raise ValueError(f"stopped at {gc.get_threshold()[0]}")


def test_the_callers_thresholds_come_back_even_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stopped at 50000"):
        _stopped_inside()
    assert gc.get_threshold() == before


def test_garbage_is_still_collected_inside_so_memory_is_bounded() -> None:
    with seldom_collecting():
        first = weakref.ref(_Ring())
        rings = 0
        while first() is not None and rings < 1_000_000:
            _Ring()
            rings += 1
    assert first() is None
