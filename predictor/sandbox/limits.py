"""What a program may use, and how a run of it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "wrong", "timeout", "memory", "crashed", "infra"]
"""`wrong` is a program that ended by itself with another exit code than 0; `infra` says nothing about the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one run; none can be switched off."""

    seconds: float = 10.0
    """Wall time, and processor time of each process (rounded up to whole seconds)."""
    grace_s: float = 10.0
    """Longest time for killing and collecting what is left after the deadline."""
    memory_mb: int = 1024
    """Address space of each process, and resident memory of all together (shared pages count for each)."""
    processes: int = 32
    """Processes and threads at one time."""
    file_mb: int = 16
    """Largest file."""
    output_bytes: int = 65_536
    """Bytes of output that are kept; the rest is read and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run, in a fresh directory that holds nothing else."""

    command: tuple[str, ...]
    """`python` as the first word is the sandbox's own interpreter."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by file name."""
    stdin: str = ""
    report: str = ""
    """Name of a file that is read after the end, if the program left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run ended."""

    status: Status
    output: str = ""
    """Standard output and error together, cut at `Limits.output_bytes`."""
    message: str = ""
    """One sentence for people; empty for a pass."""
    report: str = ""
    """Text of the program's report file, at most a million characters."""
    seconds: float = 0.0
    attempts: int = 1
    """2 where the first attempt was starved by other work and the program ran again alone."""
