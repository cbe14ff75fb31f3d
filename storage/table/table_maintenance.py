"""`Table.maintenance`: planned compaction, rescaling, statistics, expiry, orphan files, checks and repairs.

Times are given as datetimes (local without a zone), ISO text or milliseconds since the epoch. Names of methods and
arguments follow Paimon's procedures.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from interbed.storage.base.clock import Moment, moment_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType
from interbed.storage.meta.file_store import changes_table
from interbed.storage.table.described import TablePart

if TYPE_CHECKING:
    from interbed.storage.meta.file_store import FileStore
    from interbed.storage.meta.schema.table_schema import TableSchema
    from interbed.storage.scan.partition_filter import PartitionChoice, Partitions
    from interbed.storage.scan.summary.estimate import TableStatistics
    from interbed.storage.upkeep.health import TableHealth
    from interbed.storage.upkeep.rescale import RescaleResult
    from interbed.storage.upkeep.rewrite_indexes import IndexRewrite
    from interbed.storage.version.expire import ExpiryResult
    from interbed.storage.version.fsck import FsckResult
    from interbed.storage.version.orphans import OrphansResult
    from interbed.storage.write.commit_message import PlannedCompaction
    from interbed.storage.write.sort.key import SortOrder

_ICEBERG = "metadata.iceberg.storage"


class TableMaintenance(TablePart):
    """The maintenance of a table: planned compactions, rescaling, statistics, expiry, orphan files, checks.

    `Table.compact` itself is a method of the table.
    """

    def plan_compaction(
        self,
        *,
        full: bool = True,
        partitions: "Partitions | None" = None,
        bucket: int | None = None,
        partition_idle_time: timedelta | None = None,
        order_strategy: str | None = None,
        order_by: Sequence[str] | str | None = None,
    ) -> "list[PlannedCompaction]":
        """Return what `compact` would do now, why, and what it would cost, bucket by bucket; nothing is changed."""
        from interbed.storage.upkeep.append_compact import plan_sort_compaction
        from interbed.storage.upkeep.compact_table import plan_table_compaction

        order = sort_order(self.store.schema, order_strategy, order_by, bucket, partition_idle_time)
        chosen = chosen_partitions(partitions, self.store)
        if order is not None:
            return plan_sort_compaction(self.store, order, partition=chosen)
        return plan_table_compaction(
            self.store, full=full, partition=chosen, bucket=bucket, partition_idle_time=partition_idle_time
        )

    def health(self) -> "TableHealth":
        """Measure how much maintenance the table needs: a score from 0 to 100 with reasons, and figures of each bucket.

        Only metadata of the newest snapshot are read. Raises CorruptFileError naming a file that can't be read.
        """
        from interbed.storage.upkeep.health import table_health

        return table_health(self.store)

    @changes_table
    def analyze(self, columns: Sequence[str] | None = None) -> "TableStatistics | None":
        """Count the rows, and gather statistics of columns: all that are not nested by default, none for [].

        The statistics are committed for the query planners of engines; `$statistics` shows them. None for a table
        without snapshots. Raises InvalidInputError, NotSupportedError for a nested column, and the errors of a commit.
        """
        from interbed.storage.upkeep.analyze import analyze_table

        plain = [f.name for f in self.store.schema.fields if isinstance(f.type, AtomicType)]
        return analyze_table(self.store, plain if columns is None else columns)

    @changes_table
    def rescale(
        self,
        bucket_num: int | None = None,
        partitions: "Partitions | None" = None,
    ) -> "RescaleResult":
        """Spread the rows over another number of buckets, by default that of the option `bucket`.

        Without `partitions` the whole table is rescaled, and the option `bucket` is changed, also of this object.
        Otherwise the chosen partitions are rescaled, and the option stays. The result is one OVERWRITE snapshot, or
        none when there was nothing to do. Raises NotSupportedError for a table without fixed or postponed buckets,
        InvalidInputError for an impossible number, CommitConflictError when other writers committed first in every
        retry.
        """
        from interbed.storage.upkeep.rescale import rescale_table

        result = rescale_table(
            self.store, lambda: str(uuid.uuid4()), bucket_num, chosen_partitions(partitions, self.store)
        )
        self._table.refresh()
        return result

    @changes_table
    def rewrite_file_index(
        self,
        *,
        partitions: "Partitions | None" = None,
    ) -> "IndexRewrite":
        """Give existing files the indexes that the options `file-index.…` define for new ones; rows are not rewritten.

        Partitions are chosen as in `compact`. The result is one COMPACT snapshot, or none when all files have them.
        Raises NotSupportedError for indexes other than bloom filters of a table with a primary key, CommitConflictError
        when another writer replaced a file meanwhile.
        """
        from interbed.storage.upkeep.rewrite_indexes import rewrite_file_indexes

        return rewrite_file_indexes(self.store, chosen_partitions(partitions, self.store))

    @changes_table
    def compact_manifests(self) -> int | None:
        """Merge the manifests as far as possible; return the id of the new snapshot, None if there is nothing to do.

        Raises CommitFailedError and CommitStateUnknownError.
        """
        from interbed.storage.commit.file_store_commit import FileStoreCommit

        return FileStoreCommit(self.store, str(uuid.uuid4()), new_user=True).compact_manifests()

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Moment | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> "ExpiryResult":
        """Delete old snapshots, and the files that no newer snapshot, tag or branch needs.

        Defaults are the options `snapshot.num-retained.max`, `snapshot.num-retained.min`, `snapshot.time-retained` and
        `snapshot.expire.limit`. Raises as SnapshotExpiry.run does.
        """
        from interbed.storage.version.expire import SnapshotExpiry

        self.store.check_here()
        result = SnapshotExpiry(self.store, dry_run=dry_run, clock=clock).run(
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=None if older_than is None else moment_millis(older_than),
            max_deletes=max_deletes,
        )
        if result.snapshots and not dry_run:
            self._announce()
        return result

    def remove_orphan_files(self, older_than: Moment | None = None, *, dry_run: bool = False) -> "OrphansResult":
        """Delete files that no snapshot, tag or branch names and that are older than a day, or than the given time.

        Raises InvalidInputError for a time in the future.
        """
        from interbed.storage.version.orphans import remove_orphan_files

        self.store.check_here()
        limit = None if older_than is None else moment_millis(older_than)
        return remove_orphan_files(self.store, older_than_millis=limit, dry_run=dry_run)

    def fsck(self, *, repair: bool = False) -> "FsckResult":
        """Check the table for versions that name missing files, unfinished changes and wrong hint files.

        With `repair` the problems that have one unambiguous repair are repaired. No row is read.
        """
        from interbed.storage.version.fsck import check_table

        return check_table(self.store, repair=repair)

    def repair_earliest_snapshot(self, snapshot_id: int) -> int:
        """Set the earliest snapshot to the one after a gap in the history; return the earliest one before.

        For a table some of whose oldest snapshots were deleted by hand. Raises InvalidInputError if a later snapshot is
        missing.
        """
        from interbed.storage.version.rollback import repair_earliest

        self.store.check_here()
        return repair_earliest(self.store, snapshot_id)

    @changes_table
    def remove_unexisting_files(self, *, dry_run: bool = False) -> list[str]:
        """Remove missing data files from the table, whose rows are lost; return their paths."""
        from interbed.storage.version.fsck import remove_missing_files

        self.store.check_here()
        return remove_missing_files(self.store, dry_run=dry_run)

    @changes_table
    def purge_files(self) -> None:
        """Delete all rows, snapshots, tags, branches and consumers; there must be no concurrent writers."""
        from interbed.storage.version.orphans import purge

        self.store.check_here()
        purge(self.store)
        self._announce()

    def publish_iceberg(self) -> int | None:
        """Publish the newest snapshot as an Iceberg table, as every commit does.

        Returns its id, None for a table without snapshots. Raises NotSupportedError for a table without
        'metadata.iceberg.storage' or with features that Iceberg lacks, MissingExtraError without pyiceberg,
        InvalidOptionError, StorageAccessError.
        """
        from interbed.storage.meta.commit_listener import listener_of

        listener = listener_of(self.store, _ICEBERG)
        if listener is None:
            raise NotSupportedError(
                f"The table '{self.name}' is not published as an Iceberg table, as branches never are; set "
                f"'{_ICEBERG}'."
            )
        return listener.publish(self.store)

    def publish_log(self) -> int | None:
        """Publish the snapshots that are not in the table's log yet, as every commit does.

        Returns the newest snapshot that is in the log, None for a table without snapshots. Raises LogUnavailableError
        when Kafka does not answer, NotSupportedError for a table without a transactional log.
        """
        from interbed.storage.log.publisher import publish

        return publish(self.store)


def sort_order(
    schema: "TableSchema",
    strategy: str | None,
    order_by: Sequence[str] | str | None,
    bucket: int | None,
    partition_idle_time: timedelta | None,
) -> "SortOrder | None":
    """Return the order of a sort compaction, None for another one; raises InvalidInputError."""
    from interbed.storage.write.sort.key import SortOrder

    order = SortOrder.of(schema, strategy, order_by)
    if order is not None and bucket is not None:
        raise InvalidInputError("A sort compaction takes whole partitions; leave the bucket out.")
    if order is not None and partition_idle_time is not None:
        raise InvalidInputError("A sort compaction does not go by the idle time of partitions; name them instead.")
    return order


def chosen_partitions(partitions: "Partitions | None", store: "FileStore") -> "PartitionChoice":
    """Return the filter of the partitions that a caller names; raises InvalidInputError and FilterError."""
    from interbed.storage.scan.partition_filter import partition_choice

    return partition_choice(partitions, store.schema.fields)
