"""A table whose data files a test writes itself, record by record, with the writer of the file format."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import EMPTY_ROW, DataFileMeta
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, Schema, TableSchema
from interbed.storage.scan.split import Split
from interbed.storage.table.opening import open_store

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """One record of a data file."""

    row: Row
    sequence: int
    kind: int = 0


@dataclass
class KeyValueTable:
    """A primary-key table with one bucket."""

    location: Path
    schema: TableSchema
    files: list[DataFileMeta] = field(default_factory=list)

    @staticmethod
    def create(location: Path, arrow: pa.Schema, keys: Sequence[str], **options: str) -> "KeyValueTable":
        """Create a table and its schema file."""
        schema = Schema.from_pyarrow_schema(
            arrow, primary_keys=keys, options={"bucket": "1", **options}
        ).to_table_schema(time_millis=0)
        table = KeyValueTable(location, schema)
        table.add_schema(schema)
        return table

    def add_schema(self, schema: TableSchema) -> None:
        """Make this the newest schema, with which later files are written."""
        path = self.location / "schema" / f"schema-{schema.id}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema.to_json())
        self.schema = schema

    def add_file(
        self,
        records: Sequence[Record],
        *,
        file_format: str = "parquet",
        level: int = 0,
        thin: bool = False,
        count_deletes: bool = True,
        row_group_size: int = 3,
    ) -> DataFileMeta:
        """Write a file of records, which are in key order."""
        schema = self.schema
        rows = [dict(zip(schema.names, r.row, strict=True)) for r in records]
        columns: dict[str, pa.Array[Any]] = {}
        if not thin:
            for key in schema.trimmed_primary_keys:
                # Wrong on purpose: a reader that takes keys from here instead of the table's columns is detected.
                columns[KEY_PREFIX + key] = pa.nulls(len(rows), schema.arrow.field(key).type)
        columns[SEQUENCE_NUMBER] = pa.array([r.sequence for r in records], pa.int64())
        columns[VALUE_KIND] = pa.array([r.kind for r in records], pa.int8())
        for name in schema.names:
            columns[name] = pa.array([row[name] for row in rows], schema.arrow.field(name).type)
        name = f"data-{len(self.files)}.{file_format}"
        content = _write(pa.table(columns), file_format, row_group_size)
        path = self.location / "bucket-0" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        bounds = [encode_row([rows[i][k] for k in schema.trimmed_primary_keys], schema.key_types) for i in (0, -1)]
        meta = DataFileMeta(
            file_name=name,
            file_size=len(content),
            row_count=len(records),
            min_key=bounds[0],
            max_key=bounds[1],
            min_sequence_number=min(r.sequence for r in records),
            max_sequence_number=max(r.sequence for r in records),
            schema_id=schema.id,
            level=level,
            creation_time_millis=0,
            delete_row_count=sum(r.kind in (1, 3) for r in records) if count_deletes else None,
        )
        self.files.append(meta)
        return meta

    def store(self, options: Mapping[str, str] | None = None) -> FileStore:
        """The table, opened with its newest schema."""
        return open_store(str(self.location), dynamic_options=options)

    def split(self, *, raw: bool = False) -> Split:
        """All files as one split."""
        return Split(
            snapshot_id=1,
            partition=EMPTY_ROW,
            bucket=0,
            total_buckets=1,
            bucket_path=str(self.location / "bucket-0"),
            files=tuple(self.files),
            raw_convertible=raw,
        )


def _write(rows: pa.Table, file_format: str, row_group_size: int) -> bytes:
    target = io.BytesIO()
    if file_format == "parquet":
        pq.write_table(rows, target, row_group_size=row_group_size)
    elif file_format == "orc":
        orc.write_table(rows, target)
    else:
        kinds = {"int64": "long", "int32": "int", "int8": "int", "string": "string"}
        fields = [{"name": f.name, "type": ["null", kinds[str(f.type)]], "default": None} for f in rows.schema]
        fastavro.writer(target, {"type": "record", "name": "record", "fields": fields}, rows.to_pylist())
    return target.getvalue()
