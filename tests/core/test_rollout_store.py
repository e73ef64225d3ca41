"""Rollouts: shards appear whole or not at all, a rewrite can be killed at any step, and damage never goes unseen."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import StoreError
from predictor.store import RolloutRow, RolloutStore
from predictor.store.rollouts import ROLLOUT_SCHEMA, row_fields

ROOT = Path(__file__).parents[2]


def rollout(index: int, example_id: str = "e", arm_key: str = "k", **fields: Any) -> RolloutRow:
    base = RolloutRow(
        arm_key=arm_key,
        arm="student",
        example_id=example_id,
        unit="u",
        split="eval",
        index=index,
        has_context=False,
        prompt_hash="h",
        prompt_len=3,
        completion_ids=(5, 6, 7),
        text="a b",
        finish_reason="stop",
        logprob_sum=-1.5,
        correct=True,
        extracted="a",
        reason="",
        copied=False,
        checker="exact",
        checker_version="1",
        seed=2**62,
        engine="scripted",
        engine_version="1",
        time_utc="2026-01-01T00:00:00.000000+00:00",
    )
    return dataclasses.replace(base, **fields)


def indices(store: RolloutStore) -> list[int]:
    return [int(index) for index in store.read()["index"]]


@pytest.fixture
def store(tmp_path: Path) -> RolloutStore:
    return RolloutStore(tmp_path / "rollouts")


@settings(max_examples=12, deadline=None)
@given(
    text=st.text(max_size=20),
    ids=st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple),
    correct=st.none() | st.booleans(),
    logprob=st.floats(allow_nan=False),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_rollout_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, text: str, ids: tuple[int, ...], correct: bool | None, **numbers: Any
) -> None:
    store = RolloutStore(tmp_path_factory.mktemp("rollouts"))
    row = rollout(
        0, text=text, completion_ids=ids, correct=correct, logprob_sum=numbers["logprob"], seed=numbers["seed"]
    )
    store.append([row, rollout(1)])
    for _ in range(2):
        first = store.read().iloc[0].to_dict()
        assert tuple(first.pop("completion_ids")) == ids
        assert first == {k: v for k, v in row_fields(row).items() if k != "completion_ids"}
        # Once more after a rewrite through pandas.
        store.replace_all(store.read())


def test_an_empty_store_has_the_columns_and_no_rows(store: RolloutStore) -> None:
    assert list(store.read().columns) == ROLLOUT_SCHEMA.names
    assert len(store.read()) == 0
    store.append([])
    assert store.shards() == []


def test_shards_are_read_in_order_and_arms_can_be_chosen(store: RolloutStore) -> None:
    for start in range(0, 24, 2):
        store.append([rollout(start), rollout(start + 1, arm_key="other")])
    assert indices(store) == list(range(24))
    assert list(store.read(["other"])["index"]) == list(range(1, 24, 2))
    assert len(store.read([])) == 0
    assert [shard.name for shard in store.shards()] == [f"{i:06d}.parquet" for i in range(1, 13)]


def test_the_same_rollout_twice_is_a_store_error(store: RolloutStore) -> None:
    store.append([rollout(0), rollout(1)])
    store.append([rollout(1)])
    with pytest.raises(StoreError, match="stored twice") as caught:
        store.read()
    assert caught.value.found == "1 rows"


def test_files_that_are_no_shards_are_left_alone(store: RolloutStore) -> None:
    store.append([rollout(0)])
    for name in (".000002.parquet.77.tmp", "1 copy.parquet", "2_0.parquet", "backup.parquet", "000009.txt"):
        (store.directory / name).write_bytes(b"not parquet")
    store.append([rollout(1)])
    assert indices(store) == [0, 1]
    store.replace_all(store.read())
    assert indices(store) == [0, 1]
    assert (store.directory / "backup.parquet").exists()


@pytest.mark.parametrize("name", ["arm=1", "index=7", "text=x"])
def test_a_directory_named_like_a_partition_adds_nothing(name: str, tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / name / "rollouts")
    store.append([rollout(0)])
    assert store.read().iloc[0][["arm", "index", "text"]].tolist() == ["student", 0, "a b"]


def test_no_changed_byte_changes_what_is_read(store: RolloutStore) -> None:
    store.append([rollout(i, text=f"text {i}") for i in range(40)])
    (shard,) = store.shards()
    content, before = bytearray(shard.read_bytes()), store.read()
    refused = 0
    for place in range(0, len(content), 67):
        shard.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        try:
            pd.testing.assert_frame_equal(store.read(), before)
        except StoreError as error:
            refused += str(shard) in str(error)
    assert refused > 0.4 * len(content) / 67


def test_a_shard_that_is_cut_empty_or_has_other_columns_is_a_store_error(store: RolloutStore) -> None:
    store.append([rollout(0)])
    (shard,) = store.shards()
    content = shard.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"PAR1"):
        shard.write_bytes(damaged)
        with pytest.raises(StoreError, match="cannot be read"):
            store.read()
    shard.write_bytes(content)
    pq.write_table(pq.read_table(shard).drop_columns(["correct"]), shard)
    with pytest.raises(StoreError, match="other columns"):
        store.read()


class Killed(BaseException):
    """What a kill looks like from inside: nothing catches it."""


def killed_at(step: int, act: Any, patch: pytest.MonkeyPatch) -> bool:
    """Run `act`, but stop it at the n-th call that changes the disk; False when it ended before that."""
    calls = 0

    def counting(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return original(*args, **kwargs)

        return call

    with patch.context() as patched:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
            patched.setattr(owner, name, counting(getattr(owner, name)))
        try:
            act()
        except Killed:
            return True
    return False


def test_a_rewrite_killed_at_any_step_leaves_every_rollout_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, killed = 0, True
    while killed:
        step += 1
        store = RolloutStore(tmp_path / str(step))
        for start in (0, 3, 6):
            store.append([rollout(start + i) for i in range(3)])
        store.replace_all(store.read())
        store.append([rollout(9)])
        again = store.read().assign(checker_version="2")
        killed = killed_at(step, lambda store=store, again=again: store.replace_all(again), monkeypatch)
        assert indices(store) == list(range(10)), step
        assert set(store.read()["checker_version"]) in ({"1"}, {"2"}), step
        store.append([rollout(10)])
        assert indices(store) == list(range(11)), step
        store.replace_all(store.read().assign(checker_version="3"))
        assert indices(store) == list(range(11)), step
        assert len(store.shards()) == 1
        assert [p.name for p in store.directory.glob("*.parquet")] == [store.shards()[0].name]
    assert step > 5
    assert set(store.read()["checker_version"]) == {"3"}


def test_an_append_killed_at_any_step_leaves_its_shard_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, killed = 0, True
    while killed:
        step += 1
        store = RolloutStore(tmp_path / str(step))
        store.append([rollout(0)])
        killed = killed_at(step, lambda store=store: store.append([rollout(1), rollout(2)]), monkeypatch)
        assert indices(store) in ([0], [0, 1, 2])
        rest = [rollout(i) for i in range(3) if i not in indices(store)]
        store.append(rest)
        assert indices(store) == [0, 1, 2]
    assert step > 3


# One process imports the libraries; its children write until each is killed with SIGKILL at some instant.
KILL_WRITERS = """
import os, random, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from predictor.store import RolloutStore
from tests.core.test_rollout_store import rollout
store, instants = RolloutStore(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
for _ in range(4):
    child = os.fork()
    if child == 0:
        while True:
            have = len(store.read())
            store.append([rollout(have + i, completion_ids=tuple(range(500))) for i in range(7)])
    before = len(list(store.directory.glob("*.parquet")))
    deadline = time.monotonic() + 20
    while len(list(store.directory.glob("*.parquet"))) < before + 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(instants.random() * 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = [int(index) for index in store.read()["index"]]
    assert found == list(range(len(found))) and len(found) % 7 == 0 and found, found
"""


def test_writers_killed_at_random_instants_leave_no_half_and_no_doubled_shard(tmp_path: Path) -> None:
    seed = str(time.time_ns())
    started = time.monotonic()
    command = [sys.executable, "-c", KILL_WRITERS, str(tmp_path / "rollouts"), seed, str(ROOT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, f"seed {seed}, {time.monotonic() - started:.0f} s: {done.stderr}"
    found = indices(RolloutStore(tmp_path / "rollouts"))
    assert found == list(range(len(found)))
    assert len(found) >= 4 * 14
