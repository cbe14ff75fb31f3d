"""A database of a file-system catalog that is dropped, or made, while others make tables and databases there."""

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

SCHEMA = pa.schema([("id", pa.int64())])
ROW = {"id": 1}
STEPS_MAX = 200

Action = Callable[[], object]


class Meanwhile:
    """Does something before the step of that number, once."""

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
    """A disk on which others do something before a step that changes it."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def _step(self, what: str, path: str) -> None:
        self._meanwhile()


class SharedStore(WrappedFileIO):
    """A store in which others do something before a request."""

    def __init__(self, inner: FileIO, meanwhile: Meanwhile) -> None:
        super().__init__(inner)
        for name in ("read_bytes", "create_exclusive", "overwrite", "exists", "list", "make_directories", "delete"):
            setattr(self, name, self._after(meanwhile, getattr(self, name)))

    @staticmethod
    def _after(meanwhile: Meanwhile, method: Callable[..., Any]) -> Callable[..., Any]:
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


def opened(options: dict[str, str], meanwhile: Meanwhile | None = None) -> FileSystemCatalog:
    """The catalog of a new process, with what others do while it works."""
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
    """`done`, or the name of the catalog's error; any other one is raised."""
    try:
        action()
    except CatalogError as error:
        return type(error).__name__
    return "done"


def note(told: list[str], action: Action) -> None:
    """Try it, and note what was told."""
    told.append(tried(action))


def make_table(catalog: FileSystemCatalog, database: str) -> None:
    catalog.create_table(f"{database}.t", SCHEMA).append([ROW])


def rows_of(catalog: FileSystemCatalog, database: str) -> list[Any] | None:
    try:
        return catalog.get_table(f"{database}.t").scan().to_arrow().to_pylist()
    except (TableNotFoundError, DatabaseNotFoundError):
        return None


@pytest.mark.sample(2)
def test_a_table_that_is_made_while_its_database_is_dropped_is_refused_or_stays(options: dict[str, str]) -> None:
    other, outcomes = opened(options), set()
    for step in range(STEPS_MAX):
        name = f"d{step}"
        other.create_database(name, properties={"team": "sales"})
        told: list[str] = []
        make = Meanwhile(step, partial(note, told, partial(make_table, other, name)))
        dropped = tried(partial(opened(options, make).drop_database, name))
        if not make.happened:
            break
        assert rows_of(other, name) == ([ROW] if told == ["done"] else None), (step, dropped, told)
        if dropped != "done":
            assert other.get_database(name).properties == {"team": "sales"}, step
        outcomes.add((dropped, *told))
        other.drop_database(name, cascade=True, ignore_if_not_exists=True)
    else:
        pytest.fail("it takes more steps than are tried")
    assert ("DatabaseNotEmptyError", "done") in outcomes


@pytest.mark.sample(2)
def test_a_database_that_is_dropped_while_a_table_is_made_is_there_again_or_the_table_refused(
    options: dict[str, str],
) -> None:
    other, outcomes = opened(options), set()
    for step in range(STEPS_MAX):
        name = f"d{step}"
        other.create_database(name, properties={"team": "sales"})
        told: list[str] = []
        drop = Meanwhile(step, partial(note, told, partial(other.drop_database, name)))
        made = tried(partial(make_table, opened(options, drop), name))
        if not drop.happened:
            break
        assert rows_of(other, name) == ([ROW] if made == "done" else None), (step, made, told)
        outcomes.add((made, *told))
        other.drop_database(name, cascade=True, ignore_if_not_exists=True)
    else:
        pytest.fail("it takes more steps than are tried")
    assert {told for _, told in outcomes} == {"done", "DatabaseNotEmptyError"}


def test_nothing_is_deleted_that_is_not_known(options: dict[str, str]) -> None:
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
    # What a killed creation leaves.
    catalog.file_io.overwrite(f"{place}/t/schema/.schema-0.77a2a2ee-6e4f-4ff8-8a3c-6d6ec4ef7b0b.tmp", b"half")
    catalog.drop_database("d")
    assert catalog.list_databases() == []
    assert not catalog.file_io.exists(place)


# In memory the creation of directories is not safe between threads.
@pytest.mark.parametrize("options", ["disk", "store"], indirect=True)
def test_of_several_who_make_a_database_at_once_one_is_told_so(options: dict[str, str]) -> None:
    barrier, told = threading.Barrier(4), {}

    def make(number: int) -> None:
        catalog = opened(options)
        barrier.wait(timeout=60)
        told[number] = tried(lambda: catalog.create_database("d", properties={"by": str(number)}))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    winners = [number for number, outcome in told.items() if outcome == "done"]
    assert sorted(told.values()) == ["DatabaseExistsError"] * 3 + ["done"]
    assert opened(options).get_database("d").properties == {"by": str(winners[0])}


def test_a_database_that_loses_its_last_property_stays(options: dict[str, str]) -> None:
    catalog = opened(options)
    catalog.create_database("d", properties={"team": "sales"})
    # As after a drop that took its mark away while it was made.
    if catalog.file_io.scheme == "s3":
        catalog.file_io.delete_quietly([f"{catalog.get_database('d').location}/.directory"])
    catalog.alter_database("d", remove_properties=["team"])
    assert catalog.get_database("d").properties == {}
    catalog.drop_database("d")
    assert not catalog.database_exists("d")
