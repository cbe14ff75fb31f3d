"""Rows of a snapshot as engines read them: pinned to it, with the columns and conditions that a query needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from interbed.storage.base.predicate.expr import Predicate, and_
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.arrow_rows import ArrowRows, check_limit
from interbed.storage.scan.starting_point import travels


@dataclass(frozen=True, repr=False)
class SnapshotQuery(ArrowRows):
    """A query of one snapshot of a table, the newest one by default. `columns` None are all."""

    store: FileStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return self.store.schema.fields

    def _pinned(self) -> Self:
        if self.snapshot_id is not None or travels(self.store):
            return self
        return replace(self, snapshot_id=self.store.newest_id())

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # The first rows must not depend on the columns and filters of an engine.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()
