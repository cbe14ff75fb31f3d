"""A process that dies before any of its file-system calls, and the requirements on its table for the next process.

`run_campaign` counts the calls of an operation, kills it before each of them (or some) on a copy of the same warehouse,
opens the table again and compares its visible state with that before and after the operation.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.io import local
from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES, FileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.dying_disk import SimulatedKill

LATER = 4_102_444_800
SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
NAME = "d.t"

Act = Callable[[FileSystemCatalog], Any]


class DyingFileIO:
    """A FileIO whose process dies before its n-th call; each file of a deleted directory is a call of its own."""

    def __init__(self, inner: FileIO, dies_before: int | None = None) -> None:
        self.inner = inner
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        self.exclusive_create = inner.exclusive_create
        self.calls: list[str] = []
        self._dies_before = dies_before

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        def counted(*args: Any, **more: Any) -> Any:
            self._count(name, args[0] if args else "")
            return call(*args, **more)

        return counted

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        if recursive:
            for entry in sorted(self.inner.list(path), key=lambda e: e.name):
                self.delete(entry.path, recursive=entry.is_directory)
        self._count("delete", path)
        return self.inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._count("delete_quietly", path)
            self.inner.delete_quietly([path])

    def _count(self, name: str, path: object) -> None:
        if self._dies_before is not None and len(self.calls) >= self._dies_before:
            raise SimulatedKill(f"before {name} {path}")
        self.calls.append(f"{name} {path}")


class StoreLikeFileIO(LocalFileIO):
    """A local disk with only the operations of an object store: a directory disappears with its last file."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__()
        self.scheme = "store"
        self.capabilities = OBJECT_STORE_CAPABILITIES
        # Databases exist without tables.
        self._kept = {str(warehouse), str(warehouse / "d.db")}

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        was_there = super().delete(path, recursive=recursive)
        above = os.path.dirname(path)
        while above not in self._kept and above.startswith(min(self._kept)):
            try:
                os.rmdir(above)
            except OSError:
                break
            above = os.path.dirname(above)
        return was_there

    def delete_quietly(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def rename(self, source: str, target: str) -> bool:
        assert not os.path.isdir(source), "an object store has no such step"
        return super().rename(source, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleState:
    """Everything that readers of a table see: the rows and the schema of the newest version, and the rows of each
    snapshot, tag and branch.
    """

    rows: Any
    snapshots: Any
    tags: Any
    branches: Any
    consumers: Any
    schema_id: int = 0


@dataclass(slots=True)
class CampaignResult:
    """The number of crash points, and the failures after them."""

    operation: str
    points: int = 0
    failures: list[str] = field(default_factory=list)


def opened(
    warehouse: Path, dies_before: int | None = None, *, in_store: bool = False
) -> tuple[FileSystemCatalog, DyingFileIO]:
    """Open the catalog as a new process, on a disk or in a simulated object store."""
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    assert isinstance(catalog, FileSystemCatalog)
    inner = cast(FileIO, StoreLikeFileIO(warehouse)) if in_store else catalog.file_io
    file_io = DyingFileIO(inner, dies_before)
    catalog._file_io = cast(FileIO, file_io)
    return catalog, file_io


def rows_of(table: Table) -> tuple[tuple[int, int], ...]:
    read = table.scan().to_arrow()
    ids: list[Any] = read["id"].to_pylist()
    values: list[Any] = read["v"].to_pylist()
    return tuple(sorted(zip(ids, values, strict=True)))


def seen(catalog: FileSystemCatalog, name: str = NAME) -> VisibleState | None:
    """Return what a new reader sees. Reads every listed version."""
    if not catalog.database_exists("d") or not catalog.table_exists(name):
        return None
    table = catalog.get_table(name)
    return VisibleState(
        rows=rows_of(table),
        snapshots=versions(table),
        tags={
            tag.name: (tag.snapshot.id, rows_of(table.copy({"scan.tag-name": tag.name})))
            for tag in table.versions.tags()
        },
        branches={b: (rows_of(table.branch(b)), versions(table.branch(b))) for b in table.versions.branches()},
        consumers=table.versions.consumers(),
        schema_id=table.schema.id,
    )


def versions(table: Table) -> dict[int, Any]:
    return {s.id: rows_of(table.copy({"scan.snapshot-id": str(s.id)})) for s in table.snapshots()}


def put(table: Table, *values: int) -> None:
    """Make one commit for each value: it updates row 1 and adds a row of the value's own."""
    for value in values:
        table.upsert(pa.table({"id": [1, 100 + value], "v": [value, value]}, schema=SCHEMA))


def run_campaign(
    template: Path,
    operation: str,
    act: Act,
    scratch: Path,
    *,
    step: int = 1,
    names: tuple[str, ...] = (NAME,),
    again: bool = True,
    in_store: bool = False,
) -> CampaignResult:
    """Kill `act` before each step-th of its calls; the visible tables must be those of before or of after."""
    campaign = CampaignResult(operation)

    def look(warehouse: Path) -> tuple[VisibleState | None, ...]:
        return tuple(seen(opened(warehouse, in_store=in_store)[0], name) for name in names)

    before = look(template)
    whole = scratch / "whole"
    shutil.copytree(template, whole)
    catalog, counting = opened(whole, in_store=in_store)
    act(catalog)
    after = look(whole)
    shutil.rmtree(whole)
    for point in range(0, len(counting.calls), step):
        warehouse = scratch / "killed"
        shutil.copytree(template, warehouse)
        where = f"{operation} killed before call {point} of {len(counting.calls)}: {counting.calls[point]}"
        campaign.points += 1
        try:
            _check(warehouse, act, point, before, after, names, look, again=again, in_store=in_store)
        except (AssertionError, InterbedError, OSError) as error:
            campaign.failures.append(f"{where}: {type(error).__name__} {error}"[:2000])
        shutil.rmtree(warehouse)
    return campaign


def _check(
    warehouse: Path,
    act: Act,
    point: int,
    before: Any,
    after: Any,
    names: tuple[str, ...],
    look: Callable[[Path], Any],
    *,
    again: bool,
    in_store: bool,
) -> None:
    def living(warehouse: Path) -> FileSystemCatalog:
        return opened(warehouse, in_store=in_store)[0]

    catalog, _ = opened(warehouse, point, in_store=in_store)
    with contextlib.suppress(SimulatedKill):
        act(catalog)
    found = look(warehouse)
    assert found in (before, after), f"neither before nor after: {found}\n{before}\n{after}"
    if again:
        refusal: InterbedError | None = None
        try:
            act(living(warehouse))
        except InterbedError as error:
            # An operation that was done may refuse to be repeated.
            refusal = error
        assert look(warehouse) == after, f"repeated ({refusal}), and not what it is to be: {look(warehouse)}"
    for name in names:
        if not living(warehouse).database_exists("d"):
            living(warehouse).create_database("d")
        if not living(warehouse).table_exists(name):
            new_table(living(warehouse), name)
            fresh = seen(living(warehouse), name)
            assert fresh == VisibleState(rows=(), snapshots={}, tags={}, branches={}, consumers={}), (
                f"came back: {fresh}"
            )
        go_on(living(warehouse).get_table(name))
    left = [p for p in warehouse.rglob("*") if p.name.startswith((".journal", ".expir", ".guard", ".new-", ".deleted"))]
    assert not left, f"left behind: {left}"


def new_table(catalog: FileSystemCatalog, name: str = NAME) -> Table:
    options = {"bucket": "1", "write-only": "true", "commit.max-retries": "2", "commit.max-retry-wait": "1 ms"}
    return catalog.create_table(name, SCHEMA, primary_keys=["id"], options={**options, "commit.min-retry-wait": "1 ms"})


def begin(catalog: FileSystemCatalog, prepare: Act) -> VisibleState:
    """Create the table in a new warehouse, prepare it, and return what is visible then."""
    catalog.create_database("d")
    new_table(catalog)
    prepare(catalog)
    found = seen(catalog)
    assert found is not None
    return found


def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip all syncs: data that a killed process has written persist."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(local, "_fdatasync", lambda descriptor: None)


def catalog_of(warehouse: Path) -> FileSystemCatalog:
    """The catalog of a process that is not killed, on a disk."""
    return opened(warehouse)[0]


def go_on(table: Table) -> None:
    """Check that the table accepts rows under the next id, expires, and keeps every file that a version needs."""
    before, newest = dict(rows_of(table)), table.latest_snapshot()
    put(table, 77)
    assert dict(rows_of(table)) == {**before, 1: 77, 177: 77}
    made = [s.id for s in table.snapshots()]
    expected = 1 if newest is None else newest.id + 1
    assert expected in made, f"{made} after {newest}"
    assert made == list(range(made[0], made[-1] + 1)), f"a gap: {made}"
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)
    assert dict(rows_of(table)) == {**before, 1: 77, 177: 77}
    for tag in table.versions.tags():
        rows_of(table.copy({"scan.tag-name": tag.name}))
    for branch in table.versions.branches():
        rows_of(table.branch(branch))
        versions(table.branch(branch))
