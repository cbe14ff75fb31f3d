"""A system table: what is known of a table, read like one: `catalog.get_table("db.t$snapshots").scan().to_arrow()`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.errors import InvalidInputError
from interbed.storage.predicate.evaluate import mask
from interbed.storage.predicate.expr import Predicate
from interbed.storage.predicate.parse import bound_filter
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.store import TableStore
from interbed.storage.system import files, schemas, versions
from interbed.storage.system.column import SystemTableKind
from interbed.storage.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.types.data_type import DataField

SYSTEM_TABLES: Mapping[str, SystemTableKind] = {
    "aggregation_fields": schemas.AGGREGATION_FIELDS,
    "branches": versions.BRANCHES,
    "buckets": files.BUCKETS,
    "consumers": versions.CONSUMERS,
    "files": files.FILES,
    "manifests": files.MANIFESTS,
    "options": schemas.OPTIONS,
    "partitions": files.PARTITIONS,
    "schemas": schemas.SCHEMAS,
    "snapshots": versions.SNAPSHOTS,
    "statistics": files.STATISTICS,
    "table_indexes": files.TABLE_INDEXES,
    "tags": versions.TAGS,
}
"""All kinds but the views of changes, by name."""


@dataclass(frozen=True)
class SystemTable:
    """One system table of a table; read only. `kind` is one of SYSTEM_TABLES."""

    name: str
    store: TableStore
    kind: str

    @staticmethod
    def of(table: str, store: TableStore, kind: str) -> "SystemTable":
        """The system table of that kind; raises InvalidInputError naming those that there are."""
        if kind not in SYSTEM_TABLES:
            raise InvalidInputError(
                f"There is no system table {kind!r}; there are {', '.join(SYSTEM_TABLES)}, audit_log, binlog and ro."
            )
        return SystemTable(f"{table}${kind}", store, kind)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema(SYSTEM_TABLES[self.kind].columns)

    @property
    def fields(self) -> list[DataField]:
        """The columns."""
        return list(fields_from_arrow(list(self.arrow_schema), FieldIds()))

    @property
    def field_names(self) -> list[str]:
        """The columns' names."""
        return list(self.arrow_schema.names)

    @property
    def primary_keys(self) -> list[str]:
        """There are none."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """There are none."""
        return []

    def copy(self, dynamic_options: Mapping[str, str]) -> "SystemTable":
        """The same with options on top: `{"scan.tag-name": "a"}` shows the files of the tag."""
        return SystemTable(self.name, at_snapshot(self.store.with_options(dynamic_options)), self.kind)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> "SystemTableQuery":
        """A query, as Table.scan; raises FilterError and InvalidInputError for an unknown column."""
        store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
        if snapshot_id is not None:
            store = store.with_options({"scan.snapshot-id": str(snapshot_id)})
        unknown = [name for name in columns or () if name not in self.field_names]
        if unknown:
            raise InvalidInputError(
                f"The system table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(self.field_names)}."
            )
        predicate = None if filter is None else bound_filter(filter, tuple(self.fields))
        return SystemTableQuery(
            SystemTable(self.name, store, self.kind), None if columns is None else tuple(columns), predicate, limit
        )


@dataclass(frozen=True)
class SystemTableQuery(ArrowRows):
    """What `SystemTable.scan` returns; what it shows is read when it is asked for."""

    table: SystemTable
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        schema = self.table.arrow_schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches."""
        return limited(pa.RecordBatchReader.from_batches(self.schema, self._batches()), self.limit)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = SYSTEM_TABLES[self.table.kind].rows(self.table.store)
        schema = self.table.arrow_schema
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.predicate is not None:
            batch = batch.filter(mask(self.predicate, batch))
        if batch.num_rows:
            # Selected, because that keeps the number of rows when no column is asked for.
            yield batch.select(self.schema.names)
