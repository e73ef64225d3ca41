"""One process under supervision: its output is kept to a cap, its family is counted, and all of it dies in time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from predictor.sandbox.census import Family
from predictor.sandbox.limits import Limits, Status

_CENSUS_SECONDS = 0.1
_CHUNK = 65_536
_STARVED_SHARE = 0.5
"""A program that was ready to run but got less than this share of its time says nothing about itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What supervision saw of one process."""

    status: Status
    output: bytes
    message: str
    seconds: float
    starved: bool = False


class Supervisor:
    """Runs one command; used once."""

    def __init__(self, limits: Limits, user: int | None) -> None:
        self._limits = limits
        self._user = user
        self._output = bytearray()
        self._broken: tuple[Status, str] | None = None
        self._starved = False

    def run(self, command: Sequence[str], stdin: bytes, options: dict[str, Any]) -> Ended:
        """Start, watch and clean up; OSError when the command cannot be started."""
        started = time.monotonic()
        with tempfile.TemporaryFile() as source, _spawned(command, source, stdin, options) as process:
            family = Family(process.pid, self._user)
            try:
                self._watch(process, family, started + self._limits.seconds)
            finally:
                died = family.kill(self._limits.grace_s)
                self._drain(process)
                # A dead family leaves its root to be collected; one that lives on must not keep us waiting.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(None if died else 0.1)
        if not died or process.returncode is None:
            process.returncode = process.returncode or -signal.SIGKILL
            return Ended("infra", b"", "some of its processes could not be killed", time.monotonic() - started)
        status, message = self._broken or explain_exit(process.returncode)
        if status == "wrong" and self._output.rstrip().endswith(b"\nMemoryError"):
            status, message = "memory", f"asked for more than {self._limits.memory_mb} MB"
        return Ended(status, bytes(self._output), message, time.monotonic() - started, self._starved)

    def _watch(self, process: subprocess.Popen[bytes], family: Family, deadline: float) -> None:
        """Read output until the process ends, the deadline passes or the family breaks a limit."""
        descriptor = os.pidfd_open(process.pid)
        census = time.monotonic() + _CENSUS_SECONDS
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_READ)
                selector.register(_output_of(process), selectors.EVENT_READ)
                while True:
                    ready = selector.select(max(0.0, min(deadline, census) - time.monotonic()))
                    files = {key.fd for key, _ in ready}
                    if descriptor in files:
                        return
                    if files and not self._read(process):
                        selector.unregister(_output_of(process))
                    now = time.monotonic()
                    if now >= min(deadline, census):
                        self._take_census(family, timed_out=now >= deadline)
                        census = now + _CENSUS_SECONDS
                    if self._broken is not None:
                        return
        finally:
            os.close(descriptor)

    def _take_census(self, family: Family, *, timed_out: bool) -> None:
        members = family.members()
        tasks = sum(process.threads for process in members)
        resident = sum(process.resident_bytes for process in members)
        if resident > self._limits.memory_mb * 2**20:
            self._broken = ("memory", f"used more than {self._limits.memory_mb} MB")
        elif tasks > 2 * self._limits.processes:
            # The kernel's own limit comes first; twice of it is reached only where that does not bind.
            self._broken = ("crashed", f"started more than {self._limits.processes} processes")
        elif timed_out:
            self._broken = ("timeout", f"did not end within {self._limits.seconds:g} s")
            used = sum(process.cpu_seconds for process in members)
            is_ready = any(process.state == "R" for process in members)
            self._starved = is_ready and used < _STARVED_SHARE * self._limits.seconds

    def _read(self, process: subprocess.Popen[bytes]) -> bool:
        """Keep what fits below the cap; False at the end of the output."""
        try:
            chunk = os.read(_output_of(process), _CHUNK)
        except BlockingIOError:
            return True
        self._output += chunk[: self._limits.output_bytes - len(self._output)]
        return bool(chunk)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """What was written before the end, and no more than a pipe holds: an outsider may hold its other end."""
        for _ in range(2**20 // _CHUNK):
            with selectors.DefaultSelector() as selector:
                selector.register(_output_of(process), selectors.EVENT_READ)
                if not selector.select(0) or not self._read(process):
                    return


def explain_exit(code: int) -> tuple[Status, str]:
    """Status and sentence of an exit code; shells and bubblewrap report a signal as 128 + its number."""
    if code == 0:
        return "pass", ""
    number = -code if code < 0 else code - 128
    if number not in {*signal.Signals}:
        return "wrong", f"ended with exit code {code}"
    name = signal.Signals(number).name
    if name in ("SIGXCPU", "SIGALRM", "SIGVTALRM"):
        return "timeout", "used up its processor time"
    if name == "SIGKILL":
        return "memory", "was killed by the system, most likely for its memory"
    return "crashed", f"was ended by {name}"


def _output_of(process: subprocess.Popen[bytes]) -> int:
    if process.stdout is None:
        raise AssertionError("started with a pipe")
    return process.stdout.fileno()


@contextmanager
def _spawned(
    command: Sequence[str], source: Any, stdin: bytes, options: dict[str, Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process with its input in an unlinked file, so that neither side ever waits for the other."""
    source.write(stdin)
    source.seek(0)
    process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    try:
        os.set_blocking(_output_of(process), False)
        yield process
    finally:
        # Not `with Popen`: leaving that would wait for ever for a process that cannot be killed.
        if process.stdout is not None:
            process.stdout.close()
