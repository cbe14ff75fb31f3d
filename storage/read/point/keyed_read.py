"""Reading the rows that a filter names by their primary keys: they are looked up, and no file is scanned."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.predicate.expr import Predicate, conjuncts
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import INTEGERS, STRINGS, TypeRoot, is_atomic
from interbed.storage.files.format.readers import begin_loading
from interbed.storage.meta.options.stream import OF_ONE_SNAPSHOT
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.read.columns import ReadColumns
from interbed.storage.read.point.lookup import PointLookup
from interbed.storage.scan.pruning import key_values
from interbed.storage.scan.starting_point import PINNED, starting_snapshot

MOST_KEYS = 16
"""More keys are found by a scan, which decodes nothing twice and keeps nothing."""
_ROOTS = (*INTEGERS, *STRINGS, TypeRoot.DATE)
"""Types of keys whose pages are chosen by their bounds."""


class KeyedRead:
    """The rows of a snapshot that have one of some keys and for which a predicate is true."""

    def __init__(self, store: TableStore, columns: ReadColumns, keys: pa.RecordBatch, snapshot: Snapshot) -> None:
        self._store = store
        self._columns = columns
        self._keys = keys
        self.snapshot = snapshot

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows with the columns asked for, read on first use. Raises as TableRead does."""
        return pa.RecordBatchReader.from_batches(self._columns.schema, self._batches())

    def count(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self._rows)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            yield batch.select(list(self._columns.names))

    @cached_property
    def _rows(self) -> Sequence[pa.RecordBatch]:
        lookup = PointLookup(self._store, [f.name for f in self._columns.fields])
        kept = (self._columns.kept(batch) for batch in lookup.rows_at(self.snapshot, self._keys).to_batches())
        return [batch for batch in kept if batch.num_rows]


def keyed_read(
    store: TableStore, columns: Sequence[str] | None, predicate: Predicate, snapshot_id: int | None
) -> KeyedRead | None:
    """How the rows of a scan are looked up; None where its filter does not name a few primary keys.

    Arguments and errors as those of Scan.
    """
    schema, options = store.schema, store.options
    if not schema.has_primary_key or options.fallback_branch is not None or options.file_format != "parquet":
        return None
    if snapshot_id is None and options.startup_mode not in (*OF_ONE_SNAPSHOT, *PINNED):
        return None
    fields = schema.fields_named(schema.primary_keys)
    if not all(is_atomic(f.type, *_ROOTS) for f in fields):
        return None
    read = ReadColumns.of(schema, columns, predicate)
    if read.predicate is None:
        return None
    found = key_values(schema.primary_keys, conjuncts(read.predicate), most=MOST_KEYS)
    if found is None:
        return None
    begin_loading(store.file_io, options.file_format)
    snapshot = starting_snapshot(store, snapshot_id)
    if snapshot is None:
        return None
    arrow = fields_to_schema(fields)
    rows = list(dict.fromkeys(found))
    keys = [array_of([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return KeyedRead(store, read, pa.RecordBatch.from_arrays(keys, schema=arrow), snapshot)
