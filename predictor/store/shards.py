"""Parquet shards that appear whole or not at all, and are refused when they are damaged or have other columns."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from predictor.errors import StoreError
from predictor.store.files import atomic_writer


def write_shard(path: Path, table: pa.Table) -> None:
    """Write the table atomically, with a checksum on every page."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())


def read_shard(path: Path, schema: pa.Schema, what: str) -> pa.Table:
    """The table; StoreError when it cannot be read or its columns are not those of `schema`. `what` names the file."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as shard:
            table = shard.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, what, str(error)[:200]) from None
    if not table.schema.equals(schema):
        raise _unreadable(path, what, "other columns than this version of gapcast writes")
    return table


def _unreadable(path: Path, what: str, found: str) -> StoreError:
    return StoreError(f"{what} cannot be read", where=str(path), found=found, fix="delete it and probe again")
