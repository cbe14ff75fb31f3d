"""Writing to a table as its methods: rows, changes, deletions, whole partitions, and changes of its schema."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from interbed.storage.base.errors import (
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore, changes_table

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.storage.base.incoming import ArrowData, IncomingRows
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.commit.basis import SnapshotRead
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.scan.partition_filter import Partitions
    from interbed.storage.table.schema_update import SchemaUpdate
    from interbed.storage.upkeep.column_update import Values


class TableWrites:
    """The methods of Table that change rows and columns; `store` is its file store."""

    name: str
    store: FileStore

    @changes_table
    def upsert(self, data: "IncomingRows", *, columns: str = "all", merge_schema: bool | None = None) -> int | None:
        """Insert rows, replacing those of equal primary key as a whole; the last of equal keys in the data wins.

        `data` are Arrow tables, batches, readers or datasets, pandas or Polars frames, DuckDB relations, objects with
        `__arrow_c_stream__`, or a list of dicts; streams are written batch by batch. Columns are matched by name.
        Missing columns get their defaults or null, also if the row of that key had a value. With `columns="present"`
        they keep the value that the row of that key has, found by lookup in the same commit; each dict may have columns
        of its own. With `merge_schema` (the table's option `write.merge-schema` unless it is given) `merge_schema` is
        called first. Returns the id of the snapshot made, None when there were no rows. Raises SchemaMismatchError for
        data that do not fit, InvalidInputError for objects that hold no rows, NotSupportedError for tables without a
        primary key, CommitError as documented there. "present" raises CommitConflictError for a stream, which is read
        once, when another writer committed meanwhile.
        """
        if not self.store.schema.has_primary_key:
            raise NotSupportedError(f"The table '{self.name}' has no primary key to upsert by; use append.")
        if columns not in ("all", "present"):
            raise InvalidInputError(f"`columns` of an upsert is 'all' or 'present', not {columns!r}.")
        if columns == "present":
            return self._upsert_present(data, merge_schema)
        return self._write(self._incoming(data, merge_schema))

    @changes_table
    def append(self, data: "IncomingRows", *, merge_schema: bool | None = None) -> int | None:
        """Add rows, on a primary-key table an upsert, as an INSERT is in Paimon; arguments are those of upsert."""
        return self._write(self._incoming(data, merge_schema))

    @changes_table
    def write_changes(
        self, data: "IncomingRows", *, kind_column: str = "_row_kind", merge_schema: bool | None = None
    ) -> int | None:
        """Apply changes: `kind_column` holds 0 insert, 1 update-before, 2 update-after, 3 delete; or +I, -U, +U, -D.

        The other arguments, and what is raised, are those of upsert. Raises InvalidInputError for a `kind_column` that
        is also a column of the table.
        """
        if kind_column in self.store.schema.by_name:
            raise InvalidInputError(
                f"The table '{self.name}' has a column {kind_column!r}, so that it can't hold the kinds of changes. "
                "Give the kinds another name by kind_column."
            )
        return self._write(self._incoming(data, merge_schema, kind_column), kind_column=kind_column)

    def update_schema(self) -> "SchemaUpdate":
        """Change columns, options and comment: `with table.update_schema() as update: update.add_column("x", "INT")`.

        All changes become one new schema, which this object has afterwards. Errors are those of SchemaUpdate.commit.
        """
        from interbed.storage.table.schema_update import SchemaUpdate

        return SchemaUpdate(self._alter)

    @changes_table
    def merge_schema(self, rows: "pa.Schema", *, explicit_cast: bool | None = None) -> None:
        """Add the columns and nested fields of such rows that the table lacks, and widen types so that they hold the
        rows.

        Nothing else is changed, and nothing at all if the rows fit. With `explicit_cast` (the table's option
        `write.merge-schema.explicit-cast` unless it is given) a column takes the type of the rows even if its old
        values may lose something. Raises SchemaMismatchError naming the column, and CommitFailedError.
        """
        from interbed.storage.meta.merge_schema import MergeRules, arrow_fields, merge_into

        rules = MergeRules(
            widens=self.store.options.widens_types,
            casts=self.store.options.casts_types if explicit_cast is None else explicit_cast,
        )
        # The merge starts from the newest schema, also if another writer made it.
        self.store.check_here()
        self.store = merge_into(self.store, arrow_fields(self.store.schema, rows, rules), rules)

    @changes_table
    def overwrite(
        self,
        data: "IncomingRows",
        partitions: "Partitions | None" = None,
        *,
        merge_schema: bool | None = None,
        read_at: "int | Snapshot | None" = None,
    ) -> int | None:
        """Replace rows by the data; `data` and `merge_schema` as in upsert.

        With `partitions` ({} for the whole table) exactly those are replaced, and no row may be in another partition.
        Without it, the partitions that occur in the data are replaced (the whole table, when it has no partitions or
        its option `dynamic-partition-overwrite` is false).

        For data that were computed from the table, `read_at` is the snapshot that was read, or its id (0: a table
        without one). If another writer has changed the rows to be replaced since, or if some of them are returned by
        scans only after a compaction, CommitConflictError is raised and nothing is changed; without `read_at` the last
        overwrite wins. An id does not show that the table was rolled back since and another commit has that id; a
        Snapshot does, and is a conflict then. Raises SnapshotNotFoundError for a future id.

        Streams do not report deleted rows, unless they are read with `streaming-read-overwrite`. That option is
        impossible in a table whose changelog is written by compactions (`changelog-producer` = `lookup` or
        `full-compaction`); there `changes(id, id, mode="diff")` of the new snapshot has the final state of each key.
        """
        import pyarrow as pa

        rows = self._incoming(data, merge_schema)
        if read_at is not None:
            # Data computed from an older snapshot can only be recomputed by the caller.
            return self._overwrite_once(rows, partitions, self._read(read_at))
        if isinstance(rows, pa.RecordBatchReader):
            return self._overwrite_once(rows, partitions)
        return self._redone(lambda: self._overwrite_once(rows, partitions))

    @changes_table
    def update(
        self,
        values: "Values | IncomingRows",
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        *,
        by: "str | Sequence[str] | None" = None,
        reads: "Sequence[str] | None" = None,
    ) -> int | None:
        """Change columns of rows, of a table with `data-evolution.enabled`; other columns are neither read nor written.

        `values` has a value for each column to change, or a function that returns an array of values for an Arrow batch
        of the rows; batches have the columns `reads` (None: all). All rows change, or those that the filter selects.
        With `by`, the names of columns or "_ROW_ID", `values` are rows, as in upsert: each changes the rows of the
        table with the same values in these columns, to its values in the others. Rows keep their ids. Returns the id of
        the snapshot made, None when no row matched.

        Raises InvalidInputError for given rows that the table does not have, SchemaMismatchError for values that do not
        fit, FilterError, CommitError, and NotSupportedError for other tables.
        """
        from interbed.storage.commit.contention import RetryPolicy
        from interbed.storage.scan.fallback_checks import warn_of_branch_rows
        from interbed.storage.upkeep.column_update import column_change, update_columns

        change = column_change(self.store, self.name, values, filter, by=by, reads=reads)
        warn_of_branch_rows(self.store, predicate=change.predicate())
        # After a conflict the rows are read again: a row that another writer has changed may no longer match.
        return RetryPolicy.of(self.store.options).redo(
            lambda: update_columns(self.store.with_added_columns(), change, _new_commit_user())
        )

    @changes_table
    def delete(self, filter: "str | Predicate") -> int | None:  # noqa: A002 - the field's word for it
        """Delete the rows that the filter selects. Returns the id of the snapshot made, None when no row matched.

        Raises FilterError, CommitError, and NotSupportedError for a table whose options or merge engine would not
        remove the rows.
        """
        from interbed.storage.base.predicate.conditions import bound_filter
        from interbed.storage.commit.contention import RetryPolicy
        from interbed.storage.meta.schema.system_fields import readable_fields
        from interbed.storage.scan.fallback_checks import warn_of_branch_rows
        from interbed.storage.upkeep.changed_rows import delete_rows
        from interbed.storage.write.row_statements import delete_refusal

        if filter is None:
            raise FilterError(f"Deleting rows from '{self.name}' needs a filter; truncate() deletes all rows.")
        predicate = bound_filter(filter, readable_fields(self.store.schema))
        refusal = delete_refusal(self.store.schema, self.store.options) if self.store.schema.has_primary_key else None
        if refusal is not None:
            raise NotSupportedError(f"DELETE from '{self.name}' is not possible: {refusal}")
        warn_of_branch_rows(self.store, predicate=predicate)
        keyed = self.store.schema.has_primary_key
        # After a conflict the rows are read again: a row that another writer has changed may no longer match.
        return RetryPolicy.of(self.store.options).redo(
            lambda: self._delete_once(predicate) if keyed else delete_rows(self.store, predicate, _new_commit_user())
        )

    @changes_table
    def delete_partitions(self, partitions: "Partitions") -> int | None:
        """Delete all rows of the chosen partitions, without reading any; older snapshots keep them.

        Returns the id of the snapshot made, None when there are no such rows. Raises InvalidInputError for a filter or
        a specification with other columns than the partition columns.
        """
        from interbed.storage.commit.file_store_commit import FileStoreCommit
        from interbed.storage.meta.paths import POSTPONE_BUCKET
        from interbed.storage.scan.fallback_checks import warn_of_branch_rows
        from interbed.storage.scan.live_files import restore_buckets
        from interbed.storage.scan.partition_filter import partition_choice, selects_all

        if partitions is None:
            raise InvalidInputError(f"Name the partitions of '{self.name}' to delete; truncate() deletes all rows.")
        chosen = partition_choice(partitions, self.store.schema.fields)
        meant = None if selects_all(chosen) else chosen
        # Files count, not visible rows: those of level 0 and of the postponed bucket appear with the next compaction.
        places = (restore_buckets(self.store, partition_filter=meant, buckets=b) for b in (None, (POSTPONE_BUCKET,)))
        if not any(restored.buckets() for restored in places):
            # A table that was renamed or dropped has no files here, either.
            self.store.check_here()
            ids: Sequence[int] = ()
        else:
            ids = FileStoreCommit(self.store, _new_commit_user(), new_user=True).overwrite([], partition=meant)
        warn_of_branch_rows(self.store, partitions=chosen)
        return ids[-1] if ids else None

    @changes_table
    def truncate(self, partitions: "Partitions | None" = None) -> int | None:
        """Delete all rows, or those of the chosen partitions; older snapshots keep them.

        Returns the id of the snapshot made, which is made also without rows to delete; None for a table without
        snapshots. Raises as delete_partitions does.
        """
        from interbed.storage.commit.file_store_commit import FileStoreCommit
        from interbed.storage.scan.fallback_checks import warn_of_branch_rows
        from interbed.storage.scan.partition_filter import partition_choice

        chosen = partition_choice(partitions, self.store.schema.fields)
        ids = FileStoreCommit(self.store, _new_commit_user(), new_user=True).truncate(chosen)
        warn_of_branch_rows(self.store, partitions=chosen)
        return ids[-1] if ids else None

    def _alter(self, changes: "Sequence[SchemaChange]") -> None:
        self.store.alter(changes)
        self.refresh()

    def refresh(self) -> None:
        """Take the newest schema, which a method has made."""
        self.store = self.store.refreshed()

    def _incoming(self, data: "IncomingRows", merge_schema: bool | None, kind_column: str | None = None) -> "ArrowData":
        """Return the rows as Arrow data, after adding their columns to the table if that is wanted."""
        import pyarrow as pa

        from interbed.storage.base.incoming import arrow_rows

        merges = self.store.options.merges_schema if merge_schema is None else merge_schema
        more = None if merges else [] if kind_column is None else [kind_column]
        rows = arrow_rows(data, self.store.schema.arrow, what=f"the table '{self.name}'", more=more)
        if merges:
            self.merge_schema(pa.schema([f for f in rows.schema if f.name != kind_column]))
        return rows

    def _read(self, read_at: "int | Snapshot") -> "SnapshotRead":
        """Return the reference to a snapshot that was read, by itself or by its id."""
        from interbed.storage.commit.basis import SnapshotRead

        if not isinstance(read_at, int):
            return SnapshotRead.of(read_at)
        newest = self.store.newest_id() or 0
        if not 0 <= read_at <= newest:
            raise SnapshotNotFoundError(
                f"The table '{self.name}' has no snapshot {read_at} to have been read; the newest is {newest}."
            )
        return SnapshotRead(read_at)

    def _overwrite_once(
        self, data: "ArrowData", partitions: "Partitions | None", read_at: "SnapshotRead | None" = None
    ) -> int | None:
        from interbed.storage.commit.file_store_commit import FileStoreCommit
        from interbed.storage.scan.partition_filter import partition_choice
        from interbed.storage.upkeep.compact_table import compact_again
        from interbed.storage.write.bucket_strategy import batch_strategy_of
        from interbed.storage.write.table_write import overwriting

        user = _new_commit_user()
        chosen = partition_choice({} if partitions is None else partitions, self.store.schema.fields)
        dynamic = (
            partitions is None
            and bool(self.store.schema.partition_keys)
            and self.store.options.dynamic_partition_overwrite
        )
        choice = None if dynamic else chosen
        with (
            _batches(data) as batches,
            overwriting(self.store, user, choice, strategy=batch_strategy_of) as write,
        ):
            for batch in batches:
                write.write_arrow(batch)
            messages = write.prepare_commit()
        commit = FileStoreCommit(self.store, user, new_user=True)
        ids = commit.overwrite(messages, partition=chosen, dynamic=dynamic, read_at=read_at)
        if commit.gave_up_compaction:
            compact_again(self.store)
        return ids[-1] if ids else None

    def _upsert_present(self, data: "IncomingRows", merge_schema: bool | None) -> int | None:
        from collections.abc import Mapping

        import pyarrow as pa

        from interbed.storage.commit.contention import RetryPolicy
        from interbed.storage.upkeep.changed_rows import check_takes_present_columns, upsert_present
        from interbed.storage.upkeep.grouped_rows import groups_of_dicts

        check_takes_present_columns(self.store, self.name)
        given: list[Any] = [data]
        if isinstance(data, list | tuple) and all(isinstance(row, Mapping) for row in data):
            given = groups_of_dicts(data, self.store.schema, self.name)
        parts = []
        for each in given:
            part = self._incoming(each, merge_schema)
            if isinstance(each, list) and isinstance(part, pa.Table):
                # The dicts of a group have the same columns; columns of other groups are removed.
                part = part.select([name for name in part.schema.names if name in each[0]])
            parts.append(part)

        def work() -> int | None:
            return upsert_present(self.store.with_added_columns(), self.name, parts, _new_commit_user())

        if any(isinstance(part, pa.RecordBatchReader) for part in parts):
            return work()
        return RetryPolicy.of(self.store.options).redo(work)

    def _write(self, data: "ArrowData", kind_column: str | None = None) -> int | None:
        import pyarrow as pa

        if isinstance(data, pa.RecordBatchReader):
            # A reader is read only once, so a conflict with another writer can't be retried here.
            return self._write_once(data, kind_column)
        return self._redone(lambda: self._write_once(data, kind_column))

    def _redone(self, work: Callable[[], int | None]) -> int | None:
        """Call `work`, and again when another writer has assigned dynamic buckets to keys meanwhile."""
        from interbed.storage.commit.contention import RetryPolicy

        if bucket_mode(self.store.schema, self.store.options) not in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION):
            return work()
        return RetryPolicy.of(self.store.options).redo(work)

    def _write_once(self, data: "ArrowData", kind_column: str | None) -> int | None:
        from interbed.storage.upkeep.compact_table import commit_rows
        from interbed.storage.write.bucket_strategy import batch_strategy_of
        from interbed.storage.write.table_write import TableWrite

        user = _new_commit_user()
        with (
            _batches(data) as batches,
            TableWrite(self.store, user, strategy=batch_strategy_of, name=self.name) as write,
        ):
            for batch in batches:
                if kind_column is None:
                    write.write_arrow(batch)
                else:
                    rows, kinds = split_kinds(batch, kind_column)
                    write.write_arrow(rows, kinds)
            messages = write.prepare_commit()
        return commit_rows(self.store, user, messages) if messages else None

    def _delete_once(self, predicate: "Predicate") -> int | None:
        from interbed.storage.read.query import Scan
        from interbed.storage.upkeep.changed_rows import SnapshotRows

        rows = SnapshotRows(self.store.with_added_columns(), _new_commit_user())
        if not rows.snapshot_id:
            return None
        found = Scan(rows.read_store, predicate=predicate, snapshot_id=rows.snapshot_id)
        return rows.commit(deleted=found.to_arrow_batch_reader())


def split_kinds(
    data: "pa.Table | pa.RecordBatch", kind_column: str
) -> "tuple[pa.Table | pa.RecordBatch, pa.Array[Any]]":
    """Return the rows without their column of row kinds, and the kinds as int8; raise InvalidInputError."""
    import pyarrow as pa

    from interbed.storage.write.row_converter import kinds_of

    if not isinstance(data, pa.Table | pa.RecordBatch) or kind_column not in data.schema.names:
        raise InvalidInputError(f"The changes lack the column {kind_column!r} with the row kinds 0 to 3.")
    kinds = data.column(kind_column)
    array = kinds.combine_chunks() if isinstance(kinds, pa.ChunkedArray) else kinds
    return data.drop_columns([kind_column]), kinds_of(array, source=f"The column {kind_column!r}")


@contextmanager
def _batches(data: "ArrowData") -> Iterator[Iterable["pa.Table | pa.RecordBatch"]]:
    """Yield the rows in batches; a reader is closed at the end.

    A connection of DuckDB can't be used while its rows are open.
    """
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        with data:
            yield data
    else:
        yield [data]


def _new_commit_user() -> str:
    return str(uuid.uuid4())
