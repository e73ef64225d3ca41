"""The raw truth: one Parquet row for each rollout, in shards that appear whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from predictor.errors import StoreError
from predictor.store.files import atomic_writer

ROLLOUT_SCHEMA = pa.schema(
    [
        ("arm_key", pa.string()),
        ("arm", pa.string()),
        ("example_id", pa.string()),
        ("unit", pa.string()),
        ("split", pa.string()),
        ("index", pa.int32()),
        ("has_context", pa.bool_()),
        ("prompt_hash", pa.string()),
        ("prompt_len", pa.int32()),
        ("completion_ids", pa.list_(pa.int32())),
        ("text", pa.string()),
        ("finish_reason", pa.string()),
        ("logprob_sum", pa.float64()),
        ("correct", pa.bool_()),
        ("extracted", pa.string()),
        ("reason", pa.string()),
        ("copied", pa.bool_()),
        ("checker", pa.string()),
        ("checker_version", pa.string()),
        ("seed", pa.int64()),
        ("engine", pa.string()),
        ("engine_version", pa.string()),
        ("time_utc", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """One rollout as stored; the columns of data/README.md."""

    arm_key: str
    arm: str
    example_id: str
    unit: str
    split: str
    index: int
    has_context: bool
    prompt_hash: str
    prompt_len: int
    completion_ids: tuple[int, ...]
    text: str
    finish_reason: str
    logprob_sum: float
    correct: bool | None
    extracted: str
    reason: str
    copied: bool
    checker: str
    checker_version: str
    seed: int
    engine: str
    engine_version: str
    time_utc: str


class RolloutStore:
    """Shards of rollouts in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def append(self, rows: Sequence[RolloutRow]) -> None:
        """Write the rows as one new shard; it exists whole or not at all."""
        if not rows:
            return
        columns = {f.name: [getattr(row, f.name) for row in rows] for f in fields(RolloutRow)}
        table = pa.table(columns, schema=ROLLOUT_SCHEMA)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        with atomic_writer(self.directory / f"{self._next_number():06d}.parquet") as stream:
            stream.write(buffer.getvalue())

    def replace_all(self, frame: pd.DataFrame) -> None:
        """Write all rollouts anew as the only shard (for regrading); old shards go after the new one is whole."""
        old = self.shards()
        table = pa.Table.from_pandas(frame[ROLLOUT_SCHEMA.names], schema=ROLLOUT_SCHEMA, preserve_index=False)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        marker = self.directory / f"{self._next_number():06d}.whole.parquet"
        with atomic_writer(marker) as stream:
            stream.write(buffer.getvalue())
        for shard in old:
            shard.unlink()

    def read(self, arm_keys: Iterable[str] | None = None) -> pd.DataFrame:
        """All rollouts (of some arms), one row each; StoreError when a shard cannot be read or a rollout is doubled."""
        tables = [_read_shard(shard) for shard in self.shards()]
        frame = pa.concat_tables(tables).to_pandas() if tables else ROLLOUT_SCHEMA.empty_table().to_pandas()
        if arm_keys is not None:
            frame = frame[frame["arm_key"].isin(set(arm_keys))].reset_index(drop=True)
        doubled = frame.duplicated(["arm_key", "example_id", "index"])
        if doubled.any():
            raise StoreError(
                "a rollout is stored twice",
                where=str(self.directory),
                found=f"{int(doubled.sum())} rows",
                expected="each once",
            )
        return frame

    def shards(self) -> list[Path]:
        """Shards in the order they were written; older ones that a whole rewrite replaced are left out."""
        found = sorted(self.directory.glob("[0-9]*.parquet"))
        rewrites = [shard for shard in found if shard.name.endswith(".whole.parquet")]
        return [shard for shard in found if not rewrites or shard >= rewrites[-1]]

    def _next_number(self) -> int:
        self.directory.mkdir(parents=True, exist_ok=True)
        names = [int(path.name.split(".")[0]) for path in self.directory.glob("[0-9]*.parquet")]
        return max(names, default=0) + 1


def _read_shard(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, schema=ROLLOUT_SCHEMA)
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(
            "a rollout shard cannot be read",
            where=str(path),
            found=str(error)[:200],
            fix="delete it and probe again",
        ) from None


def row_fields(row: RolloutRow) -> dict[str, Any]:
    """The row as a plain dict, for tests and exports."""
    return asdict(row)
