"""Iceberg tables without a JVM: pyiceberg writes data, and this module writes deletes, which pyiceberg does not
support.
"""

import io
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from interbed.iceberg.commit.home import CatalogHome, TableHome
from interbed.iceberg.commit.replace import FileReplacement, NewTableFile, commit_replacement
from interbed.iceberg.meta.live_files import FileContent
from interbed.iceberg.table import IcebergTable


def delete_by_key(table: IcebergTable, column: str, keys: Sequence[int]) -> None:
    """Commit one equality delete file that applies to all partitions; the file's spec has no partition fields."""
    home = table.required_home()
    now = home.load()
    number = now.metadata.schema().find_field(column).field_id
    rows = pa.Table.from_arrays(
        [pa.array(keys, pa.int64())], schema=pa.schema([_field(column, pa.int64(), True, number)])
    )
    _commit(home, now, rows, FileContent.EQUALITY_DELETES, metrics={"equality_ids": [number]})


def delete_by_position(table: Table, data: str, positions: Sequence[int]) -> None:
    """Commit one position delete file of a data file, in the table's catalog."""
    fields = [_field("file_path", pa.string(), False, 2147483546), _field("pos", pa.int64(), False, 2147483545)]
    rows = pa.table([[data] * len(positions), list(positions)], schema=pa.schema(fields))
    _commit(CatalogHome(table), table, rows, FileContent.POSITION_DELETES, referenced=data)


def _field(name: str, kind: pa.DataType, nullable: bool, number: int) -> "pa.Field[Any]":
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


def _commit(home: TableHome, now: Table, rows: pa.Table, content: FileContent, **facts: Any) -> None:
    """Commit a delete file to the current version of the table."""
    snapshot = now.metadata.current_snapshot()
    assert snapshot is not None
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    path = f"{now.location()}/data/{uuid.uuid4()}.parquet"
    with now.io.new_output(path).create() as output:
        output.write(sink.getvalue())
    made = NewTableFile(
        path=path,
        content=content,
        file_format="parquet",
        spec_id=0,
        partition=(),
        records=rows.num_rows,
        size=len(sink.getvalue()),
        **facts,
    )
    added = FileReplacement(
        snapshot_id=snapshot.snapshot_id, rewritten=(), converted=(), added=(made,), known=frozenset()
    )
    assert commit_replacement(home, added, {}) is not None
