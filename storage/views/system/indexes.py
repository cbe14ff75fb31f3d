"""The system tables of indexes: the index files of a snapshot, and the indexes that single data files have.

Each row is an index file, or one index in a data file's container: loops go over metadata, which is in memory anyway.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.files.file_index.evaluate import index_path, open_container
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.scan.manifest_reader import ManifestReader, index_entries
from interbed.storage.scan.starting_point import starting_snapshot
from interbed.storage.views.system.files import current_entries, data_file_path
from interbed.storage.views.system.rows_table import Row, SystemTableKind, bigint, integer, row_text, text

_RANGE = pa.struct(
    [
        pa.field("f0", pa.string(), False),
        pa.field("f1", pa.int32(), False),
        pa.field("f2", pa.int32(), False),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)


def _table_indexes(store: FileStore) -> Sequence[Row]:
    snapshot = starting_snapshot(store)
    if snapshot is None:
        return []
    names = {field.id: field.name for field in store.schema.fields}
    rows: list[Row] = []
    for entry in index_entries(ManifestReader(store.file_io, store.paths), snapshot):
        file, index = entry.file, entry.file.global_index
        vectors = file.deletion_vectors
        rows.append(
            (
                row_text(entry.partition, store.schema.partition_types),
                entry.bucket,
                file.index_type,
                file.file_name,
                file.file_size,
                file.row_count,
                None
                if vectors is None
                else [
                    {"f0": v.data_file_name, "f1": v.offset, "f2": v.length, "_CARDINALITY": v.cardinality}
                    for v in vectors
                ],
                None if index is None else index.row_range_start,
                None if index is None else index.row_range_end,
                None if index is None else index.index_field_id,
                None if index is None else names.get(index.index_field_id),
            )
        )
    return rows


TABLE_INDEXES = SystemTableKind(
    columns=(
        text("partition", nullable=True),
        integer("bucket"),
        text("index_type"),
        text("file_name"),
        bigint("file_size"),
        bigint("row_count"),
        pa.field("dv_ranges", pa.list_(_RANGE)),
        bigint("row_range_start", nullable=True),
        bigint("row_range_end", nullable=True),
        integer("index_field_id", nullable=True),
        text("index_field_name", nullable=True),
    ),
    rows=_table_indexes,
)


def _file_indexes(store: FileStore) -> Sequence[Row]:
    return [row for entry in current_entries(store) for row in _indexes_of(store, entry)]


def _indexes_of(store: FileStore, entry: ManifestEntry) -> Iterator[Row]:
    file = entry.file
    path = data_file_path(store, entry)
    with open_container(file, path, store.file_io) as container:
        if container is None:
            return
        beside = None if file.embedded_file_index is not None else index_path(file, path)
        size = len(file.embedded_file_index or b"") if beside is None else store.file_io.size(beside)
        for index in container.places:
            yield (
                row_text(entry.partition, store.schema.partition_types),
                entry.bucket,
                path,
                file.file_size,
                file.row_count,
                file.schema_id,
                index.column,
                index.kind,
                "EMBEDDED" if beside is None else "FILE",
                beside,
                index.length,
                size,
                index.is_empty,
            )


FILE_INDEXES = SystemTableKind(
    columns=(
        text("partition", nullable=True),
        integer("bucket"),
        text("file_path"),
        bigint("file_size_in_bytes"),
        bigint("record_count"),
        bigint("schema_id"),
        text("column_name"),
        text("index_type"),
        text("storage_type"),
        text("index_file_path", nullable=True),
        bigint("index_size_in_bytes"),
        bigint("index_container_size_in_bytes"),
        pa.field("is_empty", pa.bool_(), False),
    ),
    rows=_file_indexes,
)
