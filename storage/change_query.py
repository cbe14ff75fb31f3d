"""What changed in a table between snapshots: rows with their kinds, in the order in which they became visible.

With a changelog producer the changelog files tell it. Without one the new files do, which hold what was written: an
insertion may be an update, and nothing says what a row was before. Source: documentation page
`primary-key-table/changelog-producer`; the snapshots looked at are those of Paimon's follow-up scanners.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.errors import InvalidInputError
from interbed.storage.lsm_options import ChangelogProducer
from interbed.storage.manifest.entry import FileKind, ManifestEntry
from interbed.storage.predicate.evaluate import mask
from interbed.storage.predicate.expr import AlwaysTrue, Predicate, bind, columns_of
from interbed.storage.read.file_read import FileRead, block_rows
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.schema.table_schema import VALUE_KIND
from interbed.storage.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.store import TableStore
from interbed.storage.types.arrow import fields_to_schema

ROW_KIND = "_row_kind"
"""The column of the rows' kinds: 0 insert, 1 update-before, 2 update-after, 3 delete."""


@dataclass(frozen=True)
class ChangeQuery:
    """What `Table.changes` returns: the changes of some snapshots, both ends included; read when asked for.

    `from_snapshot` None is the oldest snapshot, `to_snapshot` None the newest when the query is planned.
    """

    store: TableStore
    from_snapshot: int | None = None
    to_snapshot: int | None = None
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None

    def __post_init__(self) -> None:
        unknown = [c for c in self.columns or () if c not in self.store.schema.by_name]
        if unknown:
            names = ", ".join(self.store.schema.names)
            raise InvalidInputError(f"The table has no column {unknown[0]!r}; it has {names}.")

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots whose changes are told, oldest first; raises SnapshotNotFoundError for one that has expired."""
        manager = self.store.snapshots
        first = manager.earliest_id() if self.from_snapshot is None else self.from_snapshot
        last = manager.latest_id() if self.to_snapshot is None else self.to_snapshot
        if first is None or last is None:
            return []
        return [manager.read(number) for number in range(first, last + 1)]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the columns asked for, and ROW_KIND."""
        fields = fields_to_schema(self.store.schema.fields_named(self._names))
        return fields.append(pa.field(ROW_KIND, pa.int8(), nullable=False))

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of batches, in memory bounded by a block."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All changes as one Arrow table."""
        return self.to_arrow_batch_reader().read_all()

    @property
    def _names(self) -> tuple[str, ...]:
        return self.store.schema.names if self.columns is None else self.columns

    def _batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.store.schema
        predicate = None if self.predicate is None else bind(self.predicate, schema.fields)
        if isinstance(predicate, AlwaysTrue):
            predicate = None
        filtered = () if predicate is None else sorted(columns_of(predicate))
        files = FileRead(self.store, schema.fields_named(dict.fromkeys((*self._names, *filtered))))
        for snapshot in self.snapshots:
            for entry in self._entries(snapshot):
                directory = self.store.paths.bucket_directory(entry.partition, entry.bucket)
                path = entry.file.external_path or f"{directory}/{entry.file.file_name}"
                for batch in files.batches(
                    entry.file,
                    path,
                    batch_rows=block_rows([entry.file]),
                    predicate=predicate,
                    with_kind=schema.has_primary_key,
                ):
                    rows = batch if predicate is None else batch.filter(mask(predicate, batch))
                    if rows.num_rows:
                        yield self._with_kind(rows)

    def _with_kind(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kinds: pa.Array[Any] = pa.array(np.zeros(rows.num_rows, np.int8))
        if self.store.schema.has_primary_key:
            kinds = rows.column(VALUE_KIND).cast(pa.int8())
        return pa.RecordBatch.from_arrays([*(rows.column(n) for n in self._names), kinds], schema=self.schema)

    def _entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The files that tell what the snapshot changed."""
        reader = ManifestReader(self.store.file_io, self.store.paths)
        keyed = self.store.schema.has_primary_key
        if keyed and self.store.options.changelog_producer is not ChangelogProducer.NONE:
            return list(reader.entries(reader.changelog(snapshot)))
        if snapshot.commit_kind is not CommitKind.APPEND:
            return []
        return [e for e in reader.entries(reader.delta(snapshot)) if e.kind is FileKind.ADD]
