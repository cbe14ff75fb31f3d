"""pypaimon's read builder for the audit log and the binlog of a table."""

from interbed.storage.base.predicate.expr import restrict_to
from interbed.storage.meta.store import TableStore
from interbed.storage.read.audit_read import AuditRead, audit_fields
from interbed.storage.scan.scan import TableScan
from interbed.storage.views.builder.read import BuiltRead, BuiltScan, ReadBuilder


class ViewReadBuilder(ReadBuilder):
    """What to read from a view of a table's changes; see ReadBuilder."""

    def __init__(self, store: TableStore, *, packed: bool) -> None:
        super().__init__(store, audit_fields(store, packed=packed))
        self._packed = packed

    def new_scan(self) -> BuiltScan:
        """The planner."""
        predicate = self._all()
        own = None if predicate is None else restrict_to(predicate, self._store.schema.names)
        return BuiltScan(TableScan(self._store, predicate=own).plan)

    def new_read(self) -> BuiltRead:
        """The reader."""
        read = AuditRead(self._store, self._columns, self._all(), packed=self._packed)
        return BuiltRead(read, self._limit, self._nested)
