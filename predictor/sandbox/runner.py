"""The sandbox: files and a command in, one status out; nothing is left behind."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from predictor.sandbox.census import num_tasks
from predictor.sandbox.limits import Limits, Program, Ran
from predictor.sandbox.shield import Shield, find_shield, process_options, script
from predictor.sandbox.supervise import Supervisor

_MOST_FILE_BYTES = 1_000_000


class Sandbox:
    """Runs programs behind the strongest shield there is; without any, every run is `infra`."""

    def __init__(self, python: str | None = None) -> None:
        self._wanted = python

    @property
    def shield(self) -> Shield | None:
        """The shield in force; None when nothing untrusted can be run here."""
        return find_shield(self._wanted)

    def run(self, program: Program, limits: Limits) -> Ran:
        """Run a program to its end or to one of its limits.

        A run that ends at its deadline without having got half of the time it was ready for is repeated once, alone.
        """
        shield = self.shield
        if shield is None:
            missing = self._wanted or "an interpreter that an unprivileged user may run"
            return Ran(status="infra", message=f"there is no sandbox here: {missing} is missing or does not work")
        try:
            with _turn(alone=False):
                ran = _attempt(shield, program, limits)
            if ran.attempts == 1:
                return ran
            with _turn(alone=True, patience_s=limits.seconds + limits.grace_s):
                return replace(_attempt(shield, program, limits), attempts=2)
        except OSError as error:
            return Ran(status="infra", message=f"the sandbox could not start the program: {error}")


def _attempt(shield: Shield, program: Program, limits: Limits) -> Ran:
    """One run; `attempts` is 2 where it was starved and deserves another."""
    directory = Path(tempfile.mkdtemp(prefix="gapcast-")).resolve()
    try:
        with shield.leased_user() as user:
            options = process_options(directory, user)
            for name, text in program.files.items():
                (directory / name).write_text(text, encoding="utf-8", errors="replace")
            inner = [shield.python, *program.command[1:]] if program.command[0] == "python" else [*program.command]
            bounds = json.dumps(_bounds(limits, user))
            launched = shield.wrap([shield.python, "-I", "-S", "-c", script("launch"), bounds, *inner], directory)
            stdin = program.stdin.encode("utf-8", errors="replace")
            ended = Supervisor(limits, user).run(launched, stdin, options)
        return Ran(
            status=ended.status,
            output=ended.output.decode("utf-8", errors="replace"),
            message=ended.message,
            report=_left_text(directory, program.report),
            seconds=ended.seconds,
            attempts=2 if ended.starved else 1,
        )
    finally:
        # A program may have taken away its own rights to its directories.
        shutil.rmtree(directory, ignore_errors=True)


def _bounds(limits: Limits, user: int | None) -> dict[str, int]:
    """The kernel's limits; an ordinary user's other processes count too, and leave no room otherwise."""
    others = num_tasks(os.getuid()) if user is None else 0
    return {
        "cpu": math.ceil(limits.seconds),
        "memory": limits.memory_mb * 2**20,
        "file": limits.file_mb * 2**20,
        "processes": limits.processes + others,
    }


def _left_text(directory: Path, name: str) -> str:
    """The start of a plain file that the program left; never follows a link, never waits for a pipe."""
    if not name:
        return ""
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        is_plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _MOST_FILE_BYTES).decode("utf-8", errors="replace") if is_plain else ""
    finally:
        os.close(descriptor)


@contextmanager
def _turn(*, alone: bool, patience_s: float = 0.0) -> Iterator[None]:
    """Run beside the other sandboxes of this user, or (after at most `patience_s` of waiting) while none runs."""
    path = Path(tempfile.gettempdir()) / f"gapcast-sandbox-{os.getuid()}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    deadline = time.monotonic() + patience_s
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            if alone and time.monotonic() >= deadline:
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
