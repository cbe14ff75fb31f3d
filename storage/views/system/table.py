"""A system table, read like a table: `catalog.get_table("db.t$snapshots").scan().to_arrow()`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.file_store import FileStore
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.views.system import files, metadata
from interbed.storage.views.system.rows_table import Row, RowsQuery, RowsTable, SystemTableKind

SYSTEM_TABLES: Mapping[str, SystemTableKind] = {
    "aggregation_fields": metadata.AGGREGATION_FIELDS,
    "branches": metadata.BRANCHES,
    "buckets": files.BUCKETS,
    "consumers": metadata.CONSUMERS,
    "file_indexes": files.FILE_INDEXES,
    "file_key_ranges": files.FILE_KEY_RANGES,
    "files": files.FILES,
    "manifests": files.MANIFESTS,
    "options": metadata.OPTIONS,
    "partitions": files.PARTITIONS,
    "schemas": metadata.SCHEMAS,
    "snapshots": metadata.SNAPSHOTS,
    "statistics": files.STATISTICS,
    "table_indexes": files.TABLE_INDEXES,
    "tags": metadata.TAGS,
}
"""All kinds by name, except the views of changes."""


@dataclass(frozen=True)
class SystemTable(RowsTable):
    """A read-only system table of a table. `kind` is one of SYSTEM_TABLES."""

    name: str
    store: FileStore
    kind: str

    @staticmethod
    def of(table: str, store: FileStore, kind: str) -> "SystemTable":
        """Return the system table of a kind; raises InvalidInputError, with the known kinds, for another one."""
        if kind not in SYSTEM_TABLES:
            raise InvalidInputError(
                f"There is no system table {kind!r}; there are {', '.join(SYSTEM_TABLES)}, audit_log, binlog and ro."
            )
        return SystemTable(f"{table}${kind}", store, kind)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(SYSTEM_TABLES[self.kind].columns)

    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        return SYSTEM_TABLES[self.kind].rows(self.store)

    def copy(self, dynamic_options: Mapping[str, object]) -> "SystemTable":
        """Return the table with more options: `{"scan.tag-name": "a"}` shows the files of the tag."""
        return SystemTable(self.name, at_snapshot(self.store.with_options(dynamic_options)), self.kind)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> RowsQuery:
        if snapshot_id is None:
            return super().scan(columns, filter, limit)
        pinned = at_snapshot(self.store, snapshot_id).with_options({"scan.snapshot-id": str(snapshot_id)})
        return SystemTable(self.name, pinned, self.kind).scan(columns, filter, limit)
