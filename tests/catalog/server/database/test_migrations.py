"""The schema of the database: upgrade, downgrade, and equality with the models, on SQLite and PostgreSQL."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError
from interbed.catalog.server.database.models import Base
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import prepare


@pytest.fixture
def store(empty_database_url: str) -> Iterator[SqlRepository]:
    """Open a repository on an empty database."""
    opened = SqlRepository(empty_database_url)
    yield opened
    opened.close()


def test_migrations_create_exactly_the_models(store: SqlRepository) -> None:
    schema.upgrade(store.engine)
    with store.engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    assert differences == []


def test_no_migration_depends_on_code_that_changes() -> None:
    directory = Path(__file__).parents[4] / "alembic"
    versions = list((directory / "versions").glob("*.py"))
    assert len(versions) >= 10
    # Code that several migrations share lies beside them, and is as frozen as they are.
    for file in (*versions, *directory.glob("places_of_*.py")):
        found = re.search(r"^\s*(from|import) interbed\b(?!\.migrations\b)", file.read_text(), re.MULTILINE)
        assert not found, file.name


def test_a_filled_database_is_downgraded_and_upgraded(store: SqlRepository, tmp_path: Path) -> None:
    schema.upgrade(store.engine)
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    columns = (MetastoreColumn(name="id", type="int"),)
    metastore.tables.create(MetastoreTable(database="default", name="t", storage=StorageDescriptor(columns=columns)))
    schema.downgrade(store.engine, "base")
    assert set(inspect(store.engine).get_table_names()) <= {"alembic_version"}
    schema.upgrade(store.engine)
    metastore.databases.bootstrap()
    assert metastore.tables.names("hive", "default") == []


def test_owners_become_columns(store: SqlRepository, tmp_path: Path) -> None:
    schema.upgrade(store.engine)
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    owners: dict[str, tuple[str, int | None]] = {"a": ("Ann", None), "b": ("Etl", 2), "c": ("lords", 3)}
    owners |= {"d": ("x" * 257, 1), "e": ("e\0", 1), "f": ("", 1)}
    storage = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),))
    for name, (owner, kind) in owners.items():
        extra = {} if kind is None else {"ownerType": kind}
        metastore.tables.create(
            MetastoreTable(database="default", name=name, owner=owner, storage=storage, extra=extra)
        )
    owned = text("SELECT name, owner FROM tables ORDER BY name")
    expected = [("a", "user:Ann"), ("b", "role:etl"), ("c", "group:lords"), ("d", None), ("e", None), ("f", None)]
    with store.engine.connect() as connection:
        assert connection.execute(owned).all() == expected
    schema.downgrade(store.engine, "0016")
    schema.upgrade(store.engine)
    with store.engine.connect() as connection:
        assert connection.execute(owned).all() == expected
        assert connection.execute(text("SELECT name, owner FROM databases")).all() == [("default", "role:public")]


def test_a_downgrade_refuses_names_that_are_too_long_for_the_older_version(
    store: SqlRepository, tmp_path: Path
) -> None:
    schema.upgrade(store.engine)
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    columns = (MetastoreColumn(name="id", type="int"),)
    long_name = "t" * 256
    location = f"file:{tmp_path / 'elsewhere'}"
    table = MetastoreTable(
        database="default",
        name=long_name,
        table_type="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE"},
        storage=StorageDescriptor(columns=columns, location=location),
    )
    metastore.tables.create(table)
    with pytest.raises(DatabaseError, match="have more than 128 characters; rename or drop them first"):
        schema.downgrade(store.engine, "0004")
    assert metastore.tables.names("hive", "default") == [long_name]
    metastore.tables.drop("hive", "default", long_name, delete_data=False)
    schema.downgrade(store.engine, "0004")
    assert not schema.is_current(store.engine)
    schema.upgrade(store.engine)
    assert schema.is_current(store.engine)


def test_an_up_to_date_database_is_not_changed(store: SqlRepository) -> None:
    schema.upgrade(store.engine)
    first = schema.current_revision(store.engine)
    schema.upgrade(store.engine)
    assert schema.current_revision(store.engine) == first is not None
    assert schema.is_current(store.engine)


def test_the_latest_revision_is_found_without_reading_the_migrations(store: SqlRepository) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.migrations_directory()))
    assert schema.latest_revision() == ScriptDirectory.from_config(config).get_current_head()
    assert schema.current_revision(store.engine) is None
    assert not schema.is_current(store.engine)


def test_the_database_of_a_newer_interbed_is_refused(store: SqlRepository) -> None:
    schema.upgrade(store.engine)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match="does not fit this version of interbed"):
        schema.upgrade(store.engine)


def test_a_copied_database_equals_a_migrated_one(tmp_path: Path) -> None:
    migrated, copied = (tmp_path / name for name in ("migrated.db", "copied.db"))
    store = SqlRepository(f"sqlite:///{migrated}")
    schema.upgrade(store.engine)
    store.close()
    prepare(f"sqlite:///{copied}")
    assert copied.stat().st_mode == migrated.stat().st_mode
    assert _content(copied) == _content(migrated)


def _content(path: Path) -> list[str]:
    """Return the statements that create the database, without the first number of the history, which is the time."""
    with closing(sqlite3.connect(path)) as connection:
        return [re.sub(r"(?<='history',)\d+", "now", line) for line in connection.iterdump()]


def test_sqlite_commits_are_durable(tmp_path: Path) -> None:
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    store.close()


def test_the_migrations_folder_is_no_package_and_does_not_hide_alembic() -> None:
    assert not (schema.migrations_directory() / "__init__.py").exists()
    assert (schema.migrations_directory() / "env.py").is_file()
