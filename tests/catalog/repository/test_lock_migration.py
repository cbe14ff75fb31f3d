"""Locks that are held go through the migration to one row each, and back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from interbed.catalog.metastore.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.metastore.locks import LockService
from interbed.catalog.repository import schema
from interbed.catalog.repository.session import SqlStore
from tests.support.servers.metastore import BACKENDS, new_database
from tests.support.servers.postgres import postgres_server


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    with postgres_server() as url:
        yield url


@pytest.mark.parametrize("backend", BACKENDS)
def test_held_and_waiting_locks_survive_the_way_down_and_up(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend == "sqlite":
        url = f"sqlite:///{tmp_path / 'metastore.db'}"
    else:
        url = new_database(request.getfixturevalue("postgres_url"))
    store = SqlStore(url)
    schema.upgrade(store.engine)
    locks = LockService(store)
    whole = LockComponent(type=LockType.SHARED_WRITE, level=LockLevel.DB, database="a")
    table = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="a", table="t", operation=2)
    part = LockComponent(type=LockType.EXCL_WRITE, level=LockLevel.PARTITION, database="b", table="t", partition="p=1")
    for components in ((whole,), (table,), (table, part), (part,)):
        locks.lock(LockRequest(components=components, user="u", host="h", agent="x"))
    before = locks.show()
    with store.engine.connect() as connection:
        names = connection.execute(text("SELECT id, database_name, table_name FROM locks ORDER BY id")).all()
    assert [tuple(row[1:]) for row in names] == [("a", None), ("a", "t"), (None, None), ("b", "t")]
    schema.downgrade(store.engine, "0003")
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lock_components")).scalar() == 5
    schema.upgrade(store.engine)
    assert locks.show() == before
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT id, database_name, table_name FROM locks ORDER BY id")).all() == names
    store.close()
