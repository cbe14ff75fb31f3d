"""Keeping a table in shape, as its methods: compaction, sorting, other numbers of buckets."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.file_store import changes_table

if TYPE_CHECKING:
    from interbed.storage.meta.file_store import FileStore
    from interbed.storage.scan.partition_filter import PartitionChoice, Partitions
    from interbed.storage.upkeep.compact_result import CompactionResult, PlannedCompaction, Progress
    from interbed.storage.upkeep.health import TableHealth
    from interbed.storage.upkeep.rescale import RescaleResult
    from interbed.storage.upkeep.rewrite_indexes import IndexRewrite
    from interbed.storage.write.sort.order import SortOrder


class TableUpkeep:
    """What `Table` can do for its files; `store` is the table's."""

    name: str
    store: "FileStore"

    @changes_table
    def compact(
        self,
        *,
        full: bool = True,
        partitions: "Partitions | None" = None,
        bucket: int | None = None,
        partition_idle_time: timedelta | None = None,
        order_strategy: str | None = None,
        order_by: Sequence[str] | str | None = None,
        progress: "Progress | None" = None,
    ) -> "CompactionResult":
        """Merge the sorted runs of every bucket into one (small files into larger ones on append tables).

        Without `full` only what the universal strategy finds due is done. `partitions` and `bucket` restrict it, and
        `partition_idle_time` to partitions that got nothing new for so long. The rows stay as they are; the result is
        one COMPACT snapshot, or none when there was nothing to do. `progress` is called after each bucket with
        how many are done, and how many there are.

        With `order_strategy` `order`, `zorder` or `hilbert` all rows of the chosen partitions of an append table
        without buckets are written anew in the order of the columns `order_by` (a sequence, or names with commas), so
        that filters on them leave more files out. Raises InvalidInputError for what does not go together,
        NotSupportedError for a table that can't be sorted, CommitConflictError when another compaction was faster.
        """
        from interbed.storage.upkeep.compact_table import compact_table
        from interbed.storage.upkeep.sort_compact import sort_compact_table

        order = self._sort_order(order_strategy, order_by, bucket, partition_idle_time)
        chosen = self._chosen(partitions)
        user = str(uuid.uuid4())
        if order is not None:
            return sort_compact_table(self.store, user, order, partition=chosen, progress=progress)
        return compact_table(
            self.store,
            user,
            full=full,
            partition=chosen,
            bucket=bucket,
            partition_idle_time=partition_idle_time,
            progress=progress,
        )

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
        """What `compact` would do now, why, and what it would cost, bucket by bucket; nothing is changed."""
        from interbed.storage.upkeep.compact_table import plan_table_compaction
        from interbed.storage.upkeep.sort_compact import plan_sort_compaction

        order = self._sort_order(order_strategy, order_by, bucket, partition_idle_time)
        chosen = self._chosen(partitions)
        if order is not None:
            return plan_sort_compaction(self.store, order, partition=chosen)
        return plan_table_compaction(
            self.store, full=full, partition=chosen, bucket=bucket, partition_idle_time=partition_idle_time
        )

    def health(self) -> "TableHealth":
        """How much upkeep the table needs, from 0 to 100 with reasons, and the figures behind that, bucket by bucket.

        Only metadata of the newest snapshot are read. Raises CorruptFileError naming a file that can't be.
        """
        from interbed.storage.upkeep.health import table_health

        return table_health(self.store)

    @changes_table
    def rescale(
        self,
        bucket_num: int | None = None,
        partitions: "Partitions | None" = None,
    ) -> "RescaleResult":
        """Spread the rows over another number of buckets, by default the one of the option `bucket`.

        Without `partitions` those of the whole table, and the option `bucket` is changed, also of this object; else
        those of the partitions chosen, and the option stays. The result is one OVERWRITE snapshot, or none when there
        was nothing to do. Raises NotSupportedError for a table without fixed or postponed buckets, InvalidInputError
        for an impossible number, CommitConflictError when other writers came first again and again.
        """
        from interbed.storage.upkeep.rescale import rescale_table

        result = rescale_table(self.store, lambda: str(uuid.uuid4()), bucket_num, self._chosen(partitions))
        self._follow()
        return result

    @changes_table
    def rewrite_file_index(
        self,
        *,
        partitions: "Partitions | None" = None,
    ) -> "IndexRewrite":
        """Give files that there are the indexes that the options `file-index.…` ask of new ones; rows are not written.

        Partitions are chosen as in `compact`. The result is one COMPACT snapshot, or none when all files have them.
        Raises NotSupportedError for indexes other than bloom filters of a table with a primary key,
        CommitConflictError when another writer replaced a file meanwhile.
        """
        from interbed.storage.upkeep.rewrite_indexes import rewrite_file_indexes

        return rewrite_file_indexes(self.store, self._chosen(partitions))

    def _sort_order(
        self,
        strategy: str | None,
        order_by: Sequence[str] | str | None,
        bucket: int | None,
        partition_idle_time: timedelta | None,
    ) -> "SortOrder | None":
        from interbed.storage.write.sort.order import SortOrder

        order = SortOrder.of(self.store.schema, strategy, order_by)
        if order is not None and bucket is not None:
            raise InvalidInputError("A sort compaction takes whole partitions; leave the bucket out.")
        if order is not None and partition_idle_time is not None:
            raise InvalidInputError("A sort compaction does not go by the idle time of partitions; name them instead.")
        return order

    def _follow(self) -> None:
        """Take the newest schema, which a method has made."""
        raise NotImplementedError

    def _chosen(self, partitions: "Partitions | None") -> "PartitionChoice":
        from interbed.storage.scan.partition_filter import partition_choice

        return partition_choice(partitions, self.store.schema.fields)
