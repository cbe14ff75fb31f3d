"""Staging directory in which a file-system catalog creates tables before it moves them to their location."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogError, DatabaseNotEmptyError, TableExistsError
from interbed.catalog.client.files.database_directory import ABANDONED_MILLIS, new_staging_directory
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.staging import TableFill
from interbed.storage.base.clock import now_millis
from interbed.storage.meta.schema.table_schema import Schema

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
SCHEMA = Schema.from_pyarrow_schema(ROWS.schema)


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    """Open a catalog with the database `db`."""
    made = interbed.load_catalog(warehouse=str(tmp_path / "lake"))
    assert isinstance(made, FileSystemCatalog)
    made.create_database("db")
    return made


def database(catalog: FileSystemCatalog) -> Path:
    return Path(catalog.get_database("db").location)


def test_the_first_of_two_concurrently_created_tables_is_kept(catalog: FileSystemCatalog) -> None:
    first, second = catalog.stage_table("db.t", SCHEMA), catalog.stage_table("db.t", SCHEMA)
    second.write(ROWS)

    with pytest.raises(TableExistsError):
        first.write(ROWS.slice(1))

    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == ROWS.to_pylist()
    assert [p.name for p in database(catalog).iterdir()] == ["t"]


def test_tables_created_in_the_same_millisecond_are_distinguished(catalog: FileSystemCatalog) -> None:
    first, second = catalog.stage_table("db.t", SCHEMA), catalog.stage_table("db.t", SCHEMA)
    first = catalog.staged(first.identifier, second.schema, first.path, replaces=False)
    second.write(ROWS)

    with pytest.raises(TableExistsError):
        first.write(ROWS.slice(1))

    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == ROWS.to_pylist()


def test_a_staged_table_is_not_listed(catalog: FileSystemCatalog) -> None:
    staged = catalog.stage_table("db.t", SCHEMA)
    staged.table.store.schemas.commit(staged.schema)
    staged.table.append(ROWS)

    assert catalog.list_tables("db") == []
    assert not catalog.table_exists("db.t")
    with pytest.raises(DatabaseNotEmptyError, match=r"'\.staged'.*a table that is being made.*cascade"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)


def test_a_repeated_commit_changes_nothing(catalog: FileSystemCatalog) -> None:
    staged = catalog.stage_table("db.t", SCHEMA)
    with staged.table.new_write("writer", overwrite=True) as write:
        write.write_arrow(ROWS)
        messages = write.prepare_commit()
    staged.commit_messages("writer", messages)
    staged.commit_messages("writer", messages)

    assert [s.id for s in catalog.get_table("db.t").snapshots()] == [1]
    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == ROWS.to_pylist()


def test_files_that_belong_to_no_table_are_kept(catalog: FileSystemCatalog) -> None:
    other = database(catalog) / "t" / "notes.txt"
    other.parent.mkdir()
    other.write_text("mine")

    with pytest.raises(TableExistsError, match="holds files that belong to no table"):
        catalog.create_table_as("db.t", ROWS)

    assert other.read_text() == "mine"
    assert [p.name for p in database(catalog).iterdir()] == ["t"]


def test_a_staged_table_that_was_deleted_is_reported(catalog: FileSystemCatalog) -> None:
    staged = catalog.stage_table("db.t", SCHEMA)

    with pytest.raises(CatalogError, match="is missing; make it again"):
        staged.commit(TableFill(lambda table: shutil.rmtree(table.location), "me"))

    assert catalog.list_tables("db") == []


def test_old_staging_directories_of_killed_processes_are_deleted(catalog: FileSystemCatalog) -> None:
    names = {}
    for name in ("dead", "alive", "young"):
        made = catalog.stage_table(f"db.{name}", SCHEMA)
        made.table.store.schemas.commit(made.schema)
        names[name] = Path(made.table.location)
    old = now_millis() / 1000 - 2 * ABANDONED_MILLIS / 1000
    for name in ("dead", "alive"):
        files = sorted(names[name].rglob("*"), reverse=True)
        # The live process has just written its newest file.
        for path in [*files[name == "alive" :], names[name]]:
            os.utime(path, (old, old))

    mine = new_staging_directory(catalog.file_io, str(database(catalog)))

    assert sorted(p.name for p in Path(mine).parent.iterdir()) == sorted(
        [names["alive"].name, names["young"].name, Path(mine).name]
    )
