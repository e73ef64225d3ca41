"""A deadline in processor time, for patterns and templates that could otherwise run for ever."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the block once the process has computed for `seconds` there.

    Processor time, so that a busy machine changes no verdict. Only the main thread receives signals, and probe, trainer
    and notebooks judge in it; in any other thread there is no deadline. Garbage is not collected inside the block:
    Python swallows what is raised in a collector's callback, and the deadline would pass unseen.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    collecting = gc.isenabled()
    gc.disable()
    previous = signal.signal(signal.SIGVTALRM, _raise_timeout)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, previous)
        if collecting:
            gc.enable()


def _raise_timeout(_signal: int, _frame: object) -> None:
    raise TimeoutError("out of processor time")
