"""Which shield this machine really has: each candidate must pass a canary before anything untrusted runs in it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from predictor.sandbox.census import is_free

ShieldName = Literal["bubblewrap", "namespaces", "bare"]

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
"""All that a program sees of the environment, beside HOME and TMPDIR: its own directory."""
_CANARY_SECONDS = 20.0
# The user ids that systemd hands out to services without one of their own, so that no person has one of them.
FREE_USERS = range(61_184, 65_520)
_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


@dataclass(frozen=True, slots=True)
class Shield:
    """How a program is wrapped, and which interpreter runs it."""

    name: ShieldName
    python: str
    drops_user: bool
    """Whether programs run under a user id of their own, which only root can give."""

    def wrap(self, command: Sequence[str], directory: Path) -> list[str]:
        """The command line that runs `command` behind this shield, with `directory` as its own."""
        if self.name == "bubblewrap":
            own = str(directory)
            mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", own, own]
            return [
                _found("bwrap") or "bwrap",
                "--unshare-all",
                "--die-with-parent",
                "--new-session",
                *mounts,
                "--chdir",
                own,
                *command,
            ]
        if self.name == "namespaces":
            # A shell as the first process of the namespace: the kernel spares the first one most signals.
            shell = ["sh", "-c", '"$@"; exit $?', "sh"]
            return [
                _found("unshare") or "unshare",
                "--user",
                "--net",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                *shell,
                *command,
            ]
        return list(command)

    @contextmanager
    def leased_user(self) -> Iterator[int | None]:
        """A user id that no process has now and no other run gets meanwhile, where programs have one of their own.

        A run kills whatever has its user id, so two runs that picked the same one would end each other's programs.
        """
        if not self.drops_user:
            yield None
            return
        start = os.getpid() % len(FREE_USERS)
        for user in (*FREE_USERS[start:], *FREE_USERS[:start]):
            with socket.socket(socket.AF_UNIX) as lease:
                if _is_leased(lease, user) and is_free(user):
                    yield user
                    return
        yield None


def _is_leased(lease: socket.socket, user: int) -> bool:
    """Whether the socket got the user's name: an abstract one has one holder, and is freed however that ends."""
    try:
        lease.bind(f"\0gapcast-user-{user}")
    except OSError:
        return False
    return True


def process_options(directory: Path, user: int | None) -> dict[str, Any]:
    """What every process of a run is started with; the directory is handed to its user."""
    options: dict[str, Any] = {
        "cwd": directory,
        "env": ENVIRONMENT | {"HOME": str(directory), "TMPDIR": str(directory)},
        "start_new_session": True,
    }
    if user is not None:
        os.chown(directory, user, user)
        options |= {"user": user, "group": user, "extra_groups": []}
    return options


def script(name: str) -> str:
    """Source of a script of this package, handed over as text because another user may not read our files."""
    return (resources.files("predictor.sandbox") / f"{name}.py").read_text(encoding="utf-8")


@lru_cache(maxsize=8)
def find_shield(python: str | None) -> Shield | None:
    """The strongest shield that the canary proves; None when not even a bare process can be started safely."""
    return next((shield for shield in _candidates(python) if _is_proven(shield)), None)


def _candidates(python: str | None) -> Iterator[Shield]:
    is_root = os.geteuid() == 0
    pythons = (python,) if python else (sys.executable, *(_SYSTEM_PYTHONS if is_root else ()))
    names: list[ShieldName] = ["bare"]
    if _found("unshare"):
        names.insert(0, "namespaces")
    if _found("bwrap"):
        names.insert(0, "bubblewrap")
    for name in names:
        yield from (Shield(name, candidate, is_root) for candidate in pythons)


def _found(tool: str) -> str | None:
    """The tool's whole path, so that what the canary proved is what runs, whoever may see which directory."""
    return shutil.which(tool, path=ENVIRONMENT["PATH"])


def _is_proven(shield: Shield) -> bool:
    seen = _canary(shield)
    if seen is None or not seen["own_directory"] or (shield.name != "bare" and seen["network"]):
        return False
    return shield.name != "bubblewrap" or not seen["writes"]


def _canary(shield: Shield) -> dict[str, bool] | None:
    with tempfile.TemporaryDirectory(prefix="gapcast-") as name, shield.leased_user() as user:
        directory = Path(name)
        command = shield.wrap([shield.python, "-I", "-S", "-c", script("canary")], directory)
        try:
            done = subprocess.run(
                command,
                **process_options(directory, user),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_CANARY_SECONDS,
                check=False,
            )
            seen: dict[str, bool] = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
    return seen if done.returncode == 0 else None
