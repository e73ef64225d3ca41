"""Files that survive a kill at any instant: atomic replacement, and appended lines with a checksum each."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from predictor.errors import StoreError


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends well, and leaves it untouched otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        # Where not even the directory exists, the error above says so.
        with suppress(OSError):
            temporary.unlink()


def is_unfinished(name: str) -> bool:
    """Whether a file of this name is what a killed `atomic_writer` left behind."""
    return name.startswith(".") and name.endswith(".tmp")


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically; StoreError when the disk refuses."""
    with atomic_writer(path) as stream:
        stream.write(text.encode("utf-8"))


def append_line(path: Path, fields: dict[str, Any]) -> None:
    """Append one JSON object with its checksum; a line torn by an earlier kill is dropped first."""
    line = checked_line(fields).encode("utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _mend_tail(path)
        # Unbuffered: closing a buffered file would write the rest of a line that has just been taken back.
        with path.open("ab", buffering=0) as stream:
            before = stream.tell()
            try:
                if stream.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(stream.fileno())
            except OSError:
                os.truncate(path, before)
                raise
    except OSError as error:
        raise _cannot_write(path, error) from None


def checked_line(fields: dict[str, Any]) -> str:
    """The object as one line of JSON with its checksum as the last field."""
    if "checksum" in fields:
        raise ValueError("`checksum` is reserved")
    body = json.dumps(fields, ensure_ascii=False)
    return json.dumps(fields | {"checksum": _checksum(body)}, ensure_ascii=False) + "\n"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a torn last line is ignored, any other damage is a StoreError that names the line."""
    try:
        *whole, last = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError("a record file cannot be read", where=str(path), found=error.strerror or str(error)) from None
    lines = [*whole, last] if _is_whole(last) else whole
    return [_parsed(line, number, path) for number, line in enumerate(lines, start=1) if line.strip()]


def _is_whole(line: bytes) -> bool:
    """Whether a last line lacks no more than its line end, as after a visit by some editors."""
    try:
        return bool(_parsed(line, 0, Path()))
    except StoreError:
        return False


def _parsed(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(line)
        checksum = fields.pop("checksum")
        intact = checksum == _checksum(json.dumps(fields, ensure_ascii=False))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _damaged(path, number, "not a JSON object with a checksum") from None
    if not intact:
        raise _damaged(path, number, "its checksum does not match its content")
    return dict(fields)


def _checksum(body: str) -> str:
    return hashlib.blake2b(body.encode("utf-8"), digest_size=8).hexdigest()


def _mend_tail(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) == b"\n":
            return
    content = path.read_bytes()
    start = content.rfind(b"\n") + 1
    if _is_whole(content[start:]):
        write_text(path, content.decode("utf-8") + "\n")
    else:
        os.truncate(path, start)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(
        "a file cannot be written",
        where=str(path),
        found=error.strerror or str(error),
        fix="free space or correct the permissions, then start the same command again; it goes on where it stopped",
    )


def _damaged(path: Path, number: int, why: str) -> StoreError:
    return StoreError(
        "a record file is damaged",
        where=f"{path}, line {number}",
        found=why,
        expected="lines written by gapcast",
        fix="restore the file, or delete this line; everything but rollouts and runs can be rebuilt",
    )
