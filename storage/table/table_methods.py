"""Methods of `Table` that import what they need when they are called: those of its changes, and pypaimon's names.

Changes are read between snapshots, as a stream, or with their kinds as a column. By the names of pypaimon's methods
code written for pypaimon runs; see docs/pypaimon.md.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode, crosses_partitions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema

if TYPE_CHECKING:
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.read.change_read import ChangeRead
    from interbed.storage.views.builder.managers import (
        BuiltBranches,
        BuiltConsumers,
        BuiltFiles,
        BuiltSnapshots,
        BuiltTags,
    )
    from interbed.storage.views.builder.read import ReadBuilder
    from interbed.storage.views.builder.stream_read import StreamReadBuilder
    from interbed.storage.views.builder.write import BatchWriteBuilder, StreamWriteBuilder
    from interbed.storage.views.changes import ChangeQuery, ChangeView
    from interbed.storage.views.stream.stream_scan import StreamScan, TableStream


class TableChanges:
    """The methods of Table that read its changes; `store` is its file store."""

    name: str
    store: "FileStore"

    def changes(
        self,
        from_snapshot: int | None = None,
        to_snapshot: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        mode: str = "auto",
    ) -> "ChangeQuery":
        """Query the changes of snapshots from one to another, both included: rows with a column `_row_kind`.

        The kinds are 0 insert, 1 update-before, 2 update-after, 3 delete, as `write_changes` takes them. With
        `changelog-producer` = `lookup` or `full-compaction` the changes of a commit are those of the snapshot of the
        compaction after it. By default the query covers all snapshots that exist, except an oldest one whose changelog
        has expired. `mode` is the source of the changes: "changelog" files, new files ("delta"), either of them
        according to the table ("auto"), or a comparison with the snapshot before ("diff"), which has only the final
        state of each key. Changes of overwrites are only in comparisons. Raises FilterError, InvalidInputError for an
        unknown column or mode, and SnapshotNotFoundError for a missing snapshot.
        """
        from interbed.storage.views.changes import ChangeQuery

        predicate = None if filter is None else self._bound(filter)
        names = None if columns is None else tuple(columns)
        if mode not in list(IncrementalScanMode):
            raise InvalidInputError(f"The mode of changes is one of {', '.join(IncrementalScanMode)}, not {mode!r}.")
        chosen_mode = IncrementalScanMode(mode)
        return ChangeQuery(self.store, from_snapshot, to_snapshot, names, predicate, chosen_mode)

    def stream(
        self,
        from_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        poll_seconds: float | None = None,
        idle_seconds: float | None = None,
        max_splits: int | None = None,
        max_files: int | None = None,
        log: bool = False,
    ) -> "TableStream":
        """Stream the changes of the table: `for changes in table.stream(): apply(changes.to_arrow())`.

        Rows are those of `changes`. With `from_snapshot`, the checkpoint of an earlier stream or its text, the stream
        begins with the changes of that snapshot. Otherwise `scan.mode` and `consumer-id` say where it begins, by
        default with the rows of the newest snapshot. A table that was rolled back behind a checkpoint raises
        SnapshotNotFoundError; a plain number can't detect that. The stream looks for new snapshots every `poll_seconds`
        (`continuous.discovery-interval`) and ends when none came for `idle_seconds` (None: never). Changes of a
        snapshot are returned in parts of `max_splits` and `max_files` at most. With `log` the changes come from the
        table's log (`log.system`) as soon as they are there, and from the files only if the log does not have them; all
        else is the same. From an eventual log they come before they are committed, and are corrected at the snapshots
        that follow; `snapshot_id` is the last of these then. Errors are those of StreamScan.plan and `changes`, and
        NotSupportedError for a table without a log.
        """
        from interbed.storage.views.stream.stream_scan import StreamLimits, TableStream

        predicate = None if filter is None else self._bound(filter)
        scan = self.new_stream_scan(predicate=predicate)
        scan.restore(from_snapshot)
        read = self.new_change_read(columns, predicate)
        limits = StreamLimits(splits=max_splits, files=max_files)
        poll = self.store.options.discovery_interval_millis / 1000 if poll_seconds is None else poll_seconds
        if not log:
            return TableStream(scan=scan, read=read, limits=limits, poll_seconds=poll, idle_seconds=idle_seconds)
        from interbed.storage.read.columns import ReadColumns
        from interbed.storage.views.stream.eventual_stream import EventualLogStream
        from interbed.storage.views.stream.log_stream import TableLogStream
        from interbed.storage.views.stream.stream_scan import streamed

        store = streamed(self.store)
        kind = EventualLogStream if store.options.log_consistency is LogConsistency.EVENTUAL else TableLogStream
        return kind(
            scan=scan,
            read=read,
            limits=limits,
            poll_seconds=poll,
            idle_seconds=idle_seconds,
            store=store,
            columns=ReadColumns.of(store.schema, columns, predicate),
        )

    def audit_log(self) -> "ChangeView":
        """Return the table with the kind of each row as its first column `rowkind`; also named `<table>$audit_log`."""
        from interbed.storage.views.changes import AUDIT_LOG, ChangeView

        return ChangeView.of(self.name, self.store, AUDIT_LOG)

    def binlog(self) -> "ChangeView":
        """Return the audit log with arrays for values, in which an update is one row; also named `<table>$binlog`."""
        from interbed.storage.views.changes import BINLOG, ChangeView

        return ChangeView.of(self.name, self.store, BINLOG)

    def new_stream_scan(self, *, predicate: "Predicate | None" = None) -> "StreamScan":
        """Return the planner of a stream, whose checkpoints the caller keeps."""
        from interbed.storage.views.stream.stream_scan import StreamScan, streamed

        return StreamScan(streamed(self.store), predicate=predicate)

    def new_change_read(
        self, columns: Sequence[str] | None = None, predicate: "Predicate | None" = None
    ) -> "ChangeRead":
        """Return the reader of splits as changes, with their kinds."""
        from interbed.storage.read.change_read import ChangeRead
        from interbed.storage.views.stream.stream_scan import streamed

        return ChangeRead(streamed(self.store), columns, predicate)

    def _bound(self, given: "str | Predicate") -> "Predicate":
        from interbed.storage.base.predicate.conditions import bound_filter
        from interbed.storage.views.stream.stream_scan import streamed

        return bound_filter(given, streamed(self.store).schema.fields)


class PypaimonNames:
    """The builders of a table, and its parts, by pypaimon's names."""

    name: str
    store: FileStore

    # -- builders --------------------------------------------------------------------------------------------------

    def new_read_builder(self) -> "ReadBuilder":
        """Return pypaimon's read builder of one snapshot."""
        from interbed.storage.views.builder.read import ReadBuilder

        return ReadBuilder(self.store, name=self.name)

    def new_stream_read_builder(self) -> "StreamReadBuilder":
        """Return pypaimon's read builder for a sequence of snapshots."""
        from interbed.storage.views.builder.stream_read import StreamReadBuilder

        return StreamReadBuilder(self.store)

    def new_batch_write_builder(self) -> "BatchWriteBuilder":
        """Return pypaimon's write builder for one commit."""
        from interbed.storage.views.builder.write import BatchWriteBuilder

        return BatchWriteBuilder(self.store)

    def new_stream_write_builder(self) -> "StreamWriteBuilder":
        """Return pypaimon's write builder for a sequence of commits, each with its identifier."""
        from interbed.storage.views.builder.write import StreamWriteBuilder

        return StreamWriteBuilder(self.store)

    def new_postpone_fixed_bucket_write_builder(self) -> "BatchWriteBuilder":
        """Return pypaimon's write builder for one commit to the real buckets of a table with postponed ones."""
        from interbed.storage.views.builder.write import BatchWriteBuilder

        return BatchWriteBuilder(self.store.with_options({"postpone.batch-write-fixed-bucket": "true"}))

    # -- metadata --------------------------------------------------------------------------------------------------

    @property
    def table_schema(self) -> TableSchema:
        """The schema, with its options."""
        return self.store.schema

    @property
    def table_path(self) -> str:
        """The directory of the table."""
        return self.store.location

    @property
    def schema_manager(self) -> SchemaManager:
        """The manager of the versions of the schema."""
        return self.store.schemas

    @property
    def is_primary_key_table(self) -> bool:
        """Whether the table has a primary key."""
        return self.store.schema.has_primary_key

    @property
    def field_dict(self) -> dict[str, DataField]:
        """The columns by name."""
        return dict(self.store.schema.by_name)

    @property
    def trimmed_primary_keys(self) -> list[str]:
        """The columns of the primary key that are not partition columns."""
        return list(self.store.schema.trimmed_primary_keys)

    @property
    def primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key."""
        return list(self.store.schema.fields_named(self.store.schema.primary_keys))

    @property
    def partition_keys_fields(self) -> list[DataField]:
        """The columns of the partition key."""
        return list(self.store.schema.partition_fields)

    @property
    def cross_partition_update(self) -> bool:
        """Whether a key may move between partitions, because the primary key lacks one of their columns."""
        return crosses_partitions(self.store.schema)

    @property
    def total_buckets(self) -> int:
        """The value of the option `bucket`."""
        return self.store.options.bucket

    def bucket_mode(self) -> BucketMode:
        """Return the bucket mode of the table."""
        return bucket_mode(self.store.schema, self.store.options)

    def comment(self) -> str | None:
        """Return the comment of the table."""
        return self.store.schema.comment

    def current_branch(self) -> str:
        """Return the name of the branch, `main` for the table itself."""
        return self.store.paths.branch

    @property
    def file_io(self) -> "BuiltFiles":
        """The file system of the table, with pypaimon's methods."""
        from interbed.storage.views.builder.managers import BuiltFiles

        return BuiltFiles(self.store.file_io)

    def snapshot_manager(self) -> "BuiltSnapshots":
        """Return pypaimon's manager of the snapshots."""
        from interbed.storage.views.builder.managers import BuiltSnapshots

        return BuiltSnapshots(self.store)

    def tag_manager(self) -> "BuiltTags":
        """Return pypaimon's manager of the tags."""
        from interbed.storage.views.builder.managers import BuiltTags

        return BuiltTags(self.store)

    def branch_manager(self) -> "BuiltBranches":
        """Return pypaimon's manager of the branches."""
        from interbed.storage.views.builder.managers import BuiltBranches

        return BuiltBranches(self.store)

    def consumer_manager(self) -> "BuiltConsumers":
        """Return pypaimon's manager of the consumers."""
        from interbed.storage.views.builder.managers import BuiltConsumers

        return BuiltConsumers(self.store)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self.tag_manager().list_tags()
