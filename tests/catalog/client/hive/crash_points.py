"""A process that dies before any of its file-system calls and any of its calls to the metastore.

What died before a call has seen the reply of the one before it, so that these are the crash points before and after
each call. The server is a real one; between crash points its database and the warehouse are put back to what they were.
Leases of locks that the dead process held are aged in the database, as five minutes of silence would.
"""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

import interbed
from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.identifier import parse_table_name
from interbed.catalog.client.repair_report import RepairKind
from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import NAME, DyingFileIO, VisibleState, go_on, seen
from tests.support.dying_disk import Killed
from tests.support.servers.metastore import metastore_under_test

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64(), nullable=False)))
LEASE_MILLIS = 301_000
OPTIONS = {
    "bucket": "1",
    "write-only": "true",
    "commit.max-retries": "2",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "1 ms",
}

Act = Callable[[HiveCatalog], Any]


@dataclass(slots=True)
class Life:
    """The calls that a process has made, and before which one it dies."""

    dies_before: int | None = None
    calls: list[str] = field(default_factory=list)

    def step(self, call: str) -> None:
        """One more call, or the end: nothing that runs later reaches the disk or the server."""
        if self.dies_before is not None and len(self.calls) >= self.dies_before:
            raise Killed(f"before {call}")
        self.calls.append(call)


class MortalFileIO(DyingFileIO):
    """The file system of a process that dies."""

    def __init__(self, inner: FileIO, life: Life) -> None:
        super().__init__(inner)
        self._life = life

    def _count(self, name: str, path: object) -> None:
        self._life.step(f"{name} {path}")


class MortalPool:
    """The connections of a process that dies."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner = inner
        self._life = life

    def change(self, call: Any) -> Any:
        """See ConnectionPool."""
        self._life.step(f"call {call.__code__.co_names[0]}")
        return self._inner.change(call)

    read = change

    def close(self) -> None:
        """See ConnectionPool."""
        self._inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A metastore with its database, and the warehouse that its clients have."""

    uri: str
    database: Path
    lake: Path
    kept: Path

    @contextmanager
    def client(self, options: Mapping[str, str], life: Life | None = None) -> Iterator[HiveCatalog]:
        """The catalog of a new process; the option `warehouse` is a directory below that of the server."""
        warehouse = f"file:{self.lake / options.get('warehouse', '')}"
        given = {"metastore": "hive", "uri": self.uri, "lock-check-max-sleep": "5 ms", "lock-acquire-timeout": "10 s"}
        with interbed.CatalogFactory.create({**given, **options, "warehouse": warehouse}) as catalog:
            assert isinstance(catalog, HiveCatalog)
            if life is not None:
                catalog._entries.file_io = cast(FileIO, MortalFileIO(catalog.file_io, life))
                catalog.client._pool = cast(Any, MortalPool(catalog.client._pool, life))
            yield catalog

    def keep(self, name: str) -> None:
        """Remember the database and the warehouse as they are now."""
        shutil.copytree(self.lake, self.kept / name)
        with closing(sqlite3.connect(self.database)) as live, closing(self._copy(name)) as copy:
            live.backup(copy)

    def put_back(self, name: str) -> None:
        """Make database and warehouse what they were."""
        shutil.rmtree(self.lake)
        shutil.copytree(self.kept / name, self.lake)
        with closing(sqlite3.connect(self.database, timeout=30)) as live, closing(self._copy(name)) as copy:
            copy.backup(live)

    def age_leases(self) -> None:
        """Let the leases of all locks run out."""
        with closing(sqlite3.connect(self.database, timeout=30)) as live, live:
            live.execute("UPDATE locks SET heartbeat_at_ms = heartbeat_at_ms - ?", (LEASE_MILLIS,))

    def _copy(self, name: str) -> sqlite3.Connection:
        return sqlite3.connect(self.kept / f"{name}.db")


@contextmanager
def new_world(directory: Path) -> Iterator[World]:
    """A server of its own; its cache is off, because its database goes back in time."""
    database = directory / "metastore.db"
    with metastore_under_test(
        f"sqlite:///{database}", directory, "--cache-bytes", "0", "--reaper-seconds", "100000"
    ) as running:
        (directory / "kept").mkdir()
        running.warehouse.mkdir(exist_ok=True)
        world = World(uri=running.uri, database=database, lake=running.warehouse, kept=directory / "kept")
        world.keep("empty")
        yield world


def new_table(catalog: HiveCatalog, name: str = NAME, **options: str) -> Table:
    """A table of a primary key; with `metastore.partitioned-table` each value is a partition."""
    partitioned = "metastore.partitioned-table" in options
    return catalog.create_table(
        name,
        SCHEMA,
        primary_keys=["id", "v"] if partitioned else ["id"],
        partition_keys=["v"] if partitioned else [],
        options={**OPTIONS, **options},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a fresh client sees of a table; `contents` is None where there is none."""

    listed: bool
    contents: VisibleState | None
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    schema_id: int | None = None


def view(catalog: HiveCatalog, name: str) -> View:
    """What a fresh client sees; what is listed can be opened, and the other way round."""
    identifier = parse_table_name(name)
    if not catalog.database_exists(identifier.database):
        return View(listed=False, contents=None)
    listed = identifier.table in catalog.list_tables(identifier.database)
    contents = seen(cast(Any, catalog), name) if catalog.database_exists("d") or catalog.table_exists(name) else None
    if contents is None:
        return View(listed=listed, contents=None)
    schema = catalog.get_table(name).schema
    options = tuple(sorted(schema.options.items()))
    return View(listed=listed, contents=contents, columns=tuple(schema.names), options=options, schema_id=schema.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is killed, what comes before it, and what is true of it."""

    act: Act
    prepare: Act = lambda catalog: None
    options: dict[str, str] = field(default_factory=dict)
    """Options of the catalog."""
    names: Sequence[str] = (NAME, "d.other")
    repeated_is_more: bool = False
    """Whether the call, done again after it was carried out, changes something."""
    databases: Sequence[str] = ("d",)


@dataclass(slots=True)
class Campaign:
    """How many crash points there were, and what was wrong after which."""

    points: int = 0
    failures: list[str] = field(default_factory=list)


def run_campaign(world: World, operation: Operation, *, step: int) -> Campaign:
    """Kill the operation before each step-th of its calls; the tables must be those of before or of after."""
    campaign = Campaign()
    world.put_back("empty")
    with world.client(operation.options) as catalog:
        catalog.create_database("d")
        operation.prepare(catalog)
    for kept in world.kept.glob("before*"):
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    world.keep("before")
    before = _look(world, operation)
    counting = Life()
    with world.client(operation.options, counting) as catalog:
        operation.act(catalog)
    after = _look(world, operation)
    for point in range(min(step // 2, len(counting.calls) - 1), len(counting.calls), step):
        world.put_back("before")
        campaign.points += 1
        try:
            _check(world, operation, point, before, after)
        except (AssertionError, InterbedError, OSError) as error:
            where = f"killed before call {point} of {len(counting.calls)}, {counting.calls[point]}"
            campaign.failures.append(f"{where}: {type(error).__name__} {error}"[:2000])
    return campaign


def _look(world: World, operation: Operation) -> tuple[View, ...]:
    with world.client(operation.options) as catalog:
        return tuple(view(catalog, name) for name in operation.names)


def _check(world: World, operation: Operation, point: int, before: Any, after: Any) -> None:
    with world.client(operation.options, Life(dies_before=point)) as catalog, contextlib.suppress(Killed):
        operation.act(catalog)
    found = _look(world, operation)
    assert found in (before, after), f"neither before nor after: {found}\n{before}\n{after}"
    world.age_leases()
    if not operation.repeated_is_more:
        refusal: CatalogError | InterbedError | None = None
        with world.client(operation.options) as catalog:
            try:
                operation.act(catalog)
            except InterbedError as error:
                # What is done can't be done again, which is said.
                refusal = error
        found = _look(world, operation)
        assert found == after, f"repeated ({refusal}), and not what it is to be: {found}\n{after}"
    with world.client(operation.options) as catalog:
        for name in operation.names:
            _go_on(catalog, name)
        assert not catalog.client.show_locks()
        report = catalog.repair_catalog()
        # A rename that did not end is ended by the next change of the table; all works until then.
        needed = [
            a for a in report.actions if a.kind is not RepairKind.UNFINISHED and not a.detail.startswith("moved to ")
        ]
        assert not needed, f"a hand was needed: {needed}"
    left = [p for p in world.lake.rglob("*") if p.name.startswith((".dropp", ".journal", ".expir", ".new-", ".guard"))]
    assert not left, f"left behind: {left}"


def _go_on(catalog: HiveCatalog, name: str) -> None:
    database = parse_table_name(name).database
    catalog.create_database(database, ignore_if_exists=True)
    if not catalog.table_exists(name):
        new_table(catalog, name)
        fresh = seen(cast(Any, catalog), name)
        assert fresh == VisibleState(rows=(), snapshots={}, tags={}, branches={}, consumers={}), f"came back: {fresh}"
    go_on(catalog.get_table(name))
