"""Overwrite of some partitions of a table whose keys move between partitions.

The files of such a table can't just be replaced, because keys of the new rows may be in partitions that stay. So the
writer deletes these keys there, as any upsert does, and deletes the rows of the replaced partitions whose keys are not
written again. The commit is an append.
"""

from dataclasses import replace

import numpy as np

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.scan.partition_filter import (
    PartitionChoice,
    PartitionFilter,
    PartitionSet,
    partition_filter,
    selects_all,
)
from interbed.storage.write.bucket.cross_partition import ReplacingCrossPartition
from interbed.storage.write.bucket_restore import LatestBuckets, NothingBefore
from interbed.storage.write.bucket_strategy import (
    BucketStrategy,
    CrossPartitionStrategy,
    MakeStrategy,
    strategy_of,
)
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite


def overwriting(
    store: FileStore, commit_user: str, partition: PartitionChoice, *, strategy: MakeStrategy = strategy_of
) -> TableWrite:
    """Return the writer of an overwrite of the chosen partitions: all for {}, those that get rows for None.

    Its messages are for `FileStoreCommit.overwrite`.
    """
    some = bool(store.schema.partition_keys) and (partition is None or not selects_all(partition))
    if some and _takes_deletions(store):
        return ReplacingWrite(store, commit_user, partition)
    return TableWrite(store, commit_user, NothingBefore, strategy=strategy)


def _takes_deletions(store: FileStore) -> bool:
    options = store.options
    return (
        bucket_mode(store.schema, options) is BucketMode.CROSS_PARTITION
        and options.merge_engine is MergeEngine.DEDUPLICATE
        and not options.ignore_delete
        and options.rowkind_field is None
    )


class ReplacingWrite(TableWrite):
    """Writer of an overwrite of some partitions, for tables whose keys move between partitions.

    There must be no other writer of the same overwrite, because each would delete the rows of the others.
    """

    def __init__(self, store: FileStore, commit_user: str, partition: PartitionChoice) -> None:
        super().__init__(store, commit_user, strategy=self._make_strategy)
        self._partition = partition

    def _make_strategy(self, store: FileStore, commit_user: str, latest: LatestBuckets) -> BucketStrategy:
        self._replacing = ReplacingCrossPartition(store, commit_user, latest.get)
        return CrossPartitionStrategy(store, latest, self._replacing)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Prepare the commit as TableWrite does; raise InvalidInputError for rows outside of the overwritten
        partitions.
        """
        self._check_open()
        with self._aborted_by_errors():
            target = self._target()
            for left in self._replacing.rows_left(target):
                self.write_arrow(left, from_numpy(np.full(left.num_rows, RowKind.DELETE, np.int8)))
        messages = super().prepare_commit(wait_compaction=wait_compaction)
        return [replace(message, replaces=True) for message in messages]

    def _target(self) -> PartitionFilter:
        schema, written = self._schema, self._replacing.partitions_written
        if self._partition is None:
            return PartitionSet(written, schema.partition_fields)
        default_name = self._options.partition_default_name
        target = partition_filter(self._partition, schema.partition_fields, default_name=default_name)
        outside = written - target.select(written)
        if outside:
            place = self._store.paths.readable_partition(min(outside))
            raise InvalidInputError(
                f"The new data have rows of partition {place}, which is not among the partitions to be overwritten."
            )
        return target
