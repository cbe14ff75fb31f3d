"""Rewritten data files of Java Paimon 1.4.2 have the same columns and the same metadata as the originals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.commit.row_ids import numbered_entries
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, FileSource, ManifestEntry
from interbed.storage.meta.manifest.manifest_file import read_manifest
from interbed.storage.meta.paths import DataFilePlace
from interbed.storage.meta.schema.system_fields import with_stored_row_ids
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import open_store

GOLDEN = Path(__file__).parents[3] / "golden" / "paimon-1.4.2" / "golden.db"
TABLES = sorted(p.name for p in GOLDEN.iterdir())


def added_files(table: Path) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    for manifest in sorted((table / "manifest").glob("manifest-*")):
        if not manifest.name.startswith("manifest-list"):
            entries += read_manifest(manifest.read_bytes(), source=str(manifest))
    unique = {e.file.file_name: e for e in entries if e.kind is FileKind.ADD}
    return list(unique.values())


def as_layout(written: pa.Table, layout: DataFileLayout) -> pa.RecordBatch:
    columns = [written.column(f.name).cast(f.type) for f in layout.arrow]
    return pa.Table.from_arrays(columns, schema=layout.arrow).combine_chunks().to_batches()[0]


def rewrite(source: Path, entry: ManifestEntry, schema: TableSchema, directory: Path) -> DataFileMeta:
    file = entry.file
    if file.stores_row_ids:
        schema = with_stored_row_ids(schema)
    layout = DataFileLayout.of(schema, schema.core)
    if file.lacks_columns:
        layout = layout.of_columns(file.write_cols or ())
    with RollingFileWriter(
        LocalFileIO(),
        DataFilePlace(str(directory)),
        DataFileNames("data-"),
        layout,
        level=file.level,
        source=file.file_source or FileSource.APPEND,
        first_sequence=None if schema.has_primary_key else file.min_sequence_number,
        clock=lambda: file.creation_time_millis,
    ) as writer:
        writer.write(as_layout(pq.read_table(source, partitioning=None), layout))
        (written,) = writer.close()
    return written


@pytest.mark.parametrize("name", TABLES)
def test_a_rewritten_file_has_the_columns_and_metadata_of_the_original(name: str, tmp_path: Path) -> None:
    store = open_store(str(GOLDEN / name))
    for entry in added_files(GOLDEN / name):
        schema = store.schemas.schema(entry.file.schema_id)
        original = Path(store.paths.bucket_directory(entry.bucket_id)) / entry.file.file_name
        if not original.exists():
            # The file was compacted away, and the golden table contains only the files that its snapshots need.
            continue
        if original.suffix != ".parquet":
            continue
        written = rewrite(original, entry, schema, tmp_path)

        expected = entry.file
        if expected.stores_row_ids:
            # Java 1.4.2 counts from the least number of the first file; Java 2 and interbed take those of the rows.
            numbers: list[Any] = pq.read_table(original, partitioning=None).column("_SEQUENCE_NUMBER").to_pylist()
            assert (written.min_sequence_number, written.max_sequence_number) == (min(numbers), max(numbers))
            low, high = expected.min_sequence_number, expected.max_sequence_number
            written = replace(written, min_sequence_number=low, max_sequence_number=high)
        if store.options.data_evolution_enabled:
            # The ids are those of rows that were in the table before, but for the first file of them.
            low, high = expected.min_sequence_number, expected.max_sequence_number
            written = replace(written, min_sequence_number=low, max_sequence_number=high)
            written = replace(written, first_row_id=expected.first_row_id)
        elif expected.first_row_id is not None:
            # The commit assigns the ids and the numbers of new rows.
            before = expected.max_sequence_number - 1
            latest = store.snapshots.snapshot(before) if before else None
            (assigned,) = numbered_entries([replace(entry, file=written)], latest, by_partition=True).entries
            written = assigned.file
        assert written.key_stats == expected.key_stats
        assert written.value_stats_cols == expected.value_stats_cols
        assert written.value_stats == expected.value_stats
        same = ("row_count", "min_key", "max_key", "min_sequence_number", "max_sequence_number", "schema_id", "level")
        for field in (*same, "delete_row_count", "file_source", "creation_time_millis", "first_row_id", "write_cols"):
            assert getattr(written, field) == getattr(expected, field), field
        ours, theirs = (columns_of(p) for p in (tmp_path / written.file_name, original))
        if expected.stores_row_ids:
            # Changed rows have no number before the commit. A compaction of Java declares that it writes no such rows.
            ours = [line.replace("optional", "required") if "_SEQUENCE_NUMBER" in line else line for line in ours]
        assert ours == theirs


def columns_of(path: Path) -> list[str]:
    """The Parquet schema without its name, and without the converted type that parquet-mr still sets on entries of
    maps.
    """
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:]
    return [line.replace("key_value (Map)", "key_value") for line in lines]
