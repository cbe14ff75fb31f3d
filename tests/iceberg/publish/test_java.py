"""Java Paimon 1.4.2 continues the Iceberg metadata that interbed wrote, and interbed those of Java."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.iceberg.publish.document import same_columns
from interbed.storage.table.table import Table, load_table
from tests.iceberg.publish.tables import (
    KEYED,
    ROWS,
    STORAGE,
    VECTORS,
    VERSION,
    assert_true,
    by_pyiceberg,
    has_whole_puffins,
    lake,
    metadata_directory,
    named_files,
    published,
    puffins,
    rows,
    seen,
    shown,
)
from tests.support.peers.java import JavaPaimon, JavaTable

KINDS = {
    "append": ({}, (), ()),
    "partitions": ({}, (), ("p",)),
    "keys": ({"bucket": "1"}, ("id",), ()),
    "append of version 3": ({VERSION: "3"}, (), ()),
    "keys with vectors": ({**VECTORS, "bucket": "1"}, ("id",), ()),
}
COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("p", "INT")]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    with JavaPaimon() as peer:
        yield peer


def write(table: Table, *ids: int, v: str) -> None:
    """Write rows with interbed, fully compacted where they have keys."""
    table.append(rows(*ids, v=v))
    if table.schema.has_primary_key:
        table.compact()


def write_by_java(table: JavaTable, *ids: int, v: str, keyed: bool) -> None:
    """Write rows with Java, fully compacted where they have keys."""
    table.write([[i, v, 1] for i in ids])
    if keyed:
        table.compact()


def assert_alike(table: Table, snapshots: bool) -> None:
    """Assert that readers see the rows of the table, and all of its `snapshots` if asked to."""
    assert_true(table)
    latest = table.store.snapshots.latest_id()
    assert latest is not None
    if snapshots:
        assert [one.snapshot_id for one in by_pyiceberg(table).metadata.snapshots] == [*range(1, latest + 1)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_each_implementation_continues_the_metadata_of_the_other(tmp_path: Path, java: JavaPaimon, kind: str) -> None:
    options, keys, partitions = KINDS[kind]
    # Java 1.4.2 writes no row ids, so interbed starts new metadata of version 3 after it.
    continued = VERSION not in options
    table = published(tmp_path, options, schema=KEYED if keys else ROWS, keys=keys, partitions=partitions)
    theirs = java.table(tmp_path, "db.t")
    write(table, 1, 2, v="ours")
    name = by_pyiceberg(table).metadata.table_uuid
    for turn in range(2):
        write_by_java(theirs, 3, 10 + turn, v=f"java {turn}", keyed=bool(keys))
        assert_alike(table, continued)
        write(table, 4, 20 + turn, v=f"ours {turn}")
        assert_alike(table, continued)
    table.delete("id = 4")
    if keys:
        table.compact()
    assert_alike(table, continued)
    write_by_java(theirs, 5, v="java", keyed=bool(keys))
    assert_alike(table, continued)
    table.versions.create_tag("one")
    write_by_java(theirs, 6, v="java", keyed=bool(keys))
    assert_true(table)
    assert by_pyiceberg(table).metadata.table_uuid == name


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_interbed_continues_a_publication_that_java_began(tmp_path: Path, java: JavaPaimon, kind: str) -> None:
    options, keys, partitions = KINDS[kind]
    lake(tmp_path)
    theirs = java.table(tmp_path, "db.t")
    theirs.create(COLUMNS, primary_keys=keys, partition_keys=partitions, options={STORAGE: "hadoop-catalog", **options})
    write_by_java(theirs, 1, 2, v="java", keyed=bool(keys))
    table = load_table(str(tmp_path / "db.db" / "t"))
    assert seen(table) == shown(table)
    write(table, 2, 3, v="ours")
    assert_true(table)
    table.delete("id = 1")
    if keys:
        table.compact()
    assert_true(table)
    if VERSION not in options:
        assert by_pyiceberg(table).metadata.snapshots[0].snapshot_id == 1
    write_by_java(theirs, 7, v="java", keyed=bool(keys))
    assert_true(table)


@pytest.mark.long
def test_vectors_are_in_puffin_files_after_each_change_by_interbed(tmp_path: Path, java: JavaPaimon) -> None:
    keep = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    table = published(tmp_path, {**VECTORS, **keep, "bucket": "1"}, schema=KEYED, keys=["id"])
    theirs = java.table(tmp_path, "db.t")
    table.append([{"id": i, "v": str(i * 7919 % 10_007), "p": 1} for i in range(20_000)])
    table.compact()
    for turn in range(3):
        table.delete(f"id = {turn}")
        assert has_whole_puffins(table)
        assert puffins(table)
        assert_true(table)
        write_by_java(theirs, 100 + turn, v="java", keyed=False)
        # Java references the index files themselves, which the readers of interbed and of Iceberg support.
        assert not has_whole_puffins(table)
        assert_true(table)
    table.delete("id = 9")
    for number in range(2):
        table.append(rows(30_000 + number))
    assert_true(table)
    # Files that Java's metadata did not reference are deleted, too.
    assert puffins(table) <= named_files(table)


@pytest.mark.long
def test_both_implementations_publish_the_same_schemas(tmp_path: Path, java: JavaPaimon) -> None:
    lake(tmp_path)
    theirs = java.table(tmp_path, "db.t")
    theirs.create(
        [
            *(("b", "BOOLEAN"), ("t", "TINYINT"), ("s", "SMALLINT NOT NULL"), ("i", "INT"), ("l", "BIGINT")),
            *(("f", "FLOAT"), ("d", "DOUBLE"), ("n", "DECIMAL(9, 2)"), ("c", "CHAR(3)"), ("v", "STRING")),
            *(("y", "BYTES"), ("x", "BINARY(4)"), ("day", "DATE"), ("m", "TIMESTAMP(3)")),
            *(("u", "TIMESTAMP(6)"), ("z", "TIMESTAMP(6) WITH LOCAL TIME ZONE")),
            ("a", {"type": "ARRAY", "element": "INT NOT NULL"}),
            ("g", {"type": "MAP", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "BIGINT"}}),
        ],
        options={STORAGE: "hadoop-catalog", "metadata.iceberg.delete-after-commit.enabled": "false"},
    )
    table = load_table(str(tmp_path / "db.db" / "t"))
    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
    values = [
        *(True, 1, 2, 3, 4, 0.5, 0.25, Decimal("1.25"), "abc", "a text that is longer", b"\x00\xff", b"abcd"),
        *(moment.date(), moment.replace(microsecond=123000), moment),
        *(moment.replace(tzinfo=dt.UTC), [1, 2], [("k", [1, None])]),
    ]
    row = pa.Table.from_pylist([dict(zip(table.schema.names, values, strict=True))], table.schema.arrow)
    nulls = [pa.nulls(1, f.type) if f.nullable else pa.array([0], f.type) for f in row.schema]
    theirs.write_arrow(pa.concat_tables([row, pa.table(nulls, schema=row.schema)]))
    assert seen(table) == shown(table)
    before = by_pyiceberg(table).schema()
    bounds = _bounds(table)
    # Deleted metadata can not be continued, so interbed publishes from scratch.
    for path in metadata_directory(table).glob("v*.json"):
        path.unlink()
    assert table.maintenance.publish_iceberg() == 1
    assert same_columns(by_pyiceberg(table).schema(), before)
    assert [f.required for f in by_pyiceberg(table).schema().fields] == [f.required for f in before.fields]
    assert _bounds(table) == bounds


def _bounds(table: Table) -> list[tuple[object, ...]]:
    """Return the null counts and the bounds of the columns of all files."""
    files = [task.file for task in by_pyiceberg(table).scan().plan_files()]
    return [(file.null_value_counts, file.lower_bounds, file.upper_bounds) for file in files]
