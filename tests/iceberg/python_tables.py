"""Iceberg tables without a JVM: pyiceberg writes data, and deletes by keys are written here, as pyiceberg has none."""

import io
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interbed.iceberg.commit.new_file import NewFile
from interbed.iceberg.commit.replace import commit_replacement
from interbed.iceberg.commit.replacement import Replacement
from interbed.iceberg.meta.live_file import Content
from interbed.iceberg.table import IcebergTable


def delete_by_key(table: IcebergTable, column: str, keys: Sequence[int]) -> None:
    """Commit one equality delete file for all partitions of the table, which has no partition fields."""
    home = table.required_home()
    now = home.load()
    snapshot = now.metadata.current_snapshot()
    assert snapshot is not None
    number = now.metadata.schema().find_field(column).field_id
    field: pa.Field[Any] = pa.field(column, pa.int64(), True, {b"PARQUET:field_id": str(number).encode()})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(keys, pa.int64())], schema=pa.schema([field])), sink)
    path = f"{now.location()}/data/{uuid.uuid4()}.parquet"
    with now.io.new_output(path).create() as output:
        output.write(sink.getvalue())
    made = NewFile(
        path=path,
        content=Content.EQUALITY_DELETES,
        file_format="parquet",
        spec_id=0,
        partition=(),
        records=len(keys),
        size=len(sink.getvalue()),
        metrics={"equality_ids": [number]},
    )
    added = Replacement(snapshot_id=snapshot.snapshot_id, rewritten=(), converted=(), added=(made,), known=frozenset())
    commit_replacement(home, added, {})
