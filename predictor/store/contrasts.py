"""diagnostics.parquet: student against teacher at every token of every scored rollout, one row for each rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
import pyarrow as pa

from predictor.store.shards import read_shard, write_shard

CONTRAST_SCHEMA = pa.schema(
    [
        ("arm_key", pa.string()),
        ("example_id", pa.string()),
        ("index", pa.int32()),
        ("prompt_hash", pa.string()),
        ("token_kind", pa.list_(pa.int8())),
        ("forward_kl", pa.list_(pa.float32())),
        ("reverse_kl", pa.list_(pa.float32())),
        ("disagrees", pa.list_(pa.float32())),
        ("student_logprob", pa.list_(pa.float32())),
        ("teacher_logprob", pa.list_(pa.float32())),
        ("student_entropy", pa.list_(pa.float32())),
        ("teacher_entropy", pa.list_(pa.float32())),
    ]
)


@dataclass(frozen=True, slots=True)
class ContrastRow:
    """One rollout of the student under one hint config; lists have one entry for each token, in nats."""

    arm_key: str
    """The teacher's arm."""
    example_id: str
    index: int
    """Number of the student's rollout."""
    prompt_hash: str
    """The hinted prompt."""
    token_kind: tuple[int, ...]
    """0 content, 1 format, 2 marker."""
    forward_kl: tuple[float, ...]
    reverse_kl: tuple[float, ...]
    disagrees: tuple[float, ...]
    student_logprob: tuple[float, ...]
    teacher_logprob: tuple[float, ...]
    student_entropy: tuple[float, ...]
    teacher_entropy: tuple[float, ...]


class ContrastStore:
    """The one file, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> pd.DataFrame:
        """All rows; empty before the first diagnostics, StoreError when the file cannot be read."""
        if not self.path.exists():
            return CONTRAST_SCHEMA.empty_table().to_pandas()
        return read_shard(self.path, CONTRAST_SCHEMA, "the token diagnostics").to_pandas()

    def add(self, rows: Sequence[ContrastRow]) -> None:
        """Write the file anew with these rows; a row for the same arm, example and index is replaced."""
        if not rows:
            return
        columns = {f.name: [getattr(row, f.name) for row in rows] for f in fields(ContrastRow)}
        new = pa.table(columns, schema=CONTRAST_SCHEMA).to_pandas()
        stored = self.read()
        whole = new if stored.empty else pd.concat([stored, new])
        whole = whole.drop_duplicates(["arm_key", "example_id", "index"], keep="last")
        write_shard(self.path, pa.Table.from_pandas(whole, schema=CONTRAST_SCHEMA, preserve_index=False))
