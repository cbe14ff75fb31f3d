"""Rollback of the schema of a table: later schemas are deleted unless something needs them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import CommitConflictError, InvalidInputError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.snapshot.history_journal import HistoryChange, change_history
from interbed.storage.table.table import Table
from interbed.storage.version import rollback as schema_rollback

ID = pa.schema([("id", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    found = interbed.load_catalog("test", warehouse=str(tmp_path))
    assert isinstance(found, FileSystemCatalog)
    found.create_database("d")
    found.create_table("d.t", ID)
    return found


def _add(catalog: FileSystemCatalog, column: str) -> Table:
    catalog.alter_table("d.t", SchemaChange.add_column(column, "INT"))
    return catalog.get_table("d.t")


def test_later_schemas_are_deleted_and_rows_stay(catalog: FileSystemCatalog) -> None:
    catalog.get_table("d.t").append([{"id": 1}])
    _add(catalog, "a")
    table = _add(catalog, "b")
    assert table.versions.rollback_schema(0).id == 0
    assert table.schema.names == ("id",)
    again = catalog.get_table("d.t")
    assert again.store.schemas.ids() == [0]
    again.append([{"id": 2}])
    assert sorted(row["id"] for row in again.to_arrow().to_pylist()) == [1, 2]
    assert _add(catalog, "c").schema.id == 1


def test_a_schema_that_does_not_exist_is_named_with_those_that_do(catalog: FileSystemCatalog) -> None:
    with pytest.raises(InvalidInputError, match=r"Schema 7 .* does not exist\. Its schemas are 0, 1"):
        _add(catalog, "a").versions.rollback_schema(7)


def _by_snapshot(table: Table) -> None:
    table.append([{"id": 2, "a": 2}])


def _by_file(table: Table) -> None:
    table.append([{"id": 2, "a": 2}])
    # A snapshot of Java's writers is of the schema with which they were opened.
    for snapshot in table.store.snapshots.all():
        path = table.store.paths.snapshot(snapshot.id)
        table.store.file_io.overwrite(path, replace(snapshot, schema_id=0).to_json().encode())


@pytest.mark.parametrize("use", [_by_snapshot, _by_file], ids=lambda use: use.__name__)
def test_a_schema_in_use_is_not_deleted(catalog: FileSystemCatalog, use: Callable[[Table], None]) -> None:
    catalog.get_table("d.t").append([{"id": 1}])
    table = _add(catalog, "a")
    use(table)
    with pytest.raises(InvalidInputError, match=r"Cannot rollback to schema 0 .*: schema 1 is still referenced by"):
        table.versions.rollback_schema(0)
    assert catalog.get_table("d.t").schema.names == ("id", "a")


def test_a_schema_of_a_tag_is_not_deleted(catalog: FileSystemCatalog) -> None:
    catalog.get_table("d.t").append([{"id": 1}])
    table = _add(catalog, "a")
    table.append([{"id": 2, "a": 2}])
    table.versions.create_tag("v")
    # Only the tag is left of the later snapshot.
    table.store.file_io.delete(table.store.paths.snapshot(2))
    with pytest.raises(InvalidInputError, match="schema 1 is still referenced"):
        catalog.get_table("d.t").versions.rollback_schema(0)


def test_the_schema_of_a_commit_at_the_same_time_is_restored(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _add(catalog, "a")
    writer = catalog.get_table("d.t")

    def late(file_io: FileIO, paths: TablePaths, make: Callable[[], HistoryChange]) -> None:
        def made() -> HistoryChange:
            change = make()
            writer.append([{"id": 1, "a": 1}])
            return change

        change_history(file_io, paths, made)

    monkeypatch.setattr(schema_rollback, "change_history", late)
    with pytest.raises(CommitConflictError, match="schemas were restored"):
        table.versions.rollback_schema(0)
    assert catalog.get_table("d.t").to_arrow().to_pylist() == [{"id": 1, "a": 1}]


def test_the_primary_key_of_an_empty_table_can_be_dropped(catalog: FileSystemCatalog) -> None:
    catalog.create_table("d.k", ID, primary_keys=["id"])
    catalog.alter_table("d.k", SchemaChange.drop_primary_key())
    table = catalog.get_table("d.k")
    assert table.primary_keys == []
    table.append([{"id": 1}, {"id": 1}])
    assert table.count() == 2


def test_the_primary_key_of_a_table_with_rows_stays(catalog: FileSystemCatalog) -> None:
    catalog.create_table("d.k", ID, primary_keys=["id"], options={"bucket": "1"}).upsert([{"id": 1}])
    with pytest.raises(NotSupportedError, match="primary key of a table with snapshots"):
        catalog.alter_table("d.k", SchemaChange.drop_primary_key())


def test_tags_as_partitions_have_no_effect_on_partitioned_tables(
    catalog: FileSystemCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.create_table("d.p", ID, partition_keys=["id"], options={"metastore.tag-to-partition": "id"})
    catalog.get_table("d.p").append([{"id": 1}])
    assert catalog.get_table("d.p").to_arrow().num_rows == 1
    # The option is not reported as one that is not supported.
    assert "tag-to-partition" not in caplog.text
    with pytest.raises(NotSupportedError, match="tags are not registered as partitions"):
        catalog.create_table("d.q", ID, options={"metastore.tag-to-partition": "id"})
