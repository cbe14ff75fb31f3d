"""Damaged metadata files are detected and named by every operation on the table.

Files with checksums, or with lengths that are recorded elsewhere, give the right rows or an error that names the file.
JSON files have neither: a changed letter of a value is another value. No damage causes an error of another kind than
interbed's own.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.decoding import read_object
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.table.table import Table
from tests.support.damage import OTHER_FILE, WRONG, damage
from tests.support.shares import LONG

TIMES = 200 if LONG else 2
COLUMNS: list[Any] = [pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]
SCHEMA = pa.schema(COLUMNS)
OPTIONS = {
    "bucket": "1",
    "changelog-producer": "lookup",
    "deletion-vectors.enabled": "true",
    "file-index.bloom-filter.columns": "v",
    "file-index.bloom-filter.v.items": "500",
    "file-index.in-manifest-threshold": "1 b",
}


def rows(number: int, count: int) -> pa.Table:
    return pa.table({"id": range(count), "v": [f"{number}-{i}" for i in range(count)]}, schema=SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with at least one file of each kind."""
    warehouse = tmp_path_factory.mktemp("lake")
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options=OPTIONS)
    table.upsert(rows(0, 200))
    table.versions.create_tag("old")
    table.versions.create_branch("b", "old")
    table.versions.reset_consumer("c", 2)
    table.maintenance.analyze()
    table.upsert(rows(2, 10))
    return table


def newest(table: Table, *patterns: str) -> list[Path]:
    """The newest file that matches each of the patterns."""
    return [max(Path(table.location).glob(p), key=lambda f: (f.stat().st_mtime_ns, f.name)) for p in patterns]


@pytest.mark.longer
def test_damaged_files_with_checksums_never_give_other_rows(table: Table) -> None:
    snapshot = table.snapshots()[-1]
    named = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest]
    files = [Path(table.location) / "manifest" / str(name) for name in named]
    files += newest(table, "manifest/manifest-[0-9a-f]*", "index/index-*", "bucket-0/*.index", "bucket-0/changelog-*")
    operations = ("scan", "filter", "count", "get", "changes", "stream", "expire", "compact", "write", "$files")
    found = damage(table, files, times=TIMES, operations=(*operations, "$table_indexes"))
    # The first byte of a file of deletion vectors is its version.
    assert found.failures("UnsupportedVersionError") == {}
    assert found.outcomes["named"] > 0


@pytest.mark.longer
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_damaged_columnar_manifests_never_give_other_rows(tmp_path: Path, file_format: str) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    options = {**OPTIONS, "manifest.format": file_format}
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options=options)
    table.upsert(rows(0, 200))
    table.upsert(rows(2, 10))
    snapshot = table.snapshots()[-1]
    named = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest]
    files = [Path(table.location) / "manifest" / str(name) for name in named]
    files += newest(table, "manifest/manifest-[0-9a-f]*")
    found = damage(table, files, times=TIMES, operations=("scan", "changes", "expire", "write", "$files"))
    assert found.failures("UnsupportedVersionError") == {}
    assert found.outcomes["named"] > 0


@pytest.mark.longer
def test_damaged_json_causes_no_unexpected_errors(table: Table) -> None:
    patterns = ("snapshot/snapshot-*", "schema/schema-0", "tag/tag-old", "consumer/consumer-c", "statistics/*")
    files = newest(table, *patterns, "branch/branch-b/schema/schema-0", "snapshot/LATEST")
    operations = ("scan", "changes", "stream", "tags", "branches", "consumers", "expire", "orphans", "write")
    system = ("$snapshots", "$schemas", "$tags", "$statistics", "$options")
    found = damage(table, files, times=TIMES, operations=(*operations, *system))
    of_ours = ("UnsupportedVersionError", "NotSupportedError", "InvalidOptionError", "SnapshotNotFoundError")
    assert found.failures(WRONG, OTHER_FILE, *of_ours) == {}


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"id": "one"}',
        b'{"id": true}',
        b'{"version": [3]}',
        b'{"id": 1' + b"0" * 5000 + b"}",
    ],
)
def test_the_error_names_a_file_with_json_of_another_kind(content: bytes) -> None:
    for read in (Snapshot.from_json, TableSchema.from_json):
        with pytest.raises(CorruptFileError, match="the-file"):
            read(content, source="the-file")


@pytest.mark.parametrize("member", ["indexManifest", "changelogManifestList", "baseManifestListSize"])
def test_a_misspelt_member_does_not_count_as_missing(table: Table, member: str) -> None:
    text = table.snapshots()[-1].to_json()
    damaged = text.replace(f'"{member}"', f'"{member[:-1]}_"')
    assert damaged != text
    with pytest.raises(CorruptFileError, match=f"the-file is damaged.*'{member}' belongs"):
        Snapshot.from_json(damaged, source="the-file")


def test_a_schema_whose_keys_are_no_columns_is_reported_as_damaged(table: Table) -> None:
    text = table.schema.to_json().replace('"primaryKeys": [\n    "id"', '"primaryKeys": [\n    "ie"')
    with pytest.raises(CorruptFileError, match=r"the-file.*'ie' is no column"):
        TableSchema.from_json(text, source="the-file")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("merge-engine", "eeduplicate"),
        ("bucket", "q"),
        ("write-buffer-size", "1 mc"),
        ("deletion-vectors.enabled", "u"),
    ],
)
def test_the_error_names_a_damaged_option_and_its_file(tmp_path: Path, option: str, value: str) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    file = Path(table.location) / "schema" / "schema-0"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "options": {**content["options"], option: value}}))
    with pytest.raises(InvalidOptionError, match=rf"'{option}' takes .*'{value}'.*schema-0"):
        catalog.get_table("db.t").upsert(rows(0, 1))
    with pytest.raises(InvalidOptionError) as told:
        table.copy({"merge-engine": "nope"}).to_arrow()
    assert "schema-0" not in str(told.value)


def test_members_with_unknown_names_are_kept() -> None:
    content = b'{"known": 1, "new": {"a": 2}}'
    assert read_object(content, {"known": int}, source="f", what="x") == {"known": 1, "new": {"a": 2}}


@pytest.mark.longer
def test_a_damaged_hash_index_causes_no_unexpected_errors(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "-1"})
    table.upsert(rows(0, 200))
    found = damage(table, newest(table, "index/index-*"), times=TIMES, operations=("scan", "write", "get"))
    assert found.failures(WRONG) == {}
