"""Runs inside the sandbox before the program: sets the kernel's limits on itself, then becomes the program.

Started by path with nothing but the standard library: `launch.py '{"cpu": 10, …}' program argument…`.
"""

from __future__ import annotations

import json
import os
import resource
import sys

CANNOT_START = 125
"""Exit code when the limits or the program are refused; `env` and `timeout` use the same one."""


def main(arguments: list[str]) -> int:
    """Never returns when the program could be started."""
    limits, command = json.loads(arguments[0]), arguments[1:]
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The hard limit kills what ignores the soft one's signal.
        resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu"], limits["cpu"] + 1))
        for name, value in (("AS", limits["memory"]), ("FSIZE", limits["file"]), ("NPROC", limits["processes"])):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        # Python ignores these two, and a program would inherit that.
        for ignored in ("SIGPIPE", "SIGXFSZ"):
            _restore_default(ignored)
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot start {command[0]}: {error}\n")
    return CANNOT_START


def _restore_default(name: str) -> None:
    import signal

    signal.signal(signal.Signals[name], signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
