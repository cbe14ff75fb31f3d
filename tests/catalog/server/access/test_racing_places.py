"""Changes of two callers at the same time that register objects in each other's directories: one of them is refused."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository, SqlTransaction
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, catalog_object
from interbed.catalog.server.service.errors import AccessDeniedError, MetastoreError
from interbed.catalog.server.service.model import (
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import present_caller
from tests.catalog.server.access.guarded import KEYS, STORAGE, served
from tests.support.grants import GrantsInMemory, owned_in
from tests.support.waits import at_most

T = TypeVar("T")


class RacingStore(SqlRepository):
    """A database in which the first changes of two threads begin only when both of them are about to begin."""

    barrier: threading.Barrier | None = None

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.met: set[int] = set()

    def write(self, work: Callable[[SqlTransaction], T]) -> T:
        """Run the function after the other thread has come as far."""
        if self.barrier is not None and threading.get_ident() not in self.met:
            self.met.add(threading.get_ident())
            self.barrier.wait(timeout=at_most(60))
        return super().write(work)


@dataclasses.dataclass
class PlaceRace:
    """A metastore with the databases and tables of `ann` and `eve`."""

    store: RacingStore
    metastore: Metastore
    root: Path

    def place(self, name: str) -> str:
        """Return a directory for the race."""
        return f"file:{self.root / 'race' / name}"

    def run(self, **works: Callable[["PlaceRace"], Any]) -> dict[str, MetastoreError | None]:
        """Run the changes of two callers at the same time; return their errors."""
        found: dict[str, MetastoreError | None] = {}

        def change(name: str) -> None:
            with served(name):
                try:
                    works[name](self)
                    found[name] = None
                except MetastoreError as error:
                    found[name] = error

        self.store.barrier, self.store.met = threading.Barrier(len(works)), set()
        threads = [threading.Thread(target=change, args=(name,)) for name in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=at_most(120))
        self.store.barrier = None
        assert set(found) == set(works)
        return found


@pytest.fixture
def race(database_url: str, tmp_path: Path) -> Iterator[PlaceRace]:
    """Yield a metastore on SQLite, and one on PostgreSQL."""
    store = RacingStore(database_url)
    schema.upgrade(store.engine)
    grants = GrantsInMemory(owned_in(store))
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}", access=AccessGuard(grants, present_caller))
    metastore.databases.bootstrap()
    for name in ("ann", "eve"):
        metastore.databases.create(MetastoreDatabase(name=f"of_{name}", owner_name=name, owner_type=1))
        metastore.tables.create(_table(name, "kept"))
        grants.grant(name, catalog_object("hive"), Privilege.CREATE, Privilege.LOCATION)
    (tmp_path / "race").mkdir()
    yield PlaceRace(store, metastore, tmp_path)
    store.close()


def _table(user: str, name: str, location: str | None = None) -> MetastoreTable:
    storage = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),), location=location)
    return MetastoreTable(
        database=f"of_{user}", name=name, owner=user, storage=storage, partition_keys=KEYS, extra={"ownerType": 1}
    )


def create_table(user: str, place: str) -> Callable[[PlaceRace], Any]:
    """Return the creation of a table."""
    return lambda race: race.metastore.tables.create(_table(user, "new", race.place(place)))


def move_table(user: str, place: str) -> Callable[[PlaceRace], Any]:
    """Return a change of the directory of a table."""
    return lambda race: race.metastore.tables.alter(
        "hive", f"of_{user}", "kept", _table(user, "kept", race.place(place))
    )


def add_partition(user: str, place: str) -> Callable[[PlaceRace], Any]:
    """Return a new partition in a directory of its own."""

    def work(race: PlaceRace) -> None:
        storage = dataclasses.replace(STORAGE, location=race.place(place))
        partition = MetastorePartition(values=("1",), storage=storage)
        race.metastore.partitions.add(("hive", f"of_{user}", "kept"), [partition])

    return work


def create_database(user: str, place: str) -> Callable[[PlaceRace], Any]:
    """Return the creation of a database."""
    return lambda race: race.metastore.databases.create(
        MetastoreDatabase(name=f"new_{user}", location=race.place(place))
    )


def move_database(user: str, place: str) -> Callable[[PlaceRace], Any]:
    """Return a change of the directory of a database."""
    return lambda race: race.metastore.databases.alter(
        "hive", f"of_{user}", MetastoreDatabase(name=f"of_{user}", location=race.place(place), owner_name=user)
    )


CHANGES = {each.__name__: each for each in (create_table, move_table, add_partition, create_database, move_database)}


@pytest.mark.parametrize("inner", sorted(CHANGES))
@pytest.mark.parametrize("outer", sorted(set(CHANGES) - {"create_database", "move_database"}))
def test_one_of_two_objects_in_each_others_directories_is_refused(race: PlaceRace, outer: str, inner: str) -> None:
    works = {"ann": CHANGES[outer]("ann", "x"), "eve": CHANGES[inner]("eve", "x/y")}
    found = race.run(**works)
    refused = [name for name, error in found.items() if error is not None]
    assert len(refused) == 1, found
    [loser] = refused
    error = found[loser]
    assert isinstance(error, AccessDeniedError), error
    assert "another object was registered in the location, at it or around it meanwhile" in str(error)
    with served(loser), pytest.raises(AccessDeniedError, match="is in the directory of another object, or holds one"):
        works[loser](race)


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_objects_in_directories_apart_are_registered_at_the_same_time(race: PlaceRace, change: str) -> None:
    works = {"ann": CHANGES[change]("ann", "x"), "eve": CHANGES[change]("eve", "y")}
    assert race.run(**works) == {"ann": None, "eve": None}
