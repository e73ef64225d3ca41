"""Writes that a kill or a full disk cannot leave half done, and the lock that keeps two trainers apart."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from predictor.errors import RunError, StoreError


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system or safetensors say about writing `path` into one StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, SafetensorError) as error:
        raise StoreError(
            "a file cannot be written",
            where=str(path),
            found=getattr(error, "strerror", None) or str(error),
            fix="free space or correct the permissions, then start the run again: it goes on from its last checkpoint",
        ) from error


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """A directory to fill that appears as `path`, whole and on disk, or not at all; an older `path` is replaced."""
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in temporary.iterdir():
                _sync(file)
            _sync(temporary)
            # A directory cannot be renamed onto a full one; a kill in between is mended by going on from the state.
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file in one step; a kill leaves the old content or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            temporary.write_text(text, encoding="utf-8")
            _sync(temporary)
            temporary.replace(path)
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; RunError when another process does. A killed process gives its lock back."""
    with disk_errors(path):
        handle = path.open("a")
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                "another process trains this run",
                where=str(path.parent),
                fix="wait for it, or stop it; its checkpoints are kept",
            ) from None
        yield


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
