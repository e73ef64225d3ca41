"""Who belongs to a run, by reading /proc: descendants, members of its session, and holders of its user id."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat, as far as it matters here."""

    pid: int
    state: str
    parent: int
    session: int
    threads: int
    cpu_seconds: float
    """Its own and that of children it has waited for."""
    resident_bytes: int
    user: int


@dataclass(slots=True)
class Family:
    """The processes of one run; what was once seen as a member stays one, wherever it moves."""

    root: int
    user: int | None = None
    """A user id that only this run has, where there is one."""
    _known: set[int] = field(default_factory=set)

    def members(self) -> list[Process]:
        """All members that are alive now, zombies left out."""
        everyone = {process.pid: process for process in _processes()}
        self._known &= everyone.keys()
        self._known |= {pid for pid, process in everyone.items() if self._is_close(process)}
        grown = True
        while grown:
            children = {pid for pid, process in everyone.items() if process.parent in self._known}
            grown = not children <= self._known
            self._known |= children
        return [everyone[pid] for pid in self._known if everyone[pid].state not in "ZX"]

    def kill(self, seconds: float) -> bool:
        """Kill all members until none is left; False when some still live after `seconds`."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)
        while members := self.members():
            for process in members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
                _let_run(process.pid)
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        return True

    def _is_close(self, process: Process) -> bool:
        return self.root in (process.pid, process.session) or (self.user is not None and process.user == self.user)


def _let_run(pid: int) -> None:
    """Ordinary priority on all our processors for a killed process: to end it needs time that idle ones never get."""
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))


def is_free(user: int) -> bool:
    """Whether no process has this user id."""
    return all(process.user != user for process in _processes())


def num_tasks(user: int) -> int:
    """Processes and threads of a user, which a limit on processes counts together."""
    return sum(process.threads for process in _processes() if process.user == user)


def _processes() -> Iterator[Process]:
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            user = entry.stat().st_uid
        except OSError:
            continue
        # The name in parentheses may hold anything, spaces and parentheses too.
        fields = text.rpartition(")")[2].split()
        cpu = sum(map(int, fields[11:15])) / _TICKS
        yield Process(
            pid=int(entry.name),
            state=fields[0],
            parent=int(fields[1]),
            session=int(fields[3]),
            threads=int(fields[17]),
            cpu_seconds=cpu,
            resident_bytes=int(fields[21]) * _PAGE,
            user=user,
        )
