"""Stored rollouts as a consensus policy sees them: one Parquet row for each distinct completion of an example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
import pyarrow as pa

from predictor.store.shards import read_shard, write_shard

SCORE_SCHEMA = pa.schema(
    [
        ("arm_key", pa.string()),
        ("example_id", pa.string()),
        ("fingerprint", pa.string()),
        ("completion_ids", pa.list_(pa.int32())),
        ("policy_logprob", pa.float64()),
        ("without_logprobs", pa.list_(pa.float64())),
        ("proposals", pa.list_(pa.string())),
        ("proposal_logprobs", pa.list_(pa.float64())),
        ("raw_logprobs", pa.list_(pa.float64())),
        ("engine", pa.string()),
        ("engine_version", pa.string()),
        ("time_utc", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One distinct completion under a consensus policy and under the prompts that sampled it."""

    arm_key: str
    """The consensus arm whose policy scored it."""
    example_id: str
    fingerprint: str
    """Identity of the completions and prompts that were scored together; other rollouts make another one."""
    completion_ids: tuple[int, ...]
    policy_logprob: float
    """Nats, temperature and top_p applied."""
    without_logprobs: tuple[float, ...]
    """The same without each group of hints."""
    proposals: tuple[str, ...]
    """Hashes of the prompts that stored rollouts answered."""
    proposal_logprobs: tuple[float, ...]
    """Nats under each of them, temperature and top_p applied."""
    raw_logprobs: tuple[float, ...]
    """Nats under each of them at temperature 1."""
    engine: str
    engine_version: str
    time_utc: str


class ScoreStore:
    """Shards of scores in one directory; the latest scores of an example under a policy count."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def append(self, rows: Sequence[ScoreRow]) -> None:
        """Write the rows as one new shard; it exists whole or not at all."""
        if rows:
            columns = {f.name: [getattr(row, f.name) for row in rows] for f in fields(ScoreRow)}
            number = 1 + max((int(shard.stem) for shard in self._shards()), default=0)
            write_shard(self.directory / f"{number:06d}.parquet", pa.table(columns, schema=SCORE_SCHEMA))

    def read(self, arm_keys: Iterable[str] | None = None) -> pd.DataFrame:
        """The latest scores of each (consensus arm, example); StoreError when a shard cannot be read."""
        tables = [read_shard(shard, SCORE_SCHEMA, "a shard of scores") for shard in self._shards()]
        frame = pa.concat_tables(tables).to_pandas() if tables else SCORE_SCHEMA.empty_table().to_pandas()
        if arm_keys is not None:
            frame = frame[frame["arm_key"].isin(set(arm_keys))]
        latest = frame.groupby(["arm_key", "example_id"])["fingerprint"].transform("last")
        return frame[frame["fingerprint"] == latest].reset_index(drop=True)

    def _shards(self) -> list[Path]:
        return sorted(path for path in self.directory.glob("*.parquet") if path.stem.isdecimal())
