"""Files: replaced whole or not at all, lines with checksums, and a full disk that costs nothing but the last line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import StoreError
from predictor.store import append_line, atomic_writer, is_unfinished, read_lines, write_text
from tests.core.record_strategies import JSON_VALUES

ROOT = Path(__file__).parents[2]
FIELDS = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "checksum"), JSON_VALUES, max_size=4)


def lines(count: int) -> list[dict[str, Any]]:
    return [{"index": i, "text": "é\u2028" * i} for i in range(count)]


def written(path: Path, count: int) -> Path:
    for fields in lines(count):
        append_line(path, fields)
    return path


@settings(max_examples=30, deadline=None)
@given(st.lists(FIELDS, max_size=4))
def test_appended_objects_come_back_in_order_nan_and_line_separators_included(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "deep" / "x.jsonl"
    for fields in objects:
        append_line(path, fields)
    assert json.dumps(read_lines(path)) == json.dumps(objects)


def test_a_missing_file_holds_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "absent.jsonl") == []


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_last_line_torn_anywhere_is_dropped_and_the_next_one_appended_whole(kept: int, tmp_path: Path) -> None:
    whole = written(tmp_path / "x.jsonl", kept + 1).read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole) - 1):
        path = tmp_path / f"torn{end}.jsonl"
        path.write_bytes(whole[:end])
        assert read_lines(path) == lines(kept)
        append_line(path, {"new": end})
        assert read_lines(path) == [*lines(kept), {"new": end}]


def test_a_last_line_that_lacks_only_its_line_end_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", 2)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_lines(path) == lines(2)
    append_line(path, {"new": 1})
    assert read_lines(path) == [*lines(2), {"new": 1}]


def test_any_changed_byte_is_a_store_error_that_names_the_line_or_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", 3)
    content = bytearray(path.read_bytes())
    damaged = 0
    for place in range(len(content) - 1):
        number = content[:place].count(b"\n") + 1
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            assert read_lines(path) == lines(3), place
        except StoreError as error:
            damaged += f"{path}, line {number}" in str(error)
    # Only blanks between tokens may change without harm, and into a tab or a newline at that.
    assert damaged > 0.95 * (len(content) - 1)


@pytest.mark.parametrize(
    "line",
    [
        b"[1, 2]",
        b"5",
        b"null",
        b'"text"',
        b"{}",
        b'{"a": 1}',
        b"{broken",
        b'{"a": 1, "checksum": "0"}',
        b"\xff\xfe",
        b'{"a": 1, "checksum": null}',
        b'{"a": "\\ud800", "checksum": "0"}',
        b"[" * 5000,
    ],
    ids=lambda line: ascii(line[:24]),
)
def test_a_line_that_gapcast_did_not_write_is_a_store_error(line: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", 2)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StoreError, match="damaged") as caught:
        read_lines(path)
    assert caught.value.where.endswith("line 3")
    assert caught.value.exit_code == 1


def test_a_line_moved_from_one_object_to_another_keeps_its_checksum_honest(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", 2)
    first, second = path.read_text(encoding="utf-8").splitlines(keepends=True)[0], json.dumps({"index": 1, "text": "x"})
    checksum = json.loads(first)["checksum"]
    path.write_text(first + second[:-1] + f', "checksum": "{checksum}"}}\n', encoding="utf-8")
    with pytest.raises(StoreError, match="line 2"):
        read_lines(path)


def test_the_name_checksum_is_reserved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reserved"):
        append_line(tmp_path / "x.jsonl", {"checksum": 1})
    assert not (tmp_path / "x.jsonl").exists()


def test_a_replacement_is_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    write_text(path, "old")
    write_text(path, "new é")
    assert path.read_text(encoding="utf-8") == "new é"
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_and_raise(path: Path, kind: type[BaseException]) -> None:
    with atomic_writer(path) as stream:
        stream.write(b"half")
        raise kind


@pytest.mark.parametrize(("owner", "call"), [(os, "fsync"), (Path, "replace")])
def test_a_replacement_that_fails_at_any_step_leaves_the_old_file(
    owner: Any, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    write_text(path, "old")
    monkeypatch.setattr(owner, call, full)
    with pytest.raises(StoreError, match="No space left") as caught:
        write_text(path, "new")
    assert "free space" in caught.value.fix
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("kind", "seen"), [(ValueError, ValueError), (KeyboardInterrupt, KeyboardInterrupt), (OSError, StoreError)]
)
def test_an_error_inside_the_block_leaves_the_old_file(
    kind: type[BaseException], seen: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    write_text(path, "old")
    with pytest.raises(seen):
        write_and_raise(path, kind)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_an_append_that_fails_takes_its_part_of_the_line_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.jsonl", 2)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        append_line(path, {"lost": True})
    monkeypatch.undo()
    assert read_lines(path) == lines(2)
    append_line(path, {"kept": True})
    assert read_lines(path) == [*lines(2), {"kept": True}]


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
from predictor.errors import StoreError
from predictor.store import append_line, read_lines, write_text
path, other = Path(sys.argv[1]), Path(sys.argv[2])
write_text(other, "old")
for limit in range(900, 1100, 40):
    path.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, 10**6))
    count = 0
    try:
        while True:
            append_line(path, {"index": count, "pad": "x" * (40 + count)})
            count += 1
    except StoreError:
        pass
    assert [fields["index"] for fields in read_lines(path)] == list(range(count)) and count > 3, limit
    assert path.read_bytes().endswith(b"\\n")
    try:
        write_text(other, "new" * limit)
        raise SystemExit("the limit was not felt")
    except StoreError:
        assert other.read_text() == "old"
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
    append_line(path, {"index": count})
    assert read_lines(path)[-1] == {"index": count}
assert sorted(p.name for p in path.parent.iterdir()) == sorted([path.name, other.name])
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_only_whole_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILL_THE_DISK, str(tmp_path / "x.jsonl"), str(tmp_path / "x.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_path_that_cannot_be_written_or_read_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for act in (
        lambda: write_text(tmp_path / "file" / "x.json", "t"),
        lambda: append_line(tmp_path / "file" / "x.jsonl", {}),
        lambda: append_line(tmp_path, {}),
        lambda: read_lines(tmp_path),
        lambda: write_text(tmp_path, "t"),
    ):
        with pytest.raises(StoreError, match=r"cannot be (written|read)"):
            act()


def test_what_a_killed_writer_leaves_behind_is_recognised(tmp_path: Path) -> None:
    with atomic_writer(tmp_path / "x.json"):
        (leftover,) = tmp_path.iterdir()
        assert is_unfinished(leftover.name)
    assert not is_unfinished("x.json")
    assert not is_unfinished(".gitignore")
