"""Renames that end half-way: the process is killed, the commit is refused, or another server settles the move."""

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.errors import InvalidOperationError
from interbed.catalog.server.service.model import (
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.moves import DirectoryMover, carry_out, settle_all
from interbed.catalog.server.service.repository import Transaction
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated
from tests.support.waits import at_most

COLUMNS = (MetastoreColumn(name="id", type="int"),)
STORAGE = StorageDescriptor(columns=COLUMNS, serde=SerDe())


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with the current schema."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def metastore(store: SqlRepository, tmp_path: Path) -> Metastore:
    """Return a metastore with a table `old` that has a file and a partition."""
    started = Metastore(store, f"file:{tmp_path}/warehouse")
    started.databases.bootstrap()
    started.tables.create(
        MetastoreTable(
            database="default",
            name="old",
            storage=STORAGE,
            partition_keys=(MetastoreColumn(name="dt", type="string"),),
        )
    )
    started.partitions.add(("hive", "default", "old"), [MetastorePartition(values=("1",), storage=STORAGE)])
    (tmp_path / "warehouse" / "old" / "part-0").write_text("data")
    return started


@pytest.mark.parametrize("when", ["before", "after", "committed"])
def test_a_server_killed_during_a_rename_leaves_data_and_location_consistent(
    metastore: Metastore, database_url: str, tmp_path: Path, when: str
) -> None:
    root = f"file:{tmp_path}/warehouse"
    arguments = [sys.executable, "-m", "tests.catalog.server.service.rename_process", database_url, root, when]
    ended = subprocess.run(arguments, capture_output=True, timeout=at_most(120), check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    again = Metastore(SqlRepository(database_url), root)
    again.databases.bootstrap()
    name = "new" if when == "committed" else "old"
    assert again.tables.names("hive", "default") == [name]
    assert again.tables.get("hive", "default", name).location == f"{root}/{name}"
    assert (tmp_path / "warehouse" / name / "part-0").read_text() == "data"
    _, partitions = again.partitions.select(("hive", "default", name))
    assert [each.storage.location for each in partitions if each.storage] == [f"{root}/{name}/dt=1"]
    assert settle_all(_store(again)) == 0
    # The rename can be repeated.
    table = again.tables.get("hive", "default", name)
    again.tables.alter("hive", "default", name, dataclasses.replace(table, name="third"))
    assert (tmp_path / "warehouse" / "third" / "part-0").read_text() == "data"
    _store(again).close()


def test_the_reaper_of_another_server_settles_a_rename_of_a_killed_one(
    metastore: Metastore, store: SqlRepository, database_url: str, tmp_path: Path
) -> None:
    root = f"file:{tmp_path}/warehouse"
    arguments = [sys.executable, "-m", "tests.catalog.server.service.rename_process", database_url, root, "after"]
    ended = subprocess.run(arguments, capture_output=True, timeout=at_most(120), check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert (tmp_path / "warehouse" / "new").exists()
    Reaper(store, metastore.locks, every_seconds=60, events_ttl_seconds=3600).look()
    assert (tmp_path / "warehouse" / "old" / "part-0").read_text() == "data"
    assert not (tmp_path / "warehouse" / "new").exists()
    assert settle_all(store) == 0


def test_a_unit_of_work_that_fails_after_the_move_undoes_it(
    metastore: Metastore, store: SqlRepository, tmp_path: Path
) -> None:
    root = f"file:{tmp_path}/warehouse"

    def work(transaction: Transaction, mover: DirectoryMover) -> None:
        stored = transaction.tables.find("hive", "default", "old", for_update=True)
        assert stored is not None
        mover.move(transaction, stored.id, f"{root}/old", f"{root}/new")
        raise InvalidOperationError("no")

    with pytest.raises(InvalidOperationError):
        carry_out(store, work)
    assert (tmp_path / "warehouse" / "old" / "part-0").read_text() == "data"
    assert not (tmp_path / "warehouse" / "new").exists()
    assert settle_all(store) == 0


def test_a_rename_to_an_existing_directory_changes_nothing(
    metastore: Metastore, store: SqlRepository, tmp_path: Path
) -> None:
    (tmp_path / "warehouse" / "new").mkdir()
    table = metastore.tables.get("hive", "default", "old")
    with pytest.raises(InvalidOperationError, match="already exists"):
        metastore.tables.alter("hive", "default", "old", dataclasses.replace(table, name="new"))
    assert metastore.tables.names("hive", "default") == ["old"]
    assert (tmp_path / "warehouse" / "old" / "part-0").read_text() == "data"
    assert settle_all(store) == 0


def test_a_server_that_settles_too_early_does_not_disturb_a_rename(
    metastore: Metastore, store: SqlRepository, tmp_path: Path
) -> None:
    root = f"file:{tmp_path}/warehouse"
    runs = []

    def work(transaction: Transaction, mover: DirectoryMover) -> None:
        runs.append(len(mover.announced))
        stored = transaction.tables.find("hive", "default", "old")
        assert stored is not None
        mover.move(transaction, stored.id, f"{root}/old", f"{root}/new")
        storage = stored.value.storage
        assert storage is not None
        database = transaction.databases.find("hive", "default")
        assert database is not None
        changed = dataclasses.replace(
            stored.value, name="new", storage=dataclasses.replace(storage, location=f"{root}/new")
        )
        assert transaction.tables.replace(stored.id, database.id, changed)

    class SettlingRepository:
        """Repository whose pending moves are settled before the first unit of work can use them."""

        def __init__(self) -> None:
            self.settled = 0

        def read(self, function: object) -> object:
            return store.read(function)  # type: ignore[arg-type]

        def write(self, function: object) -> object:
            result: object = store.write(function)  # type: ignore[arg-type]
            if len(runs) == 1 and not self.settled:
                self.settled = settle_all(store)
            return result

        def close(self) -> None:
            return None

    settling = SettlingRepository()
    carry_out(settling, work)  # type: ignore[arg-type]
    assert (settling.settled, runs) == (1, [0, 1, 1])
    assert (tmp_path / "warehouse" / "new" / "part-0").read_text() == "data"
    assert metastore.tables.get("hive", "default", "new").location == f"{root}/new"


def _store(metastore: Metastore) -> SqlRepository:
    store = metastore.tables._store
    assert isinstance(store, SqlRepository)
    return store
