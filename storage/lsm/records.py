"""Merged rows as records of data files: what compaction and changelogs write."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.storage.lsm.merge_read import DeletedOf, MergeRead, PathOf, RowSource, merge_function_for, no_deletions
from interbed.storage.lsm.sorted_run import SortedRun
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from interbed.storage.meta.store import TableStore


def kv_batches(
    store: TableStore,
    sections: Sequence[Sequence[SortedRun]],
    path_of: PathOf,
    *,
    drop_deletes: bool,
    deleted_of: DeletedOf = no_deletions,
    source: RowSource | None = None,
) -> Iterator[pa.RecordBatch]:
    """Sections of a bucket merged into records for new data files: what compaction writes.

    Batches have `_KEY_<k>` for each key column, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then all columns of the table, in
    the types of the current schema. Sections must be in key order; so are the records then. Without `drop_deletes`
    records that delete their key stay. Rows that `deleted_of` says are gone are left out. `source` gives rows of files
    instead of the files themselves.
    """
    schema = store.schema
    merge = MergeRead(store, schema.fields, merge_function_for(store, drop_deletes=drop_deletes))
    for section in sections:
        for batch in merge.section(section, path_of, with_system=True, deleted_of=deleted_of, source=source):
            yield as_records(schema, batch)


def as_records(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their system columns as records of data files: with `_KEY_<k>` for each key column."""
    names = [
        *(KEY_PREFIX + k for k in schema.trimmed_primary_keys),
        SEQUENCE_NUMBER,
        VALUE_KIND,
        *schema.names,
    ]
    columns = [*schema.trimmed_primary_keys, SEQUENCE_NUMBER, VALUE_KIND, *schema.names]
    return pa.RecordBatch.from_arrays([rows.column(n) for n in columns], names=names)
