"""SIGINT and SIGTERM become a request to stop after the step, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from predictor.errors import RunError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class RunStopped(RunError):
    """A signal stopped the run after a checkpoint; exit code 128 plus the signal's number, as shells have it."""

    def __init__(self, signum: int, num_steps: int) -> None:
        name = signal.Signals(signum).name
        super().__init__(f"stopped by {name} after step {num_steps}; `gapcast-train resume` goes on from there")
        self.exit_code = 128 + signum


class StopRequest:
    """While entered, the first signal asks and the second kills."""

    def __init__(self) -> None:
        self._signum: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._signum is not None

    def raise_if_asked(self, num_steps: int) -> None:
        """RunStopped once a signal has come; call it where everything is saved."""
        if self._signum is not None:
            raise RunStopped(self._signum, num_steps)

    def __enter__(self) -> Self:
        """Take over both signals; only a process's main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, signum: int, _frame: FrameType | None) -> None:
        self._signum = signum
        # Whoever asks twice does not want to wait for the step.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
