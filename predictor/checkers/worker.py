"""A process that judges with other people's code: it may hang, print, crash or raise, and only its verdict is lost."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from predictor.errors import CheckerError

_START_SECONDS = 120.0
_LONGEST_REPLY = 1_000_000
_SERVE = Path(__file__).with_name("serve.py")


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a worker gave no value; the verdict is then undecided."""

    reason: str


class Worker:
    """One process that answers one request at a time, each within its deadline.

    After a timeout or a crash the process is killed with all its children and a fresh one is started for the next
    request. CheckerError when it cannot start at all (a missing package, module or function).
    """

    def __init__(self, kind: str, options: Mapping[str, Any], *, timeout_s: float) -> None:
        self._start_line = _line({"kind": kind, "options": dict(options)})
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stop: weakref.finalize[..., Worker] | None = None
        ready = self._start()
        if isinstance(ready, Failed):
            raise CheckerError("the checker's worker process does not start", where="task.checker", found=ready.reason)
        if "ready" not in ready:
            raise CheckerError(
                **{key: str(ready.get(key, "")) for key in ("what", "where", "found", "expected", "fix")}
            )
        self.version = str(ready["ready"])

    def ask(self, request: Mapping[str, Any]) -> Any:
        """The worker's value for a request, or Failed: it raised, died, or took longer than the deadline."""
        if self._process is None:
            ready = self._start()
            if isinstance(ready, Failed) or "ready" not in ready:
                return Failed("infra: the checker's worker process cannot be started again")
        reply = self._exchange(_line(request), self._timeout_s)
        if isinstance(reply, Failed):
            return reply
        return Failed(str(reply["raised"])) if "raised" in reply else reply.get("value")

    def close(self) -> None:
        """End the process; the next request starts another."""
        if self._stop is not None:
            self._stop()
        self._process = None

    def _start(self) -> dict[str, Any] | Failed:
        # By path and not by module, so that the worker loads nothing but what it judges with.
        process = subprocess.Popen(
            [sys.executable, "-P", str(_SERVE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._process = process
        self._stop = weakref.finalize(self, _end, process, os.getpid())
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        return self._exchange(self._start_line, _START_SECONDS)

    def _exchange(self, line: bytes, seconds: float) -> dict[str, Any] | Failed:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise AssertionError("started with both pipes")
        try:
            reply = json.loads(_converse(process.stdin.fileno(), process.stdout.fileno(), line, seconds))
        except TimeoutError:
            self.close()
            return Failed(f"the checker took more than {seconds:g} s")
        except (OSError, ValueError) as error:
            self.close()
            return Failed(f"the checker's worker process died ({error})")
        return reply if isinstance(reply, dict) else Failed("the checker's worker process answered nonsense")


def _converse(into: int, out_of: int, line: bytes, seconds: float) -> bytes:
    """Write a line and read one back; TimeoutError at the deadline, ValueError at the pipe's end."""
    deadline = time.monotonic() + seconds
    unwritten, reply = memoryview(line), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(into, selectors.EVENT_WRITE)
        selector.register(out_of, selectors.EVENT_READ)
        while not reply.endswith(b"\n"):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fd == out_of:
                    chunk = os.read(out_of, 65_536)
                    reply += chunk
                    if not chunk or len(reply) > _LONGEST_REPLY:
                        raise ValueError("no answer" if not chunk else "an endless answer")
                else:
                    unwritten = unwritten[os.write(into, unwritten[:65_536]) :]
                    if not unwritten:
                        selector.unregister(into)
    return bytes(reply)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the worker and its children; a forked copy of its owner leaves it alone."""
    if os.getpid() != owner:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()
