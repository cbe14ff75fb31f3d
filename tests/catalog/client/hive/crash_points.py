"""Crash points of a process: before each of its file-system calls and each of its calls to the metastore.

A process that is killed before a call has received the reply of the call before it, so that these are the crash points
before and after each call. The server is a real one. Between crash points its database and the warehouse are restored.
Leases of the locks of killed processes are expired in the database, as five minutes without a heartbeat would do.
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
from interbed.catalog.client.recovery import RepairKind
from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import NAME, DyingFileIO, VisibleState, go_on, seen
from tests.support.dying_disk import SimulatedKill
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most

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
class ProcessCalls:
    """Calls of a process, and the index of the call before which it is killed."""

    dies_before: int | None = None
    calls: list[str] = field(default_factory=list)

    def step(self, call: str) -> None:
        """Record a call, or kill the process: no later call reaches the disk or the server."""
        if self.dies_before is not None and len(self.calls) >= self.dies_before:
            raise SimulatedKill(f"before {call}")
        self.calls.append(call)


class MortalFileIO(DyingFileIO):
    """File system of a process that is killed."""

    def __init__(self, inner: FileIO, life: ProcessCalls) -> None:
        super().__init__(inner)
        self._life = life

    def _count(self, name: str, path: object) -> None:
        self._life.step(f"{name} {path}")


class MortalPool:
    """Connections of a process that is killed."""

    def __init__(self, inner: Any, life: ProcessCalls) -> None:
        self._inner = inner
        self._life = life

    def change(self, call: Any) -> Any:
        self._life.step(f"call {call.__code__.co_names[0]}")
        return self._inner.change(call)

    read = change

    def close(self) -> None:
        self._inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorableMetastore:
    """Metastore with its database, and the warehouse of its clients."""

    uri: str
    database: Path
    lake: Path
    kept: Path

    @contextmanager
    def client(self, options: Mapping[str, str], life: ProcessCalls | None = None) -> Iterator[HiveCatalog]:
        """Open the catalog of a new process; the option `warehouse` is a directory below that of the server."""
        warehouse = f"file:{self.lake / options.get('warehouse', '')}"
        given = {"metastore": "hive", "uri": self.uri, "lock-check-max-sleep": "5 ms", "lock-acquire-timeout": "10 s"}
        with interbed.CatalogFactory.create({**given, **options, "warehouse": warehouse}) as catalog:
            assert isinstance(catalog, HiveCatalog)
            if life is not None:
                catalog._entries.file_io = cast(FileIO, MortalFileIO(catalog.file_io, life))
                catalog.client._pool = cast(Any, MortalPool(catalog.client._pool, life))
            yield catalog

    def keep(self, name: str) -> None:
        """Save the state of the database and the warehouse."""
        shutil.copytree(self.lake, self.kept / name)
        with closing(sqlite3.connect(self.database)) as live, closing(self._copy(name)) as copy:
            live.backup(copy)

    def restore(self, name: str) -> None:
        """Restore a saved state of the database and the warehouse."""
        shutil.rmtree(self.lake)
        shutil.copytree(self.kept / name, self.lake)
        with closing(sqlite3.connect(self.database, timeout=at_most(30))) as live, closing(self._copy(name)) as copy:
            copy.backup(live)

    def age_leases(self) -> None:
        """Expire the leases of all locks."""
        with closing(sqlite3.connect(self.database, timeout=at_most(30))) as live, live:
            live.execute("UPDATE locks SET heartbeat_at_ms = heartbeat_at_ms - ?", (LEASE_MILLIS,))

    def _copy(self, name: str) -> sqlite3.Connection:
        return sqlite3.connect(self.kept / f"{name}.db")


@contextmanager
def new_metastore(directory: Path) -> Iterator[RestorableMetastore]:
    """Run a server without a cache: the cache would be wrong when the database is restored."""
    database = directory / "metastore.db"
    with metastore_under_test(
        f"sqlite:///{database}", directory, "--cache-bytes", "0", "--reaper-seconds", "100000", "--undrop-seconds", "0"
    ) as running:
        (directory / "kept").mkdir()
        running.warehouse.mkdir(exist_ok=True)
        metastore = RestorableMetastore(
            uri=running.uri, database=database, lake=running.warehouse, kept=directory / "kept"
        )
        metastore.keep("empty")
        yield metastore


def new_table(catalog: HiveCatalog, name: str = NAME, **options: str) -> Table:
    """Create a table with a primary key; with `metastore.partitioned-table` each value is a partition."""
    partitioned = "metastore.partitioned-table" in options
    return catalog.create_table(
        name,
        SCHEMA,
        primary_keys=["id", "v"] if partitioned else ["id"],
        partition_keys=["v"] if partitioned else [],
        options={**OPTIONS, **options},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """State of a table as a new client reads it; `contents` is None if there is no table."""

    listed: bool
    contents: VisibleState | None
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    schema_id: int | None = None


def view(catalog: HiveCatalog, name: str) -> ClientView:
    """Read a table by a new client; check that a listed table can be opened and an unlisted one cannot."""
    identifier = parse_table_name(name)
    if not catalog.database_exists(identifier.database):
        return ClientView(listed=False, contents=None)
    listed = identifier.table in catalog.list_tables(identifier.database)
    contents = seen(cast(Any, catalog), name) if catalog.database_exists("d") or catalog.table_exists(name) else None
    if contents is None:
        return ClientView(listed=listed, contents=None)
    schema = catalog.get_table(name).schema
    options = tuple(sorted(schema.options.items()))
    return ClientView(
        listed=listed, contents=contents, columns=tuple(schema.names), options=options, schema_id=schema.id
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Operation that is killed, its preparation, and its properties."""

    act: Act
    prepare: Act = lambda catalog: None
    options: dict[str, str] = field(default_factory=dict)
    """Options of the catalog."""
    names: Sequence[str] = (NAME, "d.other")
    repeated_is_more: bool = False
    """Whether repeating the completed call changes something."""
    databases: Sequence[str] = ("d",)


@dataclass(slots=True)
class CrashCampaign:
    """Number of crash points, and the failures with the crash points that caused them."""

    points: int = 0
    failures: list[str] = field(default_factory=list)


def run_campaign(metastore: RestorableMetastore, operation: Operation, *, step: int) -> CrashCampaign:
    """Kill the operation before every step-th of its calls; each table must be as before or as after the operation."""
    campaign = CrashCampaign()
    metastore.restore("empty")
    with metastore.client(operation.options) as catalog:
        catalog.create_database("d")
        operation.prepare(catalog)
    for kept in metastore.kept.glob("before*"):
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    metastore.keep("before")
    before = _look(metastore, operation)
    counting = ProcessCalls()
    with metastore.client(operation.options, counting) as catalog:
        operation.act(catalog)
    after = _look(metastore, operation)
    for point in range(min(step // 2, len(counting.calls) - 1), len(counting.calls), step):
        metastore.restore("before")
        campaign.points += 1
        try:
            _check(metastore, operation, point, before, after)
        except (AssertionError, InterbedError, OSError) as error:
            where = f"killed before call {point} of {len(counting.calls)}, {counting.calls[point]}"
            campaign.failures.append(f"{where}: {type(error).__name__} {error}"[:2000])
    return campaign


def _look(metastore: RestorableMetastore, operation: Operation) -> tuple[ClientView, ...]:
    with metastore.client(operation.options) as catalog:
        return tuple(view(catalog, name) for name in operation.names)


def _check(metastore: RestorableMetastore, operation: Operation, point: int, before: Any, after: Any) -> None:
    with (
        metastore.client(operation.options, ProcessCalls(dies_before=point)) as catalog,
        contextlib.suppress(SimulatedKill),
    ):
        operation.act(catalog)
    found = _look(metastore, operation)
    assert found in (before, after), f"neither before nor after: {found}\n{before}\n{after}"
    metastore.age_leases()
    if not operation.repeated_is_more:
        refusal: CatalogError | InterbedError | None = None
        with metastore.client(operation.options) as catalog:
            try:
                operation.act(catalog)
            except InterbedError as error:
                # A completed operation may refuse to run twice, with an error.
                refusal = error
        found = _look(metastore, operation)
        assert found == after, f"repeated ({refusal}), and not what it is to be: {found}\n{after}"
    with metastore.client(operation.options) as catalog:
        for name in operation.names:
            _check_usable(catalog, name)
        assert not catalog.client.show_locks()
        report = catalog.repair_catalog()
        # The next change of the table completes an interrupted rename; until then everything works.
        needed = [
            a for a in report.actions if a.kind is not RepairKind.UNFINISHED and not a.detail.startswith("moved to ")
        ]
        assert not needed, f"a hand was needed: {needed}"
    left = [
        p for p in metastore.lake.rglob("*") if p.name.startswith((".dropp", ".journal", ".expir", ".new-", ".guard"))
    ]
    assert not left, f"left behind: {left}"


def _check_usable(catalog: HiveCatalog, name: str) -> None:
    database = parse_table_name(name).database
    catalog.create_database(database, ignore_if_exists=True)
    if not catalog.table_exists(name):
        new_table(catalog, name)
        fresh = seen(cast(Any, catalog), name)
        assert fresh == VisibleState(rows=(), snapshots={}, tags={}, branches={}, consumers={}), f"came back: {fresh}"
    go_on(catalog.get_table(name))
