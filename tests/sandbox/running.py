"""Short ways to run a program in the sandbox, under limits that hurt or do not."""

from __future__ import annotations

import time

from predictor.sandbox import Limits, Program, Ran, Sandbox

QUICK = Limits(seconds=1.0, grace_s=5.0, memory_mb=512, processes=16)
PATIENT = Limits(seconds=30.0, memory_mb=512, processes=16)
COUNT_CHILDREN = (
    "import os, time\nchildren = 0\ntry:\n  while children < 200:\n"
    "    if os.fork() == 0: time.sleep(5); os._exit(0)\n"
    "    children += 1\nexcept OSError: print(children)"
)
SLOW_MACHINE_SECONDS = 30.0
"""A busy machine delays the supervisor too; endless means longer than this."""


def run(*command: str, limits: Limits = QUICK, stdin: str = "", **files: str) -> Ran:
    started = time.monotonic()
    ran = Sandbox().run(Program(command=command, stdin=stdin, files=files), limits)
    assert time.monotonic() - started < SLOW_MACHINE_SECONDS
    return ran


def python(code: str, limits: Limits = QUICK, stdin: str = "") -> Ran:
    return run("python", "-I", "-c", code, limits=limits, stdin=stdin)
