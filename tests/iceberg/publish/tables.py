"""Published tables, and the rows that readers of Iceberg see of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import StaticTable
from pyiceberg.table.puffin import PuffinFile

import interbed
from interbed.catalog.client.api import Catalog
from interbed.iceberg.meta.live_files import live_file
from interbed.iceberg.meta.manifests import entries_of
from interbed.iceberg.publish.manifests import use_arrow_snappy
from interbed.storage.table.row_views import ReadOptimizedTable
from interbed.storage.table.table import Table

STORAGE = "metadata.iceberg.storage"
VERSION = "metadata.iceberg.format-version"
VECTORS = {VERSION: "3", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}

_ID: "pa.Field[Any]" = pa.field("id", pa.int32(), nullable=False)
_TEXT: "pa.Field[Any]" = pa.field("v", pa.string())
ROWS = pa.schema([_ID, _TEXT, pa.field("p", pa.int32())])
KEYED = pa.schema([_ID, _TEXT, pa.field("p", pa.int32(), nullable=False)])

# pyiceberg reads snappy only with python-snappy or with this module.
use_arrow_snappy()


def lake(warehouse: Path) -> Catalog:
    """Return a catalog of directories with a database `db`."""
    catalog = interbed.load_catalog(warehouse=str(warehouse))
    catalog.create_database("db", ignore_if_exists=True)
    return catalog


def published(
    warehouse: Path,
    options: Mapping[str, str] | None = None,
    *,
    schema: pa.Schema = ROWS,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    name: str = "t",
) -> Table:
    """Create a table that is published in the warehouse `iceberg` beside its database."""
    return lake(warehouse).create_table(
        f"db.{name}",
        schema,
        primary_keys=list(keys) or None,
        partition_keys=list(partitions) or None,
        options={STORAGE: "hadoop-catalog", **(options or {})},
    )


def rows(*ids: int, v: str = "a", p: int | None = 1) -> list[dict[str, Any]]:
    """Return rows with the schema ROWS."""
    return [{"id": i, "v": v, "p": p} for i in ids]


def place_of(table: Table) -> str:
    """Return the directory of the table in a Hadoop catalog."""
    database, _, name = table.location.rpartition("/")
    warehouse, _, directory = database.rpartition("/")
    return f"{warehouse}/iceberg/{directory.removesuffix('.db')}/{name}"


def metadata_directory(table: Table) -> Path:
    """Return the directory of the published metadata."""
    return Path(place_of(table)) / "metadata"


def by_pyiceberg(table: Table) -> StaticTable:
    """Return the table as pyiceberg finds it by the version hint."""
    return StaticTable.from_metadata(place_of(table))


def ordered(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in a total order."""
    return sorted((dict(row) for row in found), key=repr)


def seen(table: Table, **scan: Any) -> list[dict[str, Any]]:
    """Return the rows that interbed reads of the Iceberg table."""
    return ordered(interbed.load_iceberg_table(place_of(table)).scan(**scan).to_arrow().to_pylist())


def shown(table: Table) -> list[dict[str, Any]]:
    """Return the rows that readers of Iceberg have to see: all, or those of the top level of a primary-key table."""
    is_merged = table.schema.has_primary_key and not table.options.deletion_vectors_enabled
    of = ReadOptimizedTable.of(table) if is_merged else table
    return ordered(of.scan().to_arrow().to_pylist())


def named_files(table: Table) -> set[str]:
    """Return the paths of all files that the newest metadata reference."""
    static = by_pyiceberg(table)
    found = set()
    for snapshot in static.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(static.io):
            found.add(manifest.manifest_path)
            found.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(static.io))
    return found


def puffins(table: Table) -> set[str]:
    """Return the paths of the Puffin files beside the metadata."""
    return {str(path) for path in metadata_directory(table).glob("*.puffin")}


def has_whole_puffins(table: Table) -> bool:
    """Return True if vectors are in Puffin files, as pyiceberg reads them, and not in index files, as Java Paimon does.

    Each vector in a Puffin file is at the recorded offset and belongs to the recorded data file.
    """
    static = by_pyiceberg(table)
    current = static.current_snapshot()
    assert current is not None
    entries = [e for m in current.manifests(static.io) for e in m.fetch_manifest_entry(static.io)]
    live = {e.data_file.file_path for e in entries if e.data_file.content == DataFileContent.DATA}
    for manifest in current.manifests(static.io):
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in entries_of(static.io, manifest):
            file = live_file(entry)
            if not file.path.endswith(".puffin"):
                return False
            content = Path(file.path.removeprefix("file:")).read_bytes()
            blobs = {blob.offset: blob for blob in PuffinFile(content).footer.blobs}
            assert file.offset is not None
            found = blobs[file.offset]
            assert (found.length, len(content)) == (file.length, file.size)
            assert found.properties == {"referenced-data-file": file.referenced, "cardinality": str(file.records)}
            assert file.referenced in live
    return True


def assert_true(table: Table) -> None:
    """Assert that the Iceberg table equals the table: rows, statistics, and that all referenced files exist."""
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    static = by_pyiceberg(table)
    assert static.metadata.current_snapshot_id == snapshot.id
    assert seen(table) == shown(table)
    if has_whole_puffins(table):
        assert ordered(static.scan().to_arrow().to_pylist()) == shown(table)
    missing = [path for path in named_files(table) if not Path(path.removeprefix("file:")).exists()]
    assert not missing
    tags = {tag.name: tag.snapshot.id for tag in table.versions.tags()}
    published_ids = {one.snapshot_id for one in static.metadata.snapshots}
    named = {name: ref.snapshot_id for name, ref in static.metadata.refs.items() if name != "main"}
    assert named == {name: number for name, number in tags.items() if number in published_ids}
    current = static.metadata.current_snapshot()
    assert current is not None
    assert current.summary is not None
    # Java Paimon 1.4 writes no totals.
    if not table.options.deletion_vectors_enabled and current.summary["total-records"] is not None:
        files = [task.file for task in static.scan().plan_files()]
        assert current.summary["total-data-files"] == str(len(files))
        assert current.summary["total-records"] == str(sum(file.record_count for file in files))
