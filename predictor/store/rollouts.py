"""The raw truth: one Parquet row for each rollout, in shards that appear whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from predictor.errors import StoreError
from predictor.store.shards import read_shard, write_shard

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
_SHARD = "a rollout shard"
_SHARD_NAME = re.compile(r"\d{6,}(\.whole)?\.parquet")


@dataclass(slots=True)
class RolloutRow:
    """One rollout as stored; the columns of data/README.md. Not frozen: that would make it four times as slow."""

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


_COLUMNS = [column.name for column in fields(RolloutRow)]
_COLUMNS_OF = attrgetter(*_COLUMNS)


class RolloutStore:
    """Shards of rollouts in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def append(self, rows: Sequence[RolloutRow]) -> None:
        """Write the rows as one new shard; it exists whole or not at all."""
        if rows:
            columns = [list(column) for column in zip(*map(_COLUMNS_OF, rows), strict=True)]
            table = pa.table(dict(zip(_COLUMNS, columns, strict=True)), schema=ROLLOUT_SCHEMA)
            write_shard(self.directory / f"{self._next_number():06d}.parquet", table)

    def replace_all(self, frame: pd.DataFrame) -> None:
        """Write all rollouts anew as the only shard (for regrading); old shards go after the new one is whole."""
        old = self._all_shards()
        table = pa.Table.from_pandas(frame[ROLLOUT_SCHEMA.names], schema=ROLLOUT_SCHEMA, preserve_index=False)
        write_shard(self.directory / f"{self._next_number():06d}.whole.parquet", table)
        for shard in old:
            shard.unlink()

    def read(self, arm_keys: Iterable[str] | None = None) -> pd.DataFrame:
        """All rollouts (of some arms), one row each; StoreError when a shard cannot be read or a rollout is doubled."""
        tables = [read_shard(shard, ROLLOUT_SCHEMA, _SHARD) for shard in self.shards()]
        if not tables:
            return ROLLOUT_SCHEMA.empty_table().to_pandas()
        frame = pa.concat_tables(tables).to_pandas()
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
        found = self._all_shards()
        rewrites = [place for place, shard in enumerate(found) if shard.name.endswith(".whole.parquet")]
        return found[rewrites[-1] :] if rewrites else found

    def _all_shards(self) -> list[Path]:
        found = [path for path in self.directory.glob("*.parquet") if _SHARD_NAME.fullmatch(path.name)]
        return sorted(found, key=_number)

    def _next_number(self) -> int:
        return max(map(_number, self._all_shards()), default=0) + 1


def judged(correct: Any) -> bool | None:
    """A stored verdict: True, False, or None where the checker could not judge (Parquet's null reads as NaN)."""
    return None if pd.isna(correct) else bool(correct)


def _number(shard: Path) -> int:
    return int(shard.name.split(".")[0])


def row_fields(row: RolloutRow) -> dict[str, Any]:
    """The row as a plain dict, for tests and exports."""
    return asdict(row)
