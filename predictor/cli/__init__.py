"""The `gapcast` command: thin shells around predictor.loop; data to stdout, progress and warnings to stderr.

Exit codes: 0 done · 1 failed · 2 wrong usage or input · 3 done but not to be trusted · 4 stopped by the budget with
finished work kept · 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

from predictor.errors import GapcastError, printable

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; every expected failure is one clear message, never a traceback."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line."""
    from predictor.cli.app import app

    try:
        result = app(list(arguments), exit_on_error=False, print_error=True)
    except GapcastError as error:
        _say(f"gapcast: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("gapcast: interrupted; everything finished is kept, and the same command goes on from here")
        return 130
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EPIPE):
            raise
        _say(printable(f"gapcast: {error.strerror}: {error.filename or 'standard output'}; nothing stored is lost"))
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except _usage_errors():
        return 2
    return result if isinstance(result, int) else 0


def _usage_errors() -> tuple[type[Exception], ...]:
    from cyclopts import CycloptsError

    return (CycloptsError,)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
