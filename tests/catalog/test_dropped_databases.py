"""A database of a file-system catalog that is dropped or created while other processes create tables and databases in
it.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableNotFoundError,
)
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.io.api import FileIO, WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from tests.support.dying_disk import DyingDisk
from tests.support.servers.http_servers import running_s3
from tests.support.waits import at_most

SCHEMA = pa.schema([("id", pa.int64())])
ROW = {"id": 1}
STEPS_MAX = 200

Action = Callable[[], object]


class ConcurrentAction:
    """Runs an action once, before the step of that number."""

    def __init__(self, number: int, action: Action) -> None:
        self._left = number
        self._action = action
        self.happened = False

    def __call__(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.happened:
            self.happened = True
            self._action()


class SharedDisk(DyingDisk):
    """Disk on which another process acts before a step that changes the disk."""

    def __init__(self, meanwhile: ConcurrentAction) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def _step(self, what: str, path: str) -> None:
        self._meanwhile()


class SharedStore(WrappedFileIO):
    """Object store in which another process acts before a request."""

    def __init__(self, inner: FileIO, meanwhile: ConcurrentAction) -> None:
        super().__init__(inner)
        for name in ("read_bytes", "create_exclusive", "overwrite", "exists", "list", "make_directories", "delete"):
            setattr(self, name, self._after(meanwhile, getattr(self, name)))

    @staticmethod
    def _after(meanwhile: ConcurrentAction, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            meanwhile()
            return method(*arguments, **named)

        return call


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3("lake") as options:
        yield options


@pytest.fixture(params=["disk", "store", "memory", "hdfs"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    name = request.node.name.partition("[")[0]
    if request.param == "disk":
        return {"warehouse": str(tmp_path / "lake")}
    if request.param == "hdfs":
        return {"warehouse": f"{request.getfixturevalue('hdfs').uri}/dropped/{name}"}
    if request.param == "memory":
        return {"warehouse": f"memory://lake/{name}"}
    return {"warehouse": f"s3://lake/{name}", **request.getfixturevalue("store")}


def opened(options: dict[str, str], meanwhile: ConcurrentAction | None = None) -> FileSystemCatalog:
    """Open the catalog of a new process, with a concurrent action of another process."""
    catalog = interbed.CatalogFactory.create(options)
    assert isinstance(catalog, FileSystemCatalog)
    if meanwhile is not None:
        shared: Any = (
            LocalFileIO(SharedDisk(meanwhile))
            if catalog.file_io.capabilities.links
            else SharedStore(catalog.file_io, meanwhile)
        )
        catalog._file_io = cast(FileIO, shared)
    return catalog


def tried(action: Action) -> str:
    """Return `done` or the name of the catalog's error; raise any other error."""
    try:
        action()
    except CatalogError as error:
        return type(error).__name__
    return "done"


def record(reported: list[str], action: Action) -> None:
    """Run the action, and record its outcome."""
    reported.append(tried(action))


def make_table(catalog: FileSystemCatalog, database: str) -> None:
    catalog.create_table(f"{database}.t", SCHEMA).append([ROW])


def rows_of(catalog: FileSystemCatalog, database: str) -> list[Any] | None:
    try:
        return catalog.get_table(f"{database}.t").scan().to_arrow().to_pylist()
    except (TableNotFoundError, DatabaseNotFoundError):
        return None


@pytest.mark.sample(2)
def test_a_table_created_while_its_database_is_dropped_is_refused_or_kept(options: dict[str, str]) -> None:
    other, outcomes = opened(options), set()
    for step in range(STEPS_MAX):
        name = f"d{step}"
        other.create_database(name, properties={"team": "sales"})
        reported: list[str] = []
        make = ConcurrentAction(step, partial(record, reported, partial(make_table, other, name)))
        dropped = tried(partial(opened(options, make).drop_database, name))
        if not make.happened:
            break
        assert rows_of(other, name) == ([ROW] if reported == ["done"] else None), (step, dropped, reported)
        if dropped != "done":
            assert other.get_database(name).properties == {"team": "sales"}, step
        outcomes.add((dropped, *reported))
        other.drop_database(name, cascade=True, ignore_if_not_exists=True)
    else:
        pytest.fail("it takes more steps than are tried")
    assert ("DatabaseNotEmptyError", "done") in outcomes


@pytest.mark.sample(2)
def test_a_drop_of_a_database_during_the_creation_of_a_table_is_refused_or_wins(
    options: dict[str, str],
) -> None:
    other, outcomes = opened(options), set()
    for step in range(STEPS_MAX):
        name = f"d{step}"
        other.create_database(name, properties={"team": "sales"})
        reported: list[str] = []
        drop = ConcurrentAction(step, partial(record, reported, partial(other.drop_database, name)))
        made = tried(partial(make_table, opened(options, drop), name))
        if not drop.happened:
            break
        assert rows_of(other, name) == ([ROW] if made == "done" else None), (step, made, reported)
        outcomes.add((made, *reported))
        other.drop_database(name, cascade=True, ignore_if_not_exists=True)
    else:
        pytest.fail("it takes more steps than are tried")
    assert {reported for _, reported in outcomes} == {"done", "DatabaseNotEmptyError"}


def test_a_drop_of_a_database_deletes_no_foreign_files(options: dict[str, str]) -> None:
    catalog = opened(options)
    catalog.create_database("d", properties={"team": "sales"})
    place = catalog.get_database("d").location
    for path in ("notes.txt", "t/bucket-0/data-1.parquet"):
        catalog.file_io.overwrite(f"{place}/{path}", b"mine")
        with pytest.raises(DatabaseNotEmptyError, match=f"'{path.partition('/')[0]}' in .*with cascade"):
            catalog.drop_database("d")
        assert catalog.file_io.read_bytes(f"{place}/{path}") == b"mine"
        assert catalog.get_database("d").properties == {"team": "sales"}
        catalog.file_io.delete(f"{place}/{path}")
    # A killed creation leaves such a file.
    catalog.file_io.overwrite(f"{place}/t/schema/.schema-0.77a2a2ee-6e4f-4ff8-8a3c-6d6ec4ef7b0b.tmp", b"half")
    catalog.drop_database("d")
    assert catalog.list_databases() == []
    assert not catalog.file_io.exists(place)


# In memory, concurrent creation of directories is not supported.
@pytest.mark.parametrize("options", ["disk", "store"], indirect=True)
def test_exactly_one_of_several_concurrent_creations_of_a_database_succeeds(options: dict[str, str]) -> None:
    barrier, reported = threading.Barrier(4), {}

    def make(number: int) -> None:
        catalog = opened(options)
        barrier.wait(timeout=at_most(60))
        reported[number] = tried(lambda: catalog.create_database("d", properties={"by": str(number)}))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    winners = [number for number, outcome in reported.items() if outcome == "done"]
    assert sorted(reported.values()) == ["DatabaseExistsError"] * 3 + ["done"]
    assert opened(options).get_database("d").properties == {"by": str(winners[0])}


def test_a_database_that_loses_its_last_property_still_exists(options: dict[str, str]) -> None:
    catalog = opened(options)
    catalog.create_database("d", properties={"team": "sales"})
    # The same state as after a concurrent drop, which has deleted the mark.
    if catalog.file_io.scheme == "s3":
        catalog.file_io.delete_quietly([f"{catalog.get_database('d').location}/.directory"])
    catalog.alter_database("d", remove_properties=["team"])
    assert catalog.get_database("d").properties == {}
    catalog.drop_database("d")
    assert not catalog.database_exists("d")


def test_a_drop_leaves_what_a_server_on_the_warehouse_keeps(tmp_path: Path) -> None:
    kept = tmp_path / ".dropped" / ("0" * 32) / "t" / "schema"
    kept.mkdir(parents=True)
    (kept / "schema-0").write_text("{}")
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    catalog.create_table("d.t", SCHEMA)
    catalog.drop_database("d", cascade=True)
    assert (kept / "schema-0").exists()
