"""A query over one snapshot of a table: pinned to it, with the columns, the filter and the limit that it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from interbed.storage.base.predicate.expr import Predicate, and_
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.readers import begin_loading
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import StartupMode
from interbed.storage.meta.schema.system_fields import readable_fields
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited, shown_query
from interbed.storage.scan.scan import TableScan, plan_rows
from interbed.storage.scan.split import Plan
from interbed.storage.scan.starting_point import PINNED, files_since, starting_snapshot

if TYPE_CHECKING:
    from interbed.storage.read.point_lookup import KeyedRead
    from interbed.storage.read.table_read import TableRead


@dataclass(frozen=True, repr=False)
class SnapshotQuery(ArrowRows):
    """A query of one snapshot of a table, by default that of the scan options or the newest. `columns` None are all.

    With `files_since` only rows of files created then or later, in milliseconds since the epoch.
    """

    store: FileStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    threads: int | None = None
    files_since: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return readable_fields(self.store.schema)

    def _pinned(self) -> Self:
        mode = self.store.options.startup_mode
        if self.snapshot_id is not None or mode in PINNED:
            return self
        if mode is StartupMode.INCREMENTAL:
            # Imported here: other queries need no ranges.
            from interbed.storage.scan.starting_point import with_fixed_range

            return replace(self, store=with_fixed_range(self.store))
        if mode in (StartupMode.LATEST_FULL, StartupMode.LATEST):
            return replace(self, snapshot_id=self.store.newest_id())
        snapshot = starting_snapshot(self.store)
        chosen = None if snapshot is None else snapshot.id
        return replace(self, snapshot_id=chosen, files_since=files_since(self.store))

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # The first rows must not depend on the columns and filters of an engine.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()


@dataclass(frozen=True, repr=False)
class Scan(SnapshotQuery):
    """The result of `Table.scan`: rows of one snapshot, projected, filtered and limited, which are read on demand.

    The query is planned once, on first use, so that all forms of its result show the same snapshot.
    """

    level_filter: Callable[[int], bool] | None = None

    def __repr__(self) -> str:
        parts = [self.store.location, *shown_query(self.columns, self.predicate, self.limit)]
        if self.snapshot_id is not None:
            parts.append(f"snapshot {self.snapshot_id}")
        return f"Scan({'; '.join(parts)})"

    @cached_property
    def plan(self) -> Plan:
        """The splits to read, and the figures of pruning."""
        store = self.store
        begin_loading(store.file_io, store.options.file_format, many=True, merging=store.schema.has_primary_key)
        if self.level_filter is None:
            known: KeyedRead | None = self.__dict__.get("_keyed")
            snapshot_id = self.snapshot_id if known is None else known.snapshot.id
            return plan_rows(
                self.store,
                predicate=self.predicate,
                limit=self.limit,
                snapshot_id=snapshot_id,
                files_since=self.files_since,
            )
        return TableScan(
            self.store,
            predicate=self.predicate,
            limit=self.limit,
            snapshot_id=self.snapshot_id,
            level_filter=self.level_filter,
            files_since=self.files_since,
        ).plan()

    @cached_property
    def _read(self) -> "TableRead":
        from interbed.storage.read.table_read import TableRead

        return TableRead(self.store, self.columns, self.predicate)

    @cached_property
    def _keyed(self) -> "KeyedRead | None":
        """The lookup of the rows, if the filter names a few keys."""
        if self.predicate is None or self.level_filter is not None or self.files_since is not None:
            return None
        from interbed.storage.read.point_lookup import keyed_read

        known: Plan | None = self.__dict__.get("plan")
        snapshot_id = self.snapshot_id if known is None else known.snapshot_id
        return keyed_read(self.store, self.columns, self.predicate, snapshot_id)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches, with memory bounded by some blocks of a few splits."""
        if self._keyed is not None:
            return limited(self._keyed.to_reader(), self.limit)
        reader = self._read.to_reader(self.plan.splits, threads=self.threads, limit=self.limit)
        return limited(reader, self.limit)

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    def count(self) -> int:
        """Return the number of rows; only the columns of the filter and the merge are read."""
        from interbed.storage.read.table_read import TableRead

        if self._keyed is not None:
            total = self._keyed.count()
        else:
            narrow = TableRead(self.store, (), self.predicate)
            total = sum(batch.num_rows for batch in narrow.to_reader(self.plan.splits, threads=self.threads))
        return total if self.limit is None else min(total, self.limit)
