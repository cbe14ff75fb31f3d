"""What changed in a table between snapshots: rows with their kinds, in the order in which they became visible.

With a changelog producer the changelog files contain it. Without one the new files do, which hold what was written: an
insertion may be an update, and nothing says what a row was before. Source: documentation page
`primary-key-table/changelog-producer`; the snapshots looked at are those of Paimon's follow-up scanners.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.read.arrow_rows import ArrowRows
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.scan.incremental import SnapshotRange, plan_between, snapshot_changed
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan
from interbed.storage.scan.starting_point import oldest_with_changes
from interbed.storage.scan.support import check_readable

__all__ = ["ROW_KIND", "ChangeQuery"]


@dataclass(frozen=True)
class ChangeQuery(ArrowRows):
    """What `Table.changes` returns: the changes of some snapshots, both ends included; read when asked for.

    `from_snapshot` None is the oldest snapshot that has its changes yet, `to_snapshot` None the newest when the query
    is planned. `mode` says where the changes are read from; a comparison (`diff`) is with the snapshot before
    `from_snapshot` and contains each key once.
    """

    store: FileStore
    from_snapshot: int | None = None
    to_snapshot: int | None = None
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    mode: IncrementalScanMode = IncrementalScanMode.AUTO

    def __post_init__(self) -> None:
        # Made once here, so that a wrong column or filter is refused at once.
        _ = self.read

    @property
    def read(self) -> ChangeRead:
        """The reader of the plan's splits."""
        keep = self.mode is IncrementalScanMode.DIFF
        return ChangeRead(self.store, self.columns, self.predicate, keep_deletes=keep)

    @cached_property
    def plan(self) -> Plan:
        """The splits to read, in the order of the snapshots; made once. Raises SnapshotNotFoundError."""
        check_readable(self.store)
        between = self._between
        if between is None:
            return Plan(snapshot_id=None, schema_id=self.store.schema.id, splits=())
        scan = TableScan(self.store, predicate=self.predicate)
        return plan_between(self.store, scan, between, self.mode)

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots whose changes are read, oldest first; raises SnapshotNotFoundError for one that has expired."""
        between = self._between
        return [] if between is None else [snapshot_changed(self.store, i, between) for i in between.snapshot_ids]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the columns asked for, and ROW_KIND."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of batches, in memory bounded by a block."""
        return self.read.to_reader(self.plan.splits)

    @cached_property
    def _between(self) -> SnapshotRange | None:
        manager = self.store.snapshots
        first = self._oldest() if self.from_snapshot is None else self.from_snapshot
        last = manager.latest_id() if self.to_snapshot is None else self.to_snapshot
        if first is None or last is None:
            return None
        # A range that ends right before it begins is an empty one, as loops over snapshots come to ask for.
        if self.from_snapshot is not None and self.to_snapshot is not None and last < first - 1:
            raise InvalidInputError(f"Changes from snapshot {first} to {last} end before they begin.")
        newest = manager.latest_id() or 0
        if first > newest + 1:
            raise SnapshotNotFoundError(
                f"There is no snapshot {first} at {self.store.location}: the newest is {newest}."
            )
        if last < first:
            return None
        return SnapshotRange(first=first - 1, last=last)

    def _oldest(self) -> int | None:
        oldest = self.store.snapshots.earliest_id()
        if oldest is None or self.mode in (IncrementalScanMode.DELTA, IncrementalScanMode.DIFF):
            return oldest
        return oldest_with_changes(self.store, oldest)
