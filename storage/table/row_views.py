"""Views of a table's rows that are read only: `t$ro`, its top level without merging, and `t$row_tracking`, with row
ids.

`t$ro`: the rows of a primary-key table in its top level, which full compactions write, without merging.

They are as old as the last full compaction of their bucket, and reading them costs as much as reading an append table.
Source: paimon-core's ReadOptimizedTable.

`t$row_tracking`: the rows of a table with `row-tracking.enabled`, with the columns `_ROW_ID` and `_SEQUENCE_NUMBER`.

Source: paimon-core's RowTrackingTable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.schema.system_fields import readable_by_name, readable_fields
from interbed.storage.read.query import Scan
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.table.table import Table
from interbed.storage.table.table_maintenance import TableMaintenance

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.storage.views.builder.read import ReadBuilder

READ_OPTIMIZED = "ro"


def _refuse(self: Table | TableMaintenance, *_: object, **__: object) -> NoReturn:
    raise NotSupportedError(f"'{self.name}' is read only; write to the table itself.")


class ReadOptimizedTable(Table):
    """View of a table that reads only fully compacted files. It is read only."""

    @staticmethod
    def of(table: Table) -> "ReadOptimizedTable":
        """Return the read-optimized view of a table."""
        return ReadOptimizedTable(f"{table.name}${READ_OPTIMIZED}", table.store)

    @property
    def level_filter(self) -> Callable[[int], bool] | None:
        """The filter of levels that are read; None for all, of a table without a primary key."""
        if not self.schema.has_primary_key:
            return None
        top = self.options.num_levels - 1
        return lambda level: level == top

    def copy(self, dynamic_options: Mapping[str, object]) -> "ReadOptimizedTable":
        return ReadOptimizedTable(self.name, at_snapshot(self.store.with_options(dynamic_options)))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> Scan:
        query = super().scan(columns, filter, limit, snapshot_id, threads=threads)
        return replace(query, level_filter=self.level_filter)

    def new_scan(
        self, *, predicate: Predicate | None = None, limit: int | None = None, snapshot_id: int | None = None
    ) -> TableScan:
        return TableScan(
            self.store, predicate=predicate, limit=limit, snapshot_id=snapshot_id, level_filter=self.level_filter
        )

    @property
    def maintenance(self) -> TableMaintenance:
        return ReadOnlyMaintenance(self)

    upsert = append = write_changes = new_write = new_commit = truncate = compact = delete = update = _refuse
    overwrite = delete_partitions = update_schema = merge_schema = _refuse


class ReadOnlyMaintenance(TableMaintenance):
    """The maintenance of a read-optimized table: operations that write files are refused."""

    rescale = analyze = rewrite_file_index = _refuse


ROW_TRACKING = "row_tracking"


class RowTrackingTable(Table):
    """View of a table with the ids and the sequence numbers of its rows. It is read only."""

    @staticmethod
    def of(table: Table) -> "RowTrackingTable":
        """Return the view of a table; raise NotSupportedError for a table that does not track rows."""
        if not table.options.row_tracking_enabled:
            raise NotSupportedError(
                f"The table '{table.name}' has no rows with ids; '${ROW_TRACKING}' is for tables that were made with "
                "'row-tracking.enabled' = 'true'."
            )
        return RowTrackingTable(f"{table.name}${ROW_TRACKING}", table.store)

    @property
    def fields(self) -> list[DataField]:
        return list(readable_fields(self.schema))

    @property
    def field_names(self) -> list[str]:
        return list(readable_by_name(self.schema))

    @property
    def arrow_schema(self) -> "pa.Schema":
        from interbed.storage.base.types.arrow import fields_to_schema

        return fields_to_schema(readable_fields(self.schema))

    def copy(self, dynamic_options: Mapping[str, object]) -> "RowTrackingTable":
        return RowTrackingTable(self.name, at_snapshot(self.store.with_options(dynamic_options)))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> Scan:
        if columns is None:
            store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
            columns = tuple(readable_by_name(store.schema))
        return super().scan(columns, filter, limit, snapshot_id, threads=threads)

    def new_read_builder(self) -> "ReadBuilder":
        return super().new_read_builder().with_projection(self.field_names)

    @property
    def maintenance(self) -> TableMaintenance:
        return ReadOnlyMaintenance(self)

    upsert = append = write_changes = new_write = new_commit = truncate = compact = delete = update = _refuse
    overwrite = delete_partitions = update_schema = merge_schema = _refuse
