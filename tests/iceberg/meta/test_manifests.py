"""Manifests and manifest lists of every format version and content that interbed writes are readable by pyiceberg."""

import io
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from interbed.iceberg.meta.manifests import (
    entries_of,
    entries_one_by_one,
    row_id_of,
    write_manifest,
    write_manifest_list,
)
from interbed.storage.base.avro.records import PlainBlocks

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True), NestedField(2, "day", StringType(), required=False), schema_id=0
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"), spec_id=3)
IO = PyArrowFileIO()


def entry(path: str, day: object, status: ManifestEntryStatus, sequence_number: int | None = None) -> ManifestEntry:
    of_deletes = path.startswith("d")
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES if of_deletes else DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(day),
        record_count=10,
        file_size_in_bytes=100,
        lower_bounds={1: b"\0" * 8},
        referenced_data_file="a" if of_deletes else None,
    )
    return ManifestEntry.from_args(
        _table_format_version=3,
        status=status,
        snapshot_id=7,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=file,
    )


def test_partition_values_of_double_are_exact(tmp_path: Path) -> None:
    values = [0.1, -1e300, 5e-324, None]
    schema = Schema(NestedField(1, "x", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"))
    entries = [entry("a", value, ManifestEntryStatus.ADDED) for value in values]
    manifest = write_manifest(
        IO,
        str(tmp_path / "m.avro"),
        format_version=2,
        schema=schema,
        spec=spec,
        content=ManifestContent.DATA,
        snapshot_id=7,
        entries=entries,
    )
    manifest.sequence_number = 1
    assert [each.data_file.partition[0] for each in entries_of(IO, manifest)] == values
    assert [each.data_file.partition[0] for each in entries_one_by_one(IO, manifest)] == values


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_keep_status_partition_and_sequence_number(tmp_path: Path, version: TableVersion) -> None:
    entries = [
        entry("a", "mon", ManifestEntryStatus.ADDED, None if version > 1 else 0),
        entry("b", "tue", ManifestEntryStatus.EXISTING, 2 if version > 1 else 0),
        entry("c", "tue", ManifestEntryStatus.DELETED, 1 if version > 1 else 0),
    ]
    manifest = write_manifest(
        IO,
        str(tmp_path / "m.avro"),
        format_version=version,
        schema=SCHEMA,
        spec=SPEC,
        content=ManifestContent.DATA,
        snapshot_id=7,
        entries=entries,
    )
    following = write_manifest_list(
        IO,
        str(tmp_path / "list.avro"),
        format_version=version,
        snapshot_id=7,
        parent_snapshot_id=6,
        sequence_number=9 if version > 1 else 0,
        manifests=[manifest],
        first_row_id=100 if version == 3 else None,
    )
    (found,) = read_manifest_list(IO.new_input(str(tmp_path / "list.avro")))
    assert (found.added_files_count, found.existing_files_count, found.deleted_files_count) == (1, 1, 1)
    assert (found.added_rows_count, found.existing_rows_count, found.partition_spec_id) == (10, 10, 3)
    assert (found.sequence_number, found.min_sequence_number) == ((9, 2) if version > 1 else (0, 0))
    assert following == (120 if version == 3 else None)
    read = found.fetch_manifest_entry(IO, discard_deleted=False)
    assert [(e.data_file.file_path, e.status.name, e.data_file.partition[0]) for e in read] == [
        ("a", "ADDED", "mon"),
        ("b", "EXISTING", "tue"),
        ("c", "DELETED", "tue"),
    ]
    assert [e.sequence_number for e in read] == ([9, 2, 1] if version > 1 else [0, 0, 0])


def test_delete_manifests_get_no_row_ids_and_data_manifests_keep_theirs(tmp_path: Path) -> None:
    def made(name: str, content: ManifestContent, path: str) -> ManifestFile:
        return write_manifest(
            IO,
            str(tmp_path / name),
            format_version=3,
            schema=SCHEMA,
            spec=SPEC,
            content=content,
            snapshot_id=7,
            entries=[entry(path, "mon", ManifestEntryStatus.ADDED)],
            compression="zstd",
        )

    deletes = made("d.avro", ManifestContent.DELETES, "d1")
    data = made("a.avro", ManifestContent.DATA, "a")
    assert row_id_of(data) is None
    following = write_manifest_list(
        IO,
        str(tmp_path / "list.avro"),
        format_version=3,
        snapshot_id=7,
        parent_snapshot_id=None,
        sequence_number=1,
        manifests=[deletes, data],
        first_row_id=5,
    )
    assert following == 15


def test_version_1_refuses_delete_manifests_and_empty_manifests(tmp_path: Path) -> None:
    for entries, content in [([], ManifestContent.DATA), (["d"], ManifestContent.DELETES)]:
        with pytest.raises(ValueError, match=r"at least one entry|no deletes"):
            write_manifest(
                IO,
                str(tmp_path / "m.avro"),
                format_version=1,
                schema=SCHEMA,
                spec=SPEC,
                content=content,
                snapshot_id=7,
                entries=[entry(path, "mon", ManifestEntryStatus.ADDED) for path in entries],
            )
    assert not list(tmp_path.iterdir())


def test_an_empty_manifest_list_has_no_block(tmp_path: Path) -> None:
    path = tmp_path / "list.avro"
    write_manifest_list(
        IO,
        str(path),
        format_version=2,
        snapshot_id=1,
        parent_snapshot_id=None,
        sequence_number=1,
        manifests=[],
        compression="snappy",
    )
    assert list(PlainBlocks(io.BytesIO(path.read_bytes()))) == []
    assert list(read_manifest_list(IO.new_input(str(path)))) == []
