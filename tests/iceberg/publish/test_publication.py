"""Rows that readers of Iceberg see of a published table after each of its changes, and retention of older metadata."""

import datetime as dt
import logging
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import interbed
from interbed.iceberg.publish import publication
from interbed.iceberg.publish.publication import publish
from interbed.storage.base.errors import NotSupportedError, StorageAccessError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, RenameColumn, SetOption, UpdateColumnType
from interbed.storage.table.table import Table, load_table
from tests.iceberg.publish.tables import (
    KEYED,
    ROWS,
    STORAGE,
    VECTORS,
    VERSION,
    assert_true,
    by_pyiceberg,
    lake,
    metadata_directory,
    named_files,
    ordered,
    place_of,
    published,
    rows,
    seen,
    shown,
)


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("partitions", [(), ("p",)])
def test_an_append_table_shows_all_of_its_rows(tmp_path: Path, version: str, partitions: tuple[str, ...]) -> None:
    table = published(tmp_path, {VERSION: version}, partitions=partitions)
    table.append(rows(1, 2))
    assert_true(table)
    table.append([*rows(3, p=None), *rows(4, p=2)])
    assert_true(table)
    table.delete("id = 1")
    assert_true(table)
    table.overwrite(rows(9, p=2))
    assert_true(table)
    table.compact()
    assert_true(table)
    assert by_pyiceberg(table).metadata.format_version == int(version)


def test_a_primary_key_table_shows_the_rows_of_its_top_level(tmp_path: Path) -> None:
    table = published(tmp_path, {"write-only": "true"}, schema=KEYED, keys=["id"])
    table.upsert(rows(1, 2))
    assert_true(table)
    assert seen(table) == []
    table.compact()
    assert_true(table)
    assert len(seen(table)) == 2
    table.upsert(rows(2, 3, v="b"))
    table.delete("id = 1")
    assert_true(table)
    assert [row["v"] for row in seen(table)] == ["a", "a"]
    table.compact()
    assert_true(table)
    assert [(row["id"], row["v"]) for row in seen(table)] == [(2, "b"), (3, "b")]


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_a_primary_key_table_with_deletion_vectors_shows_all_rows(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table = published(tmp_path, {**VECTORS, "bucket": "1"} if keys else VECTORS, schema=KEYED, keys=keys)
    # There are enough rows that a few new rows are not compacted with them.
    table.append([{"id": i, "v": str(i * 7919 % 10_007), "p": 1} for i in range(20_000)])
    if keys:
        table.compact()
        table.upsert(rows(2, v="b"))
    table.delete("id = 3")
    assert_true(table)
    assert len(seen(table)) == 19_999
    vectors = by_pyiceberg(table).inspect.delete_files().to_pylist()
    assert vectors
    assert all(Path(entry["file_path"]).name.startswith("index-") for entry in vectors)
    table.append(rows(5))
    assert_true(table)
    table.compact()
    assert_true(table)


def current_manifests(table: Table) -> set[str]:
    """Return the paths of the manifests of the current snapshot."""
    static = by_pyiceberg(table)
    snapshot = static.current_snapshot()
    assert snapshot is not None
    return {manifest.manifest_path for manifest in snapshot.manifests(static.io)}


def test_a_commit_writes_only_the_manifests_that_it_changes(tmp_path: Path) -> None:
    table = published(tmp_path, partitions=["p"])
    for p in (1, 2, 3):
        table.append(rows(p, p=p))
    before = current_manifests(table)
    table.delete("id = 2")
    assert len(before & current_manifests(table)) == 2
    assert_true(table)


def test_many_small_manifests_are_merged(tmp_path: Path) -> None:
    few = {"metadata.iceberg.compaction.min.file-num": "3", "metadata.iceberg.compaction.max.file-num": "4"}
    table = published(tmp_path, {**few, VERSION: "3"})
    for number in range(9):
        table.append(rows(number))
        assert_true(table)
        assert len(current_manifests(table)) <= 4
    now: Any = by_pyiceberg(table).metadata
    assert now.next_row_id >= 9


def test_columns_are_added_dropped_and_renamed(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.store.alter([AddColumn("x", AtomicType(TypeRoot.INT)), RenameColumn("v", "w")])
    table = load_table(table.location)
    table.append([{"id": 2, "w": "b", "p": 1, "x": 7}])
    assert_true(table)
    table.store.alter([UpdateColumnType("x", AtomicType(TypeRoot.BIGINT))])
    table = load_table(table.location)
    table.append([{"id": 3, "w": "c", "p": 1, "x": 1 << 40}])
    assert_true(table)
    static = by_pyiceberg(table)
    assert [schema.schema_id for schema in static.metadata.schemas] == [0, 1, 2]
    assert [snapshot.schema_id for snapshot in static.metadata.snapshots] == [0, 1, 2]
    first = interbed.load_iceberg_table(place_of(table)).scan(snapshot_id=1).to_arrow()
    assert first.column_names == ["id", "v", "p"]
    assert seen(table, filter="x > 100") == [{"id": 3, "w": "c", "p": 1, "x": 1 << 40}]


def test_a_type_change_that_iceberg_does_not_support_is_refused(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    with pytest.raises(NotSupportedError, match=r"The column 'id' .* can't get that type"):
        table.store.alter([UpdateColumnType("id", AtomicType(TypeRoot.VARCHAR, length=9))])
    table.store.alter([SetOption(STORAGE, "disabled")])
    plain = load_table(table.location)
    plain.store.alter([UpdateColumnType("id", AtomicType(TypeRoot.VARCHAR, length=9))])
    changed = load_table(table.location)
    changed.store.alter([SetOption(STORAGE, "hadoop-catalog")])
    changed = load_table(table.location)
    with pytest.raises(NotSupportedError, match="has the column 'id' with a type that Iceberg can't convert"):
        changed.maintenance.publish_iceberg()
    changed.overwrite([{"id": "9", "v": "a", "p": 1}])
    assert_true(changed)


def test_statistics_prune_files(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1, 2))
    table.append([*rows(5, v=None), *rows(6, v="zz")])  # type: ignore[arg-type]
    static = by_pyiceberg(table)
    assert len(list(static.scan(row_filter="id > 4").plan_files())) == 1
    assert len(list(static.scan(row_filter="v = 'zz'").plan_files())) == 1
    assert len(list(static.scan(row_filter="v is null").plan_files())) == 1
    assert len(list(static.scan(row_filter="id > 6").plan_files())) == 0


def test_expired_snapshots_are_removed_with_their_manifests(tmp_path: Path) -> None:
    keep = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    table = published(tmp_path, {**keep, "write-only": "false"})
    for number in range(6):
        table.append(rows(number))
        assert_true(table)
    assert [one.snapshot_id for one in by_pyiceberg(table).metadata.snapshots] == [5, 6]
    there = {str(path) for path in metadata_directory(table).iterdir() if path.suffix == ".avro"}
    assert there <= named_files(table)


def test_a_rollback_rolls_back_the_iceberg_table(tmp_path: Path) -> None:
    table = published(tmp_path, {VERSION: "3"})
    for number in range(4):
        table.append(rows(number))
    before: Any = by_pyiceberg(table).metadata
    table.versions.rollback_to(2)
    assert_true(table)
    assert sorted(path.name for path in metadata_directory(table).glob("v*")) == [
        "v2.metadata.json",
        "version-hint.text",
    ]
    table.append(rows(9, v="other"))
    assert_true(table)
    now: Any = by_pyiceberg(table).metadata
    assert now.table_uuid == before.table_uuid
    assert now.next_row_id > before.next_row_id
    assert {str(p) for p in metadata_directory(table).glob("*.avro")} <= named_files(table)


def test_a_later_commit_publishes_snapshots_whose_publication_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = published(tmp_path)
    table.append(rows(1))

    def refuse(*_: object) -> int:
        raise StorageAccessError("The store is away.")

    with monkeypatch.context() as away, caplog.at_level(logging.WARNING):
        away.setattr(publication, "publish", refuse)
        table.append(rows(2))
        table.delete("id = 1")
    assert "is not published as Iceberg's yet" in caplog.text
    assert by_pyiceberg(table).metadata.current_snapshot_id == 1
    table.append(rows(3))
    assert_true(table)
    assert [one.snapshot_id for one in by_pyiceberg(table).metadata.snapshots] == [1, 2, 3, 4]
    then = interbed.load_iceberg_table(place_of(table)).scan(snapshot_id=2).to_arrow()
    assert set(then["id"].to_pylist()) == {1, 2}


def test_an_existing_table_with_rows_is_published_on_request(tmp_path: Path) -> None:
    table = lake(tmp_path).create_table("db.t", ROWS)
    table.append(rows(1, 2))
    table.append(rows(3))
    with pytest.raises(NotSupportedError, match=STORAGE):
        table.maintenance.publish_iceberg()
    table.store.alter([SetOption(STORAGE, "table-location")])
    table = load_table(table.location)
    assert table.maintenance.publish_iceberg() == 2
    assert ordered(interbed.load_iceberg_table(table.location).scan().to_arrow().to_pylist()) == shown(table)
    assert load_table(table.location).versions.branches() == []


def test_an_empty_table_is_published_with_its_first_snapshot(tmp_path: Path) -> None:
    table = published(tmp_path)
    assert table.maintenance.publish_iceberg() is None
    assert not metadata_directory(table).exists()
    table.overwrite(pa.table({"id": [], "v": [], "p": []}, schema=ROWS))
    if table.store.snapshots.latest() is None:
        table.append(rows(1))
    assert_true(table)


def test_branches_are_not_published(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.versions.create_tag("one")
    table.versions.create_branch("b", "one")
    table.branch("b").append(rows(2))
    assert by_pyiceberg(table).metadata.current_snapshot_id == 1
    with pytest.raises(NotSupportedError, match="branches never are"):
        table.branch("b").maintenance.publish_iceberg()


def test_a_recreated_table_has_a_new_iceberg_table(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1, 2))
    before = by_pyiceberg(table).metadata.table_uuid
    lake(tmp_path).drop_table("db.t")
    again = published(tmp_path, schema=KEYED, partitions=["p"])
    again.append(rows(7))
    assert_true(again)
    assert by_pyiceberg(again).metadata.table_uuid != before


def test_a_table_created_from_data_is_published_in_its_own_location(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "v": ["a", "b"]})
    table = lake(tmp_path).create_table_as("db.t", data, options={STORAGE: "table-location"})
    found = interbed.load_iceberg_table(table.location).scan().to_arrow()
    assert ordered(found.to_pylist()) == ordered(data.to_pylist())
    names = named_of(table.location)
    assert names
    assert all(path.startswith(table.location) for path in names)


def named_of(location: str) -> list[str]:
    """Return the data files that the metadata at a location reference."""
    plan = interbed.load_iceberg_table(location).scan().plan
    return [file.file.path for task in plan.tasks for file in task.files]


def test_a_replaced_table_starts_new_metadata(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1, 2))
    other = pa.table({"id": [5], "w": ["b"], "p": [1]}).schema
    lake(tmp_path).replace_table("db.t", other, options={STORAGE: "hadoop-catalog"})
    table = load_table(table.location)
    table.append([{"id": 5, "w": "b", "p": 1}])
    assert_true(table)
    assert by_pyiceberg(table).schema().field_ids != {0, 1, 2}


def test_older_metadata_files_are_retained_as_configured(tmp_path: Path) -> None:
    table = published(tmp_path, {"metadata.iceberg.previous-versions-max": "2"})
    for number in range(5):
        table.append(rows(number))
    assert sorted(path.name for path in metadata_directory(table).glob("*.json")) == [
        "v3.metadata.json",
        "v4.metadata.json",
        "v5.metadata.json",
    ]
    kept = published(tmp_path, {"metadata.iceberg.delete-after-commit.enabled": "false"}, name="kept")
    for number in range(3):
        kept.append(rows(number))
    assert len(list(metadata_directory(kept).glob("*.json"))) == 3


def test_version_numbers_only_grow(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    name = by_pyiceberg(table).metadata.table_uuid
    table.store.alter([SetOption(VERSION, "3")])
    table = load_table(table.location)
    table.append(rows(2))
    assert_true(table)
    assert by_pyiceberg(table).metadata.format_version == 3
    assert by_pyiceberg(table).metadata.table_uuid == name
    with pytest.raises(interbed.InvalidOptionError, match="never go back"):
        table.store.alter([SetOption(VERSION, "2")])


def test_a_snapshot_is_found_by_its_time(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first = table.versions.snapshot(1)
    found = interbed.load_iceberg_table(place_of(table)).scan(timestamp=first.time_millis)
    assert found.to_arrow()["id"].to_pylist() == [1] or table.versions.snapshot(2).time_millis == first.time_millis


def test_nested_columns_have_the_field_ids_of_the_data_files(tmp_path: Path) -> None:
    kind = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
    maps = pa.map_(pa.string(), pa.list_(pa.int32()))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("s", kind), pa.field("m", maps)])
    table = published(tmp_path, schema=schema)
    table.append([{"id": 1, "s": {"x": 1, "y": [{"z": 5}, None]}, "m": [("k", [1, None])]}, {"id": 2}])
    assert_true(table)
    path = next(Path(table.location).rglob("*.parquet"))
    in_file = set(_ids(pq.read_schema(path)))
    assert in_file == set(by_pyiceberg(table).schema().field_ids)


def _ids(fields: "pa.Schema | pa.DataType") -> list[int]:
    found: list[int] = []
    parts = list(fields) if isinstance(fields, pa.Schema) else [fields.field(i) for i in range(fields.num_fields)]
    for part in parts:
        number = (part.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            found.append(int(number))
        found += _ids(part.type)
    return found


def test_publishing_twice_writes_nothing(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    before = {path.name: path.stat().st_mtime_ns for path in metadata_directory(table).iterdir()}
    assert publish(table.store) == 1
    assert {path.name: path.stat().st_mtime_ns for path in metadata_directory(table).iterdir()} == before


def test_a_missing_version_hint_and_newer_leftover_files_are_repaired(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    directory = metadata_directory(table)
    (directory / "version-hint.text").unlink()
    (directory / "v7.metadata.json").write_text("{")
    (directory / "retire-pending").write_text("")
    assert table.maintenance.publish_iceberg() == 1
    assert_true(table)
    assert sorted(path.name for path in directory.iterdir() if path.suffix != ".avro") == [
        "v1.metadata.json",
        "version-hint.text",
    ]


def test_a_purged_table_is_published_as_empty(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.maintenance.purge_files()
    assert not list(metadata_directory(table).glob("*.json")) or seen(table) == []
    table.append(rows(2))
    assert_true(table)


def test_a_gap_in_the_snapshots_starts_new_metadata_of_the_same_table(tmp_path: Path) -> None:
    table = published(tmp_path, {VERSION: "3"})
    table.append(rows(1))
    before: Any = by_pyiceberg(table).metadata
    silent = table.copy({STORAGE: "disabled"})
    for number in range(2, 6):
        silent.append(rows(number))
    silent.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert by_pyiceberg(table).metadata.current_snapshot_id == 1
    table.append(rows(9))
    assert_true(table)
    now: Any = by_pyiceberg(table).metadata
    assert now.table_uuid == before.table_uuid
    assert now.next_row_id > before.next_row_id
    assert [one.snapshot_id for one in now.snapshots] == [6]


def test_concurrent_writers_publish_the_newest_snapshot(tmp_path: Path) -> None:
    table = published(tmp_path, {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "5"})
    location = table.location

    def write(number: int) -> None:
        mine = load_table(location)
        for turn in range(6):
            mine.append(rows(100 * number + turn))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table.maintenance.publish_iceberg()
    assert_true(table)
    assert len(seen(table)) == 24


@pytest.mark.parametrize("vectors", [False, True])
def test_files_outside_of_the_table_are_referenced_at_their_location(tmp_path: Path, vectors: bool) -> None:
    places = {
        "data-file.external-paths": f"file://{tmp_path}/one,file://{tmp_path}/two",
        "data-file.external-paths.strategy": "round-robin",
        "data-file.path-directory": "data",
    }
    table = published(tmp_path / "lake", {**places, **(VECTORS if vectors else {})}, partitions=["p"])
    table.append(rows(*range(50)))
    table.append(rows(*range(50, 90), p=2))
    table.delete("id = 7 or id = 60")
    assert_true(table)
    assert len(seen(table)) == 88
    assert any(path.startswith((f"{tmp_path}/one", f"{tmp_path}/two")) for path in named_files(table))


def test_partitions_of_all_types_are_pruned(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)
    values: dict[str, Any] = {
        "day": moment.date(),
        "at": moment,
        "zoned": moment.replace(tzinfo=dt.UTC),
        "n": Decimal("1.25"),
        "b": True,
        "f": 0.5,
        "i": 7,
        "s": "ü/=",
    }
    data = pa.Table.from_pylist([{"id": 1, **values}, {"id": 2, **dict.fromkeys(values)}])
    table = lake(tmp_path).create_table_as(
        "db.t", data, partition_keys=list(values), options={STORAGE: "hadoop-catalog"}
    )
    assert_true(table)
    table.append(data)
    table.delete("id = 1")
    assert_true(table)
    assert [row["id"] for row in seen(table, filter="i is null")] == [2, 2]


def test_the_iceberg_table_refuses_changes(tmp_path: Path) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    theirs = interbed.load_iceberg_table(place_of(table))
    for change in (theirs.compact, theirs.expire_snapshots, theirs.remove_orphan_files):
        with pytest.raises(NotSupportedError, match="is published of a table in Paimon's format at"):
            change()
    assert_true(table)
