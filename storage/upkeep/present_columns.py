"""Upserts of the columns that rows have: what the others hold stays, found by lookup, in one commit.

The commit names the snapshot that was looked in, so that a change of another writer since is a conflict.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import one_array
from interbed.storage.base.errors import NotSupportedError, SchemaMismatchError
from interbed.storage.base.incoming import ArrowRows
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.store import TableStore
from interbed.storage.read.point.keys import key_batch
from interbed.storage.read.point.lookup import PointLookup
from interbed.storage.upkeep.changed_rows import SnapshotRows
from interbed.storage.write.row_statements import UPDATABLE

_BATCH_ROWS = 65_536


def check_takes_present_columns(store: TableStore, name: str) -> None:
    """Raise NotSupportedError for a table that can't keep what rows lack."""
    if store.options.merge_engine not in UPDATABLE:
        raise NotSupportedError(
            f"The table '{name}' can't keep columns that rows lack: 'merge-engine' = '{store.options.merge_engine}' "
            f"merges a row into the old one; that takes {' or '.join(UPDATABLE)}."
        )
    if bucket_mode(store.schema, store.options) is BucketMode.POSTPONED:
        raise NotSupportedError(
            f"The table '{name}' can't keep columns that rows lack: rows that wait in 'bucket' = '-2' are not found by "
            "key before a compaction."
        )


def groups_of_dicts(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The rows in groups that have the same columns; those of one key become one row, of which the later value wins.

    Raises SchemaMismatchError for a row without a column of the key.
    """
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, row in enumerate(rows):
        missing = next((name for name in keys if row.get(name) is None), None)
        if missing is not None:
            raise SchemaMismatchError(
                f"Row {number} (counted from 0) lacks a value for '{missing}', a column of the primary key."
            )
        # By text: 1 and True are one key to Python.
        merged.setdefault(tuple(repr(row[name]) for name in keys), {}).update(row)
    groups: dict[frozenset[str], list[dict[str, Any]]] = {}
    for row in merged.values():
        groups.setdefault(frozenset(row), []).append(row)
    return list(groups.values())


def upsert_present(store: TableStore, name: str, parts: Sequence[ArrowRows], commit_user: str) -> int | None:
    """Write rows, with the old values of the columns that they lack; the snapshot's id, None for no rows.

    Raises SchemaMismatchError for rows without a column of the key, CommitConflictError when another writer changed the
    table since it was looked in.
    """
    rows = SnapshotRows(store, commit_user)
    for part in parts:
        for key in store.schema.primary_keys:
            if key not in part.schema.names:
                raise SchemaMismatchError(f"The data for the table '{name}' lack '{key}', a column of the primary key.")
    return rows.commit(inserted=_completed(store, rows.snapshot_id, parts))


def _completed(store: TableStore, snapshot_id: int, parts: Sequence[ArrowRows]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        absent = [each for each in store.schema.names if each not in part.schema.names]
        for batch in _batches(part):
            yield batch if not absent or not snapshot_id else _with_old_values(store, snapshot_id, batch, absent)


def _with_old_values(store: TableStore, snapshot_id: int, batch: pa.RecordBatch, absent: list[str]) -> pa.RecordBatch:
    schema = store.schema
    keys = list(schema.primary_keys)
    asked = key_batch(pa.Table.from_batches([batch.select(keys)]), schema)
    lookup = PointLookup(store, [*keys, *absent])
    found = lookup.rows_at(store.snapshots.snapshot(snapshot_id), asked).combine_chunks()
    types = [schema.by_name[key].type for key in keys]
    old: Any = pa.array(encode_rows([one_array(found.column(key)) for key in keys], types), pa.binary())
    new: Any = pa.array(encode_rows([asked.column(key) for key in keys], types), pa.binary())
    # Null, for a key that is new, takes null, for which the writer has the default.
    places: Any = pc.index_in(new, value_set=old)
    for column in absent:
        batch = batch.append_column(column, one_array(found.column(column)).take(places))
    return batch


def _batches(part: ArrowRows) -> Iterator[pa.RecordBatch]:
    if isinstance(part, pa.RecordBatch):
        yield part
    elif isinstance(part, pa.Table):
        yield from part.to_batches(max_chunksize=_BATCH_ROWS)
    else:
        yield from part
