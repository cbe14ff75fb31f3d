"""Calls about DELETE of whole partitions and TRUNCATE TABLE."""

from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle.row_changes import whole_partitions
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.base.errors import NotSupportedError


class RowChangeCalls(Calls):
    """What Spark's SupportsDeleteV2 asks."""

    def canDeleteWhere(self, handle: bytes, filters: list[str]) -> bool:  # noqa: N802
        changed = TableHandle.from_bytes(handle)
        # A system table is refused when it is asked to, with a better reason than Spark has.
        return changed.is_system or whole_partitions(changed.schema, filters) is not None

    def deleteWhere(self, handle: bytes, filters: list[str]) -> None:  # noqa: N802
        changed = TableHandle.from_bytes(handle)
        if changed.is_system:
            raise NotSupportedError(f"The system table '{changed.database}.{changed.table}' is read only.")
        table = self._table_of(changed)
        predicate = whole_partitions(table.schema, filters)
        if predicate is None:
            raise NotSupportedError(f"These filters do not select whole partitions of '{changed.table}': {filters}")
        table.delete_partitions(predicate)
