"""Row changes that are computed from one snapshot, as one commit: UPDATE, DELETE, MERGE, partial upserts.

A primary-key table gets rows with their kinds. In an append table rows are deleted by file and position: deletion
vectors mark them, or the files that hold them are rewritten without them (copy on write). The commit names the snapshot
that was read, so that rows that another writer changed since are a conflict.

An upsert of some columns looks up the old values of the other columns by key; `grouped_rows` has the groups of rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import from_numpy, one_array, to_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.incoming import ArrowData
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.row.kind import RowKind
from interbed.storage.commit.basis import RowsRead, SnapshotRead
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions, matching_positions, row_range_groups
from interbed.storage.lsm.merge_function.row_rules import combined_columns
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ROW_ID
from interbed.storage.meta.options.stream import FALLBACK_BRANCH
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.read.columns import FILE_PATH, ROW_INDEX, DeletionReader, LocatedRead
from interbed.storage.read.point_lookup import PointLookup, key_batch
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.fallback_checks import check_hides_no_rows, warn_of_branch_rows
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.scan.support import check_rows_in_files
from interbed.storage.upkeep.column_patches import ColumnPatches
from interbed.storage.upkeep.compact_table import commit_rows
from interbed.storage.write.bucket_strategy import batch_strategy_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.deleted_rows import replace_files, vector_messages
from interbed.storage.write.row_converter import KeptNulls
from interbed.storage.write.row_statements import UPDATABLE
from interbed.storage.write.table_write import TableWrite

Positions = npt.NDArray[np.int64]


class SnapshotRows:
    """Rows of the newest snapshot, and the commit of changes that are computed from them."""

    def __init__(self, store: FileStore, commit_user: str) -> None:
        self._readable = store
        # Rows of a fallback branch can't be changed from here.
        self.store = store if store.options.fallback_branch is None else store.with_options({FALLBACK_BRANCH: ""})
        self.read_store = _with_level_0(self.store)
        """The store from which the rows are read: with those that other reads see only after a compaction."""
        self._snapshot = SnapshotRead.of(store.newest_snapshot())
        self.snapshot_id = self._snapshot.id
        self._user = commit_user

    @property
    def location_columns(self) -> tuple[str, ...]:
        """Columns that locate rows in files, and their ids; none for a table with a primary key."""
        if self.store.schema.has_primary_key:
            return ()
        return (FILE_PATH, ROW_INDEX, *((ROW_ID,) if self.store.options.row_tracking_enabled else ()))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of the rows as an Arrow schema."""
        more = [pa.field(n, pa.string() if n == FILE_PATH else pa.int64(), n != ROW_ID) for n in self.location_columns]
        return pa.schema([*self.store.schema.arrow, *more])

    def batches(
        self, predicate: Predicate | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the predicate selects, with their location columns; of the others some, or all for None.

        Logs a warning if it may select rows of the fallback branch.
        """
        warn_of_branch_rows(self._readable, predicate=predicate)
        if not self.snapshot_id:
            return
        plan = TableScan(self.read_store, predicate=predicate, snapshot_id=self.snapshot_id).plan()
        if self.location_columns:
            own = self.store.schema.names if columns is None else tuple(columns)
            read_names = (*own, *self.location_columns[2:])
            located = LocatedRead(self.store, read_names, predicate)
            for split in plan.splits:
                for batch in located.to_batches(split):
                    yield batch.select([*own, *self.location_columns])
            return
        read = TableRead(self.read_store, columns, predicate)
        for split in plan.splits:
            yield from read.to_batches(split)

    def commit(
        self,
        *,
        deleted: Iterable[pa.RecordBatch] = (),
        updated: Iterable[pa.RecordBatch] = (),
        inserted: Iterable[pa.RecordBatch] = (),
        completed: Iterable[tuple[pa.RecordBatch, KeptNulls]] = (),
        partitions: PartitionFilter | None = None,
        assigned: Sequence[str] | None = None,
        columns: Collection[str] | None = None,
    ) -> int | None:
        """Commit deleted rows, updated rows, and new rows. Return the snapshot's id.

        Deleted rows are as `batches` returns them; updated ones have the location columns of the old row. `completed`
        are new rows with values of the table, and where null stays null. Only changes of other writers in `partitions`
        (None: in all) are conflicts. Raises CommitConflictError, NotSupportedError for rows that would hide those of
        the fallback branch.

        With `data-evolution.enabled` the updated rows are in the order of `batches`, and only their columns `assigned`
        (None: all) are written. Their new values depend on `columns` of the same row, or on other rows, too (None).
        """
        self._snapshot.check(self.store.newest_snapshot(), self.store.snapshots)
        if self.store.options.data_evolution_enabled:
            return self._commit_columns(deleted, updated, inserted, assigned, columns)
        with ExitStack() as opened:
            write = opened.enter_context(TableWrite(self.store, self._user, strategy=batch_strategy_of))
            moved = write
            if self.store.options.row_tracking_enabled:
                # Rows of the table keep their ids, in files of their own.
                moved = opened.enter_context(TableWrite(self.store.with_stored_row_ids(), self._user))
            deleted_positions = self._write(moved, deleted, updated)
            for batch in inserted:
                write.write_arrow(batch)
            for batch, kept in completed:
                write.write_arrow(batch, keeps_nulls=kept)
            replaced = self._rewrite(moved, deleted_positions) if deleted_positions else []
            messages = [*write.prepare_commit(), *(moved.prepare_commit() if moved is not write else ()), *replaced]
        if deleted_positions and self.store.options.deletion_vectors_enabled:
            messages += self._mark(deleted_positions, messages)
        elif any(message.data.deleted_files for message in replaced):
            messages += vector_messages(self.store, restore_buckets(self.store), {}, replaced)
        return self._publish(messages, RowsRead(snapshot=self._snapshot, partitions=partitions or AllPartitions()))

    def _publish(self, messages: Sequence[CommitMessage], read: RowsRead) -> int | None:
        if not messages:
            return None
        try:
            check_hides_no_rows(self._readable, {m.partition for m in messages if m.data.new_files})
        except NotSupportedError:
            FileStoreCommit(self.store, self._user).abort(messages)
            raise
        return commit_rows(self.store, self._user, messages, read)

    def _commit_columns(
        self,
        deleted: Iterable[pa.RecordBatch],
        updated: Iterable[pa.RecordBatch],
        inserted: Iterable[pa.RecordBatch],
        assigned: Sequence[str] | None,
        columns: Collection[str] | None,
    ) -> int | None:
        """Commit changes of a table whose rows are put together from files of columns; as `commit`."""
        known = readable_by_name(self.store.schema)
        assigned = self.store.schema.names if assigned is None else assigned
        marked: dict[str, list[Positions]] = {}
        new: list[CommitMessage] = []
        with ExitStack() as opened:
            patches = opened.enter_context(ColumnPatches(self.store, assigned, self.snapshot_id))
            for batch in deleted:
                if not self.store.options.deletion_vectors_enabled:
                    check_rows_in_files(self.store, "A deletion of rows")
                _collect(batch, marked)
            for batch in updated:
                patches.add(batch)
            rows = [batch for batch in inserted if batch.num_rows]
            if rows:
                write = opened.enter_context(TableWrite(self.store, self._user, strategy=batch_strategy_of))
                for batch in rows:
                    write.write_arrow(batch)
                new = write.prepare_commit()
            messages = [*new, *patches.finish()]
            if marked:
                messages += self._mark({path: np.concatenate(found) for path, found in marked.items()}, messages)
        depends = (*assigned, *(known if columns is None else columns))
        read = RowsRead(
            snapshot=self._snapshot,
            partitions=AllPartitions(),
            columns=frozenset(known[name].id for name in depends),
            whole=columns is None or bool(new or marked),
        )
        return self._publish(messages, read)

    def _write(
        self, write: TableWrite, deleted: Iterable[pa.RecordBatch], updated: Iterable[pa.RecordBatch]
    ) -> dict[str, Positions]:
        """Write the new rows of deletions and updates. Return the positions of rows to delete."""
        deleted_positions: dict[str, list[Positions]] = {}
        # The sequence number of a changed row is left out: it becomes the id of the snapshot.
        names = [*self.store.schema.names, *self.location_columns[2:]]
        for batch in deleted:
            if self.location_columns:
                _collect(batch, deleted_positions)
            else:
                write.write_arrow(batch, _kinds(batch.num_rows, RowKind.DELETE), keeps_nulls=True)
        for batch in updated:
            if self.location_columns:
                _collect(batch, deleted_positions)
                write.write_arrow(batch.select(names), keeps_nulls=True)
            else:
                write.write_arrow(batch, _kinds(batch.num_rows, RowKind.UPDATE_AFTER), keeps_nulls=True)
        return {path: np.concatenate(found) for path, found in deleted_positions.items()}

    def _rewrite(self, write: TableWrite, deleted_positions: Mapping[str, Positions]) -> list[CommitMessage]:
        """Rewrite the files without the rows to delete; nothing where deletion vectors mark them."""
        if self.store.options.deletion_vectors_enabled:
            return []
        splits = TableScan(self.store, snapshot_id=self.snapshot_id).plan().splits
        return replace_files(self.store.with_stored_row_ids(), write, splits, _vectors(deleted_positions))

    def _mark(
        self, deleted_positions: Mapping[str, Positions], messages: Iterable[CommitMessage]
    ) -> list[CommitMessage]:
        restored = restore_buckets(self.store)
        left = dict(deleted_positions)
        marked: dict[BucketId, dict[str, Any]] = {}
        for bucket_id in restored.buckets():
            directory = self.store.paths.bucket_directory(bucket_id)
            for file in restored.files(bucket_id):
                path = file.path_in(directory)
                if path in left:
                    marked.setdefault(bucket_id, {})[file.file_name] = left.pop(path)
        if left:
            raise CommitConflictError(
                f"The file {min(left)} is not in the table any more: another writer compacted or overwrote it. Nothing "
                "was changed; run the statement again."
            )
        return vector_messages(self.store, restored, marked, messages)


def _collect(batch: pa.RecordBatch, deleted_positions: dict[str, list[Positions]]) -> None:
    paths = batch.column(FILE_PATH).dictionary_encode()
    codes, positions = to_numpy(paths.indices), to_numpy(batch.column(ROW_INDEX))
    # Loop over the files of a batch, which are few.
    for code, path in enumerate(paths.dictionary.to_pylist()):
        deleted_positions.setdefault(str(path), []).append(positions[codes == code])


def _vectors(deleted_positions: Mapping[str, Positions]) -> dict[str, DeletionVector]:
    return {path: DeletionVector.of(positions) for path, positions in deleted_positions.items()}


def _kinds(rows: int, kind: RowKind) -> "pa.Array[Any]":
    return from_numpy(np.full(rows, kind, np.int8))


_BATCH_ROWS = 65_536


def check_takes_present_columns(store: FileStore, name: str) -> None:
    """Raise NotSupportedError for a table that can't keep the old values of missing columns."""
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


def _with_level_0(store: FileStore) -> FileStore:
    """Return the store for reads that see level 0 of a table with deletion vectors.

    The compaction that makes the rows of level 0 visible to other reads is no conflict. Changes computed without these
    rows would undo them.
    """
    if not store.schema.has_primary_key or not store.options.deletion_vectors_enabled:
        return store
    return store.with_options({"deletion-vectors.merge-on-read": "true"})


def upsert_present(store: FileStore, name: str, parts: Sequence[ArrowData], commit_user: str) -> int | None:
    """Write rows, with the old values of columns that they lack. Return the snapshot's id, None for no rows.

    Raises SchemaMismatchError for rows without a column of the key, CommitConflictError when another writer changed the
    table since its rows were looked up.
    """
    rows = SnapshotRows(store, commit_user)
    store = rows.store
    for part in parts:
        for key in store.schema.primary_keys:
            if key not in part.schema.names:
                raise SchemaMismatchError(f"The data for the table '{name}' lack '{key}', a column of the primary key.")
    return rows.commit(completed=_completed(rows.read_store, rows.snapshot_id, parts))


def _completed(
    store: FileStore, snapshot_id: int, parts: Sequence[ArrowData]
) -> Iterator[tuple[pa.RecordBatch, KeptNulls]]:
    for part in parts:
        absent = [each for each in store.schema.names if each not in part.schema.names]
        for batch in _batches(part):
            if absent and snapshot_id:
                yield _with_old_values(store, snapshot_id, batch, absent)
            else:
                yield batch, False


def _with_old_values(
    store: FileStore, snapshot_id: int, batch: pa.RecordBatch, absent: list[str]
) -> tuple[pa.RecordBatch, KeptNulls]:
    """Return the rows with the old values of absent columns, and where a null among these is the table's."""
    schema = store.schema
    keys = list(schema.primary_keys)
    asked = key_batch(pa.Table.from_batches([batch.select(keys)]), schema)
    lookup = PointLookup(store, [*keys, *absent])
    found = lookup.rows_at(store.snapshots.snapshot(snapshot_id), asked).combine_chunks()
    types = [schema.by_name[key].type for key in keys]
    old: Any = pa.array(encode_rows([one_array(found.column(key)) for key in keys], types), pa.binary())
    new: Any = pa.array(encode_rows([asked.column(key) for key in keys], types), pa.binary())
    # A new key has a null index, and taking by it makes null, for which the writer has the default.
    places: Any = pc.index_in(new, value_set=old)
    combined = combined_columns(schema, schema.core)
    for column in absent:
        # The old value is in the table already, and a function such as `sum` would add it again.
        taken = places if column not in combined else pa.nulls(len(places), pa.int32())
        batch = batch.append_column(column, one_array(found.column(column)).take(taken))
    known: dict[str, Any] = dict.fromkeys(absent, pc.is_valid(places))
    return batch, known


def _batches(part: ArrowData) -> Iterator[pa.RecordBatch]:
    if isinstance(part, pa.RecordBatch):
        yield part
    elif isinstance(part, pa.Table):
        yield from part.to_batches(max_chunksize=_BATCH_ROWS)
    else:
        yield from part


def delete_rows(store: FileStore, predicate: Predicate, commit_user: str) -> int | None:
    """Delete the rows that the predicate selects. Return the snapshot's id, or None when no row matched.

    With the option `deletion-vectors.enabled` files stay unchanged. Raises CommitConflictError when another writer
    replaced one of the files, or deleted rows of it, meanwhile.
    """
    if store.options.deletion_vectors_enabled:
        if store.options.data_evolution_enabled:
            return _delete_in_groups(store, predicate, commit_user)
        return delete_rows_by_vectors(store, predicate, commit_user)
    return delete_rows_by_rewrite(store, predicate, commit_user)


def delete_rows_by_vectors(store: FileStore, predicate: Predicate, commit_user: str) -> int | None:
    """Mark the rows that the predicate selects as deleted; as delete_rows."""
    # Scan options may name an older snapshot; only rows of the newest one can be deleted.
    plan = TableScan(store, predicate=predicate, snapshot_id=store.newest_id()).plan()
    read = LocatedRead(store, (), predicate)
    marked: dict[BucketId, dict[str, list[Any]]] = {}
    for split in plan.splits:
        files = marked.setdefault(split.bucket_id, {})
        for one in _single_files(split):
            found = [to_numpy(batch.column(ROW_INDEX)) for batch in read.to_batches(one)]
            if found:
                files[one.files[0].file_name] = found
    positions = {place: {n: np.concatenate(p) for n, p in files.items()} for place, files in marked.items()}
    # Of the newest snapshot: rows deleted since stay deleted, and a file removed since is a conflict.
    messages = vector_messages(store, restore_buckets(store), positions)
    ids = FileStoreCommit(store, commit_user).commit(messages) if messages else []
    return ids[-1] if ids else None


def _delete_in_groups(store: FileStore, predicate: Predicate, commit_user: str) -> int | None:
    """Mark rows of a table whose rows are put together from several files; as delete_rows.

    The vector of a row range group belongs to its oldest file, which stays when columns get other values. Any change of
    rows since the snapshot that was read is therefore a conflict.
    """
    snapshot = SnapshotRead.of(store.newest_snapshot())
    known = readable_by_name(store.schema)
    read = ColumnGroupRead(store, [known[name] for name in sorted(columns_of(predicate))])
    deletions = DeletionReader(store.file_io)
    marked: dict[BucketId, dict[str, Positions]] = {}
    for split in TableScan(store, predicate=predicate, snapshot_id=snapshot.id or None).plan().splits:
        deleted_of = deletions.of(split.deletion_files)
        for group in row_range_groups(split.files):
            options = GroupOptions(predicate=predicate, deleted=deleted_of(group.oldest), with_position=True)
            positions = matching_positions(read.batches(group, split.path_of, options), predicate)
            if len(positions):
                marked.setdefault(split.bucket_id, {})[group.oldest.file_name] = positions
    messages = vector_messages(store, restore_buckets(store), marked)
    if not messages:
        return None
    return commit_rows(store, commit_user, messages, RowsRead(snapshot=snapshot, partitions=AllPartitions()))


def delete_rows_by_rewrite(store: FileStore, predicate: Predicate, commit_user: str) -> int | None:
    """Delete the rows that the predicate selects. Return the snapshot's id, or None when no row matched.

    A file without a matching row stays. Raises CommitConflictError when another writer replaced one of the files.
    """
    check_rows_in_files(store, "A deletion of rows")
    # Scan options may name an older snapshot; only rows of the newest one can be deleted.
    plan = TableScan(store, predicate=predicate, snapshot_id=store.newest_id()).plan()
    located = LocatedRead(store, (), predicate)
    affected: list[tuple[Split, Positions]] = []
    for one in (one for split in plan.splits for one in _single_files(split)):
        found = [to_numpy(batch.column(ROW_INDEX)) for batch in located.to_batches(one) if batch.num_rows]
        if found:
            affected.append((one, np.concatenate(found)))
    if not affected:
        return None
    # The files that remain of newer schemas need all of their columns.
    rewritten = store.for_files_of(one.files[0].schema_id for one, _ in affected).with_stored_row_ids()
    deleted = _vectors({one.path_of(one.files[0]): positions for one, positions in affected})
    with TableWrite(rewritten, commit_user) as write:
        replaced = replace_files(rewritten, write, [one for one, _ in affected], deleted)
        messages = write.prepare_commit()
    if any(one.deletion_files for one, _ in affected):
        replaced += vector_messages(store, restore_buckets(store), {}, replaced)
    ids = FileStoreCommit(store, commit_user).commit([*messages, *replaced])
    return ids[-1] if ids else None


def _single_files(split: Split) -> list[Split]:
    vectors = split.deletion_files
    return [
        replace(
            split,
            files=(file,),
            deletion_files={file.file_name: vectors[file.file_name]} if file.file_name in vectors else {},
        )
        for file in split.files
    ]
