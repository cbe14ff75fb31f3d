"""The system tables of files and indexes: files, key ranges, manifests, partitions, buckets, statistics, index files.

They show the newest snapshot, or the one that the scan options name. Each row is a file, one index of a file, or a sum
over files: loops go over metadata, which is in memory anyway.
"""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.files.file_index.evaluate import index_path, open_container
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, ManifestEntry, merge_entries
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.scan.live_files import sum_files
from interbed.storage.scan.manifest_reader import ManifestReader, index_entries
from interbed.storage.scan.starting_point import starting_snapshot
from interbed.storage.views.system.rows_table import (
    Row,
    SystemTableKind,
    bigint,
    bound_text,
    file_wall_clock,
    integer,
    list_text,
    map_text,
    moment,
    row_text,
    text,
    value_text,
)


def current_entries(store: FileStore) -> list[ManifestEntry]:
    """Return the data files of the newest snapshot, or of the one that the scan options name."""
    snapshot = starting_snapshot(store)
    if snapshot is None:
        return []
    reader = ManifestReader(store.file_io, store.paths)
    return merge_entries(reader.entries(reader.data(snapshot)))


def data_file_path(store: FileStore, entry: ManifestEntry) -> str:
    """Return the path of a data file."""
    return entry.file.path_in(store.paths.bucket_directory(entry.bucket_id))


def _files(store: FileStore) -> Sequence[Row]:
    statistics = _Statistics(store)
    rows: list[Row] = []
    for entry in current_entries(store):
        file = entry.file
        keys = [f.type for f in store.schemas.schema(file.schema_id).key_fields]
        nulls, least, greatest = statistics.of(file)
        rows.append(
            (
                row_text(entry.partition, store.schema.partition_types),
                entry.bucket,
                data_file_path(store, entry),
                file.format,
                file.schema_id,
                file.level,
                file.row_count,
                file.file_size,
                list_text(file.min_key, keys) if keys else None,
                list_text(file.max_key, keys) if keys else None,
                nulls,
                least,
                greatest,
                file.min_sequence_number,
                file.max_sequence_number,
                file_wall_clock(file.creation_time_millis),
                file.delete_row_count,
                None if file.file_source is None else file.file_source.name,
                file.first_row_id,
                None if file.write_cols is None else list(file.write_cols),
            )
        )
    return rows


FILES = SystemTableKind(
    columns=(
        text("partition", nullable=True),
        integer("bucket"),
        text("file_path"),
        text("file_format"),
        bigint("schema_id"),
        integer("level"),
        bigint("record_count"),
        bigint("file_size_in_bytes"),
        text("min_key", nullable=True),
        text("max_key", nullable=True),
        text("null_value_counts"),
        text("min_value_stats"),
        text("max_value_stats"),
        bigint("min_sequence_number", nullable=True),
        bigint("max_sequence_number", nullable=True),
        moment("creation_time", nullable=True),
        bigint("deleteRowCount", nullable=True),
        text("file_source", nullable=True),
        bigint("first_row_id", nullable=True),
        pa.field("write_cols", pa.list_(pa.string())),
    ),
    rows=_files,
)

_KEY_RANGES = (
    *("partition", "bucket", "file_path", "file_format", "schema_id", "level", "record_count", "file_size_in_bytes"),
    *("min_key", "max_key", "first_row_id"),
)


def _chosen(kind: SystemTableKind, names: Sequence[str]) -> SystemTableKind:
    """Return the kind with some of its columns."""
    places = [[column.name for column in kind.columns].index(name) for name in names]
    return SystemTableKind(
        columns=tuple(kind.columns[i] for i in places),
        rows=lambda store: [tuple(row[i] for i in places) for row in kind.rows(store)],
    )


FILE_KEY_RANGES = _chosen(FILES, _KEY_RANGES)


class _Statistics:
    """The statistics of files by the current columns, which are found by their ids in the files' schemas."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def of(self, file: DataFileMeta) -> tuple[str, str, str]:
        """Return null counts, least and greatest values, each as the text of a map by column name."""
        then = self._store.schemas.schema(file.schema_id)
        known = readable_by_name(then)
        fields = [known[name] for name in file.stats_names(then.names) if name in known]
        types = [field.type for field in fields]
        stats = file.value_stats
        try:
            least, greatest = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
        except CorruptFileError:
            # Files without statistics have an empty row.
            fields, least, greatest = [], (), ()
        by_id = {
            field.id: (count, bound_text(low, field.type), bound_text(high, field.type))
            for field, count, low, high in zip(fields, stats.null_counts, least, greatest, strict=False)
        }
        nothing = (None, "null", "null")
        shown = {field.name: by_id.get(field.id, nothing) for field in self._store.schema.fields}
        return (
            map_text({name: "null" if found[0] is None else str(found[0]) for name, found in shown.items()}),
            map_text({name: found[1] for name, found in shown.items()}),
            map_text({name: found[2] for name, found in shown.items()}),
        )


def _manifests(store: FileStore) -> Sequence[Row]:
    snapshot = starting_snapshot(store)
    if snapshot is None:
        return []
    reader = ManifestReader(store.file_io, store.paths)
    types = store.schema.partition_types
    return [
        (
            manifest.file_name,
            manifest.file_size,
            manifest.num_added_files,
            manifest.num_deleted_files,
            manifest.schema_id,
            row_text(manifest.partition_stats.min_values, types),
            row_text(manifest.partition_stats.max_values, types),
            manifest.min_row_id,
            manifest.max_row_id,
        )
        for manifest in (*reader.data(snapshot), *reader.changelog(snapshot))
    ]


MANIFESTS = SystemTableKind(
    columns=(
        text("file_name"),
        bigint("file_size"),
        bigint("num_added_files"),
        bigint("num_deleted_files"),
        bigint("schema_id"),
        text("min_partition_stats", nullable=True),
        text("max_partition_stats", nullable=True),
        bigint("min_row_id", nullable=True),
        bigint("max_row_id", nullable=True),
    ),
    rows=_manifests,
)


def _buckets(store: FileStore) -> Sequence[Row]:
    types = store.schema.partition_types
    rows = [
        (row_text(partition, types), bucket, s.records, s.bytes, s.files, file_wall_clock(s.created_millis))
        for (partition, bucket), s in sum_files(current_entries(store), lambda e: (e.partition, e.bucket)).items()
    ]
    return sorted(rows, key=lambda row: row[:2])


BUCKETS = SystemTableKind(
    columns=(
        text("partition", nullable=True),
        integer("bucket"),
        bigint("record_count"),
        bigint("file_size_in_bytes"),
        bigint("file_count"),
        moment("last_update_time", nullable=True),
    ),
    rows=_buckets,
)


def _partitions(store: FileStore) -> Sequence[Row]:
    deleted = _deleted_records(store)
    rows: list[Row] = []
    for partition, s in sum_files(current_entries(store), lambda e: e.partition).items():
        spec = store.paths.partition_spec(partition)
        types = dict(zip(store.paths.partition_names, store.schema.partition_types, strict=True))
        values = decode_row(partition, store.schema.partition_types)
        shown = [
            f"{name}={store.paths.default_name if value is None else value_text(value, types[name])}"
            for name, value in zip(spec, values, strict=True)
        ]
        rows.append(
            (
                "/".join(shown),
                s.records,
                s.bytes,
                s.files,
                file_wall_clock(s.created_millis),
                None,
                None,
                None,
                None,
                s.buckets,
                False,
                deleted.get(partition, 0),
            )
        )
    return sorted(rows)


PARTITIONS = SystemTableKind(
    columns=(
        text("partition", nullable=True),
        bigint("record_count"),
        bigint("file_size_in_bytes"),
        bigint("file_count"),
        moment("last_update_time", nullable=True),
        moment("created_at", nullable=True),
        text("created_by", nullable=True),
        text("updated_by", nullable=True),
        text("options", nullable=True),
        integer("total_buckets"),
        pa.field("done", pa.bool_(), False),
        bigint("deleted_record_count", nullable=True),
    ),
    rows=_partitions,
)


def _deleted_records(store: FileStore) -> dict[bytes, int | None]:
    """Return the number of deleted records of each partition; None if an old index does not record it."""
    found: dict[bytes, int | None] = {}
    snapshot = starting_snapshot(store)
    if snapshot is None:
        return found
    for entry in index_entries(ManifestReader(store.file_io, store.paths), snapshot):
        if entry.file.index_type == DELETION_VECTORS:
            for place in entry.file.deletion_vectors or ():
                so_far = found.get(entry.partition, 0)
                known = so_far is not None and place.cardinality is not None
                found[entry.partition] = (so_far or 0) + (place.cardinality or 0) if known else None
    return found


def _statistics(store: FileStore) -> Sequence[Row]:
    snapshot = starting_snapshot(store)
    if snapshot is None or snapshot.statistics is None:
        return []
    path = store.paths.statistics(snapshot.statistics)
    try:
        value = json.loads(store.file_io.read_bytes(path))
        # With a space before the colon, as Java's printer writes it.
        columns = json.dumps(value.get("colStats", {}), indent=2, separators=(",", " : "), ensure_ascii=False)
        counts = (value.get("mergedRecordCount"), value.get("mergedRecordSize"))
        return [(int(value["snapshotId"]), int(value["schemaId"]), *counts, columns)]
    except (ValueError, KeyError, AttributeError, FileNotFoundError) as error:
        raise CorruptFileError(f"{path} does not hold statistics: {error}") from error


STATISTICS = SystemTableKind(
    columns=(
        bigint("snapshot_id"),
        bigint("schema_id"),
        bigint("mergedRecordCount", nullable=True),
        bigint("mergedRecordSize", nullable=True),
        text("colstat", nullable=True),
    ),
    rows=_statistics,
)


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
