"""A campaign that kills an operation before each step of the disk, and checks the table that the next process finds.

`run_campaign` counts the steps, kills the operation before each of them (or some) on a copy of the same warehouse,
opens the table again and checks it. It has the rows of before or those of after. The operation can be repeated. The
table accepts rows, has the right changelog, can be compacted and expired. No file that a version needs is removed as an
orphan, and fsck finds nothing in the end.
"""

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from tests.storage.table.crashes.kinds import LATER, NAME, Kind, batch
from tests.support.dying_disk import DyingDisk, SimulatedKill, opened

NEW = (1, 500, 77)
"""The row that is written after a process was killed."""

Rows = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Operation that is killed. `prepare` brings the table to its initial state."""

    act: Callable[[FileSystemCatalog, Table], object]
    prepare: Callable[[FileSystemCatalog, Table], object] = lambda catalog, table: None
    adds: bool = False
    """Whether it writes rows that count twice when they are written twice to a table that adds rows."""
    in_changelog: bool = True
    """Whether the changelog contains its changes of rows."""
    once: bool = False
    """Whether a repetition does nothing after it was done, in any kind of table."""
    damages: bool = False
    """Whether it begins with a table that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleState:
    """Everything that readers of a table see: the rows of the newest version, and of each snapshot, tag and branch."""

    columns: tuple[str, ...]
    rows: Rows
    snapshots: dict[int, Rows]
    tags: dict[str, Rows]
    branches: dict[str, Rows]
    consumers: dict[str, int]


@dataclass(slots=True)
class CampaignResult:
    """The number of crash points of an operation, and the failures after them."""

    points: int = 0
    failures: list[str] = field(default_factory=list)


def rows_of(table: Table) -> Rows:
    """Return the rows, sorted, or the name of the error for a table whose files are missing."""
    try:
        read = table.scan(["p", "id", "v"]).to_arrow()
    except InterbedError as error:
        return (type(error).__name__,)
    columns: list[list[Any]] = [read[name].to_pylist() for name in read.schema.names]
    return tuple(sorted(zip(*columns, strict=True)))


def seen(warehouse: Path, *, older: bool = True) -> VisibleState:
    """Return what a new reader sees. Reads every listed version, except snapshots without `older`."""
    table = opened(warehouse).get_table(NAME)
    snapshots = table.snapshots() if older else []
    return VisibleState(
        columns=tuple(table.field_names),
        rows=rows_of(table),
        snapshots={s.id: rows_of(table.copy({"scan.snapshot-id": str(s.id)})) for s in snapshots},
        tags={tag.name: rows_of(table.copy({"scan.tag-name": tag.name})) for tag in table.versions.tags()},
        branches={name: rows_of(table.branch(name)) for name in table.versions.branches()},
        consumers=table.versions.consumers(),
    )


def run_campaign(
    template: Path, kind: Kind, operation: Operation, scratch: Path, *, tries: int | None = None
) -> CampaignResult:
    """Kill the operation before each of its steps, or `tries` of them; `template` is the warehouse before it."""
    campaign = CampaignResult()
    whole = scratch / "whole"
    shutil.copytree(template, whole)
    # Opening a table may finish the work of another process, so the template itself is never opened.
    before = seen(whole)
    shutil.rmtree(whole)
    shutil.copytree(template, whole)
    counting = DyingDisk()
    catalog = opened(whole, counting)
    operation.act(catalog, catalog.get_table(NAME))
    after = seen(whole)
    catalog.get_table(NAME).compact(full=True)
    settled = rows_of(opened(whole).get_table(NAME))
    shutil.rmtree(whole)
    if not operation.damages:
        _check_readable(before)
    _check_readable(after, but_older=operation.damages)
    number = len(counting.steps)
    assert number, "nothing was done that could be killed"
    for point in range(number) if tries is None else [number * (2 * n + 1) // (2 * tries) for n in range(tries)]:
        warehouse = scratch / "killed"
        shutil.copytree(template, warehouse)
        campaign.points += 1
        try:
            _CrashTrial(warehouse, kind, operation, before, after, settled).run(point)
        except (AssertionError, InterbedError, OSError) as error:
            where = f"killed before step {point} of {number}, {counting.steps[point]}"
            campaign.failures.append(f"{where}: {type(error).__name__} {error}"[:2000])
        shutil.rmtree(warehouse)
    return campaign


@dataclass(slots=True)
class _CrashTrial:
    """One process that dies, and the processes after it."""

    warehouse: Path
    kind: Kind
    operation: Operation
    before: VisibleState
    after: VisibleState
    settled: Rows
    """The rows after a compaction: in some tables, new rows are visible only from then on."""

    def run(self, point: int) -> None:
        """Kill the operation before that step. Raises AssertionError or InterbedError when the table is wrong."""
        with contextlib.suppress(SimulatedKill):
            catalog = opened(self.warehouse, DyingDisk(point))
            self.operation.act(catalog, catalog.get_table(NAME))
        found = seen(self.warehouse)
        self._check_seen(found)
        found = self._repeat(found)
        self._go_on(found)

    @property
    def _table(self) -> Table:
        return opened(self.warehouse).get_table(NAME)

    def _check_seen(self, found: VisibleState) -> None:
        before, after = self.before, self.after
        assert found.columns in (before.columns, after.columns), found.columns
        assert found.rows in (before.rows, after.rows), f"rows of neither before nor after: {found.rows}"
        assert found.rows == found.snapshots[max(found.snapshots)], "not the rows of the newest snapshot"
        ids = sorted(found.snapshots)
        assert ids == list(range(ids[0], ids[-1] + 1)), f"a gap: {ids}"
        _between("snapshots", found.snapshots, before.snapshots, after.snapshots)
        _between("tags", found.tags, before.tags, after.tags)
        _between("branches", found.branches, before.branches, after.branches)
        _between("consumers", found.consumers, before.consumers, after.consumers)

    def _repeat(self, found: VisibleState) -> VisibleState:
        """Repeat the operation, unless its rows would count twice, and return what is visible then."""
        adds = self.operation.adds and self.kind.repeats_add and not self.operation.once
        if adds and set(found.snapshots) - set(self.before.snapshots):
            return found
        catalog = opened(self.warehouse)
        refusal: InterbedError | None = None
        try:
            self.operation.act(catalog, catalog.get_table(NAME))
        except InterbedError as error:
            # An operation that was done may refuse to be repeated.
            refusal = error
        again, after = seen(self.warehouse, older=False), self.after
        if again.rows != after.rows and self.operation.once and self.settled != self.before.rows:
            # Committed rows are not committed again; they become visible by the compaction that the dead process did
            # not reach.
            self._table.compact(full=True)
            again = seen(self.warehouse, older=False)
        assert again.rows in (after.rows, self.settled), f"repeated ({refusal}), and not what it is to be: {again.rows}"
        for what in ("columns", "tags", "branches", "consumers"):
            value, wanted = getattr(again, what), getattr(after, what)
            assert value == wanted, f"repeated ({refusal}), and not the {what} of after: {value}, {wanted}"
        _check_readable(again, but_older=self.operation.damages)
        return again

    def _go_on(self, found: VisibleState) -> None:
        """Check that the table accepts rows under the next id, has the right changelog, expires, and keeps the files
        that it needs.
        """
        newest = max(self._table.store.snapshots.ids())
        self._table.append(batch(NEW))
        wanted = [tuple(sorted((*rows, NEW))) for rows in (found.rows, self.after.rows, self.settled)]
        table = self._table
        made = [s.id for s in table.snapshots()]
        assert made == list(range(made[0], made[-1] + 1)), f"a gap: {made}"
        assert made[-1] > newest, f"{made} after {newest}"
        if self.kind.options["bucket"] == "-2":
            # New rows wait behind those that wait already.
            table.compact(full=True)
        # Rows that were committed without their compaction are visible now at the latest.
        assert rows_of(table) in wanted, f"a row was written, and then there were {rows_of(table)}"
        now = rows_of(table)
        table.compact(full=True)
        assert rows_of(self._table) == now, f"compacted, and then there were {rows_of(self._table)}"
        self._check_changes(now)
        self._expire(now)

    def _check_changes(self, now: Rows) -> None:
        """Check that replaying the whole changelog results in the rows of the table."""
        table = self._table
        if not (self.kind.has_changelog and self.operation.in_changelog and min(table.store.snapshots.ids()) == 1):
            return
        replayed: dict[int, Any] = {}
        changes = table.changes(columns=["p", "id", "v"]).to_arrow().to_pydict()
        for p, key, v, kind in zip(changes["p"], changes["id"], changes["v"], changes["_row_kind"], strict=True):
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                replayed[key] = (p, key, v)
            else:
                replayed.pop(key, None)
        assert tuple(sorted(replayed.values())) == now, f"the changelog results in {replayed}"

    def _expire(self, now: Rows) -> None:
        table = self._table
        kept = seen(self.warehouse, older=False)
        expired = table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
        assert not expired.unjudged, f"unjudged: {expired.unjudged}"
        removed = remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)
        assert not removed.unjudged, f"unjudged: {removed.unjudged}"
        left = seen(self.warehouse)
        assert (left.rows, left.tags, left.branches) == (now, kept.tags, kept.branches), f"expired: {left}"
        found = self._table.maintenance.fsck().findings
        assert not found or self.operation.damages, f"fsck: {found}"
        hidden = [p.name for p in self.warehouse.rglob(".*") if not p.name.endswith(".lock")]
        assert not [n for n in hidden if not n.startswith(".commit")], f"left behind: {hidden}"


def _between(what: str, found: dict[Any, Any], before: dict[Any, Any], after: dict[Any, Any]) -> None:
    lost = (set(before) & set(after)) - set(found)
    assert not lost, f"lost {what}: {lost}"
    strange = set(found) - set(before) - set(after)
    assert not strange, f"{what} that there were neither before nor after: {strange}"
    for name, value in found.items():
        wanted = [side[name] for side in (before, after) if name in side]
        assert value in wanted, f"{what} {name}: {value}, not {wanted}"


def _check_readable(found: VisibleState, *, but_older: bool = False) -> None:
    older: dict[Any, Any] = {} if but_older else {**found.snapshots, **found.tags, **found.branches}
    versions = {"newest": found.rows, **older}
    unreadable = {name: rows for name, rows in versions.items() if rows and isinstance(rows[0], str)}
    assert not unreadable, f"unreadable: {unreadable}"
