"""The changes of a table: between snapshots, and as a table of their own (audit log, binlog).

`ChangeQuery` reads changes with their row kinds, in the order in which they became visible. With a changelog producer
the changelog files contain them. Without one the new files do, which hold what was written: an insertion may be an
update, and no file has the row before. Source: documentation page `primary-key-table/changelog-producer`; the snapshots
read are those of Paimon's follow-up scanners.

`ChangeView` is `catalog.get_table("db.t$audit_log")` or `"db.t$binlog"`, read as a batch or as a stream. Its columns
are described in storage.read.change_read. A batch shows the newest snapshot, where rows have the kinds that they were
written with; with `incremental-between` it shows what changed. Source: documentation page `concepts/system-tables`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate, restrict_to
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.read.change_read import ROW_KIND, AuditRead, ChangeRead, audit_fields
from interbed.storage.scan.change_plan import plan_between, snapshot_changed
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan
from interbed.storage.scan.starting_point import SnapshotRange, at_snapshot, oldest_with_changes
from interbed.storage.scan.support import check_readable
from interbed.storage.views.builder.read import ViewReadBuilder
from interbed.storage.views.stream.stream_scan import StreamLimits, StreamScan, TableStream, streamed

__all__ = ["AUDIT_LOG", "BINLOG", "ROW_KIND", "ChangeQuery", "ChangeView"]

AUDIT_LOG = "audit_log"
BINLOG = "binlog"


@dataclass(frozen=True)
class ChangeQuery(ArrowRows):
    """The result of `Table.changes`: the changes of a range of snapshots, both ends included. It is read on demand.

    `from_snapshot` None is the oldest snapshot whose changes are still available, `to_snapshot` None the newest one at
    the time of planning. `mode` selects the source of the changes; a comparison (`diff`) is with the snapshot before
    `from_snapshot` and contains each key once.
    """

    store: FileStore
    from_snapshot: int | None = None
    to_snapshot: int | None = None
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    mode: IncrementalScanMode = IncrementalScanMode.AUTO

    def __post_init__(self) -> None:
        # Created here, so that a wrong column or filter is refused at once.
        _ = self.read

    @property
    def read(self) -> ChangeRead:
        """The reader of the splits of the plan."""
        keep = self.mode is IncrementalScanMode.DIFF
        return ChangeRead(self.store, self.columns, self.predicate, keep_deletes=keep)

    @cached_property
    def plan(self) -> Plan:
        """The splits to read, in the order of the snapshots, planned once. Raises SnapshotNotFoundError."""
        check_readable(self.store)
        between = self._between
        if between is None:
            return Plan(snapshot_id=None, schema_id=self.store.schema.id, splits=())
        scan = TableScan(self.store, predicate=self.predicate)
        return plan_between(self.store, scan, between, self.mode)

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots whose changes are read, oldest first; raises SnapshotNotFoundError for an expired one."""
        between = self._between
        return [] if between is None else [snapshot_changed(self.store, i, between) for i in between.snapshot_ids]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the requested columns, and ROW_KIND."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the changes as a stream of batches, with memory bounded by a block."""
        return self.read.to_reader(self.plan.splits)

    @cached_property
    def _between(self) -> SnapshotRange | None:
        newest = self.store.newest_id()
        first = self._oldest() if self.from_snapshot is None else self.from_snapshot
        last = newest if self.to_snapshot is None else self.to_snapshot
        if first is None or last is None:
            return None
        # A range that ends right before it begins is empty: loops over snapshots request such ranges.
        if self.from_snapshot is not None and self.to_snapshot is not None and last < first - 1:
            raise InvalidInputError(f"Changes from snapshot {first} to {last} end before they begin.")
        if first > (newest or 0) + 1:
            raise SnapshotNotFoundError(
                f"There is no snapshot {first} at {self.store.location}: the newest is {newest or 0}."
            )
        if last < first:
            return None
        if first < FIRST_SNAPSHOT_ID:
            raise SnapshotNotFoundError(
                f"There is no snapshot {first} at {self.store.location}: their numbers begin with {FIRST_SNAPSHOT_ID}."
            )
        return SnapshotRange(first=first - 1, last=last)

    def _oldest(self) -> int | None:
        oldest = self.store.snapshots.earliest_id()
        if oldest is None or self.mode is IncrementalScanMode.DIFF:
            return oldest
        if self.mode is IncrementalScanMode.DELTA and not self.store.snapshots.snapshot(oldest).begins_history:
            return oldest
        return oldest_with_changes(self.store, oldest)


@dataclass(frozen=True)
class ChangeView:
    """The audit log of a table, or with `packed` its binlog. It is read-only."""

    name: str
    store: FileStore
    packed: bool = False

    @staticmethod
    def of(table: str, store: FileStore, kind: str) -> "ChangeView":
        """Return the view of a kind, AUDIT_LOG or BINLOG, of the table with that name."""
        return ChangeView(f"{table}${kind}", store, kind == BINLOG)

    @property
    def fields(self) -> list[DataField]:
        """The columns of the view."""
        return list(audit_fields(self.store, packed=self.packed))

    @property
    def field_names(self) -> list[str]:
        """The names of the columns."""
        return [f.name for f in self.fields]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return fields_to_schema(self.fields)

    @property
    def primary_keys(self) -> list[str]:
        """No columns, because a key has a row for each change."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """The partition keys of the table."""
        return list(self.store.schema.partition_keys)

    def copy(self, dynamic_options: Mapping[str, object]) -> "ChangeView":
        """Return the view with more options, as Table.copy does: `{"incremental-between": "2,5"}`."""
        return ChangeView(self.name, at_snapshot(self.store.with_options(dynamic_options)), self.packed)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> "ChangeViewQuery":
        """Return a query, as Table.scan does; raises what AuditRead raises and SnapshotNotFoundError."""
        store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
        predicate = None if filter is None else bound_filter(filter, audit_fields(store, packed=self.packed))
        read = AuditRead(store, columns, predicate, packed=self.packed)
        return ChangeViewQuery(store, read, predicate, limit, snapshot_id)

    def new_read_builder(self) -> ViewReadBuilder:
        """Return pypaimon's read builder."""
        return ViewReadBuilder(self.store, packed=self.packed)

    def stream(
        self,
        from_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002
        poll_seconds: float | None = None,
        idle_seconds: float | None = None,
    ) -> TableStream:
        """Return a stream of the rows, as Table.stream does."""
        store = streamed(self.store)
        predicate = None if filter is None else bound_filter(filter, audit_fields(store, packed=self.packed))
        scan = StreamScan(store, predicate=pushed_down(predicate, store))
        scan.restore(from_snapshot)
        return TableStream(
            scan=scan,
            read=AuditRead(store, columns, predicate, packed=self.packed),
            limits=StreamLimits(),
            poll_seconds=self.store.options.discovery_interval_millis / 1000 if poll_seconds is None else poll_seconds,
            idle_seconds=idle_seconds,
        )


@dataclass(frozen=True)
class ChangeViewQuery(ArrowRows):
    """The result of `ChangeView.scan`. It is planned once, on first use."""

    store: FileStore
    read: AuditRead
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None

    @cached_property
    def plan(self) -> Plan:
        """The splits of the query."""
        predicate = pushed_down(self.predicate, self.store)
        return TableScan(self.store, predicate=predicate, snapshot_id=self.snapshot_id).plan()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches, with memory bounded by a block."""
        return limited(self.read.to_reader(self.plan.splits), self.limit)


def pushed_down(predicate: Predicate | None, store: FileStore) -> Predicate | None:
    """Return the part of the predicate on the table's own columns."""
    return None if predicate is None else restrict_to(predicate, store.schema.names)
