"""File of a SQLite database: its mode, and what happens when it is deleted or replaced while a server runs."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.service import Metastore
from tests.support.servers.metastore import metastore_under_test


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlRepository]:
    """Open a migrated database."""
    opened = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    schema.upgrade(opened.engine)
    Metastore(opened, f"file:{tmp_path / 'warehouse'}").databases.bootstrap()
    yield opened
    opened.close()


def write(store: SqlRepository) -> None:
    """Commit any small change."""
    store.write(lambda transaction: transaction.locks.next_id())


def test_only_the_owner_may_read_a_new_database(store: SqlRepository, tmp_path: Path) -> None:
    write(store)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("metastore.db*")}
    assert modes == {"metastore.db": 0o600, "metastore.db-wal": 0o600, "metastore.db-shm": 0o600}


def test_an_existing_database_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "metastore.db"
    file.touch(0o644)
    file.chmod(0o644)
    store = SqlRepository(f"sqlite:///{file}")
    schema.upgrade(store.engine)
    store.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, True), (0o604, True), (0o700, False)])
def test_a_server_warns_of_a_database_that_others_may_read(tmp_path: Path, mode: int, warns: bool) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path):
        pass
    assert "may read" not in (tmp_path / "server.log").read_text()
    (tmp_path / "metastore.db").chmod(mode)
    with metastore_under_test(db, tmp_path):
        pass
    log = (tmp_path / "server.log").read_text()
    assert (f"may read {tmp_path}/metastore.db (mode {mode:04o})" in log) == warns
    assert stat.S_IMODE((tmp_path / "metastore.db").stat().st_mode) == mode


LOSSES: list[tuple[str, Callable[[Path], object]]] = [
    ("was deleted", lambda file: file.unlink()),
    ("was deleted", lambda file: file.rename(file.with_name("moved"))),
    ("was replaced", lambda file: os.replace(_copied(file), file)),
]


@pytest.mark.parametrize(("reason", "lose"), LOSSES)
def test_nothing_is_acknowledged_after_the_file_was_deleted_or_replaced(
    store: SqlRepository, tmp_path: Path, reason: str, lose: Callable[[Path], object]
) -> None:
    write(store)
    file = tmp_path / "metastore.db"
    lose(file)
    there = file.exists()
    with pytest.raises(DatabaseError, match=f"{reason}.* restart"):
        write(store)
    with pytest.raises(DatabaseError, match=reason):
        store.read(lambda transaction: transaction.events.current())
    # No empty database is created in its place.
    assert file.exists() == there


def test_nothing_is_acknowledged_after_the_wal_was_deleted(store: SqlRepository, tmp_path: Path) -> None:
    write(store)
    (tmp_path / "metastore.db-wal").unlink()
    with pytest.raises(DatabaseError, match="has lost its -wal"):
        write(store)


def _copied(file: Path) -> Path:
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    return copy
