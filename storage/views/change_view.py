"""A table's changes as a table of their own: its audit log and its binlog, read as a batch or as a stream.

`catalog.get_table("db.t$audit_log")` and `"db.t$binlog"`. What the columns are is said at storage.read.change_read. A
batch shows the newest snapshot, where rows have the kinds that they were written with; with `incremental-between` it
shows what changed. Source: documentation page `concepts/system-tables`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate, restrict_to
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.read.change_read import AuditRead, audit_fields
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.views.builder.read import ViewReadBuilder
from interbed.storage.views.stream.stream_scan import StreamScan, streamed
from interbed.storage.views.stream.table_stream import StreamLimits, TableStream

AUDIT_LOG = "audit_log"
BINLOG = "binlog"


@dataclass(frozen=True)
class ChangeView:
    """The audit log of a table, or with `packed` its binlog. It is read only."""

    name: str
    store: FileStore
    packed: bool = False

    @staticmethod
    def of(table: str, store: FileStore, kind: str) -> "ChangeView":
        """The view of that kind, AUDIT_LOG or BINLOG, of the table with that name."""
        return ChangeView(f"{table}${kind}", store, kind == BINLOG)

    @property
    def fields(self) -> list[DataField]:
        """The columns."""
        return list(audit_fields(self.store, packed=self.packed))

    @property
    def field_names(self) -> list[str]:
        """The columns' names."""
        return [f.name for f in self.fields]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return fields_to_schema(self.fields)

    @property
    def primary_keys(self) -> list[str]:
        """There are none: a key has as many rows as changes."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """Those of the table."""
        return list(self.store.schema.partition_keys)

    def copy(self, dynamic_options: Mapping[str, object]) -> "ChangeView":
        """The same with options on top, as Table.copy has them: `{"incremental-between": "2,5"}`."""
        return ChangeView(self.name, at_snapshot(self.store.with_options(dynamic_options)), self.packed)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> "ChangeViewQuery":
        """A query, as Table.scan; errors are those of AuditRead, SnapshotNotFoundError and InvalidInputError."""
        store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
        predicate = None if filter is None else bound_filter(filter, audit_fields(store, packed=self.packed))
        read = AuditRead(store, columns, predicate, packed=self.packed)
        return ChangeViewQuery(store, read, predicate, limit, snapshot_id)

    def new_read_builder(self) -> ViewReadBuilder:
        """pypaimon's read builder."""
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
        """The rows as they come, as Table.stream."""
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
    """What `ChangeView.scan` returns. The plan is made once, on first use."""

    store: FileStore
    read: AuditRead
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None

    @cached_property
    def plan(self) -> Plan:
        """The splits to read."""
        predicate = pushed_down(self.predicate, self.store)
        return TableScan(self.store, predicate=predicate, snapshot_id=self.snapshot_id).plan()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches, in memory bounded by a block."""
        return limited(self.read.to_reader(self.plan.splits), self.limit)


def pushed_down(predicate: Predicate | None, store: FileStore) -> Predicate | None:
    """What the predicate says of the table's own columns."""
    return None if predicate is None else restrict_to(predicate, store.schema.names)
