"""Which rows have to be written by the same task: names of groups, by table, partition and bucket.

Two writers of one bucket would make a sorted run each, and give the same sequence numbers to different rows of one key;
see handle.clustering for the buckets that are not fixed. Groups of one table come after one another in the order of
their names.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.choose import BucketChooser, BucketsByPartition, FixedBuckets, OneBucket
from interbed.storage.write.bucket.placed import distinct_partitions

_DIGITS = 6


class TaskGroups:
    """Parts the rows of one table, the how-manieth one of a run is `number`.

    `unit` is Table.bucket_unit. Rows of a table without buckets may be written anywhere: by each of the tasks that read
    them, `task`, in a group of its own.
    """

    def __init__(self, table: Table, number: int, unit: int, task: int) -> None:
        schema, options = table.schema, table.options
        self._schema = schema
        self._begin = f"{number:0{_DIGITS}}/"
        self._by_partition = True
        self._chooser: BucketChooser = OneBucket(0)
        match bucket_mode(schema, options):
            case BucketMode.FIXED:
                self._chooser = FixedBuckets(schema, options)
            case BucketMode.POSTPONED if unit:
                self._chooser = BucketsByPartition(schema, options, lambda _: unit)
            case BucketMode.DYNAMIC:
                pass
            case BucketMode.CROSS_PARTITION | BucketMode.POSTPONED:
                self._by_partition = False
            case BucketMode.NONE:
                self._chooser, self._by_partition = OneBucket(task), False

    def parted(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Ints]]:
        """The names of the groups, and the numbers of the rows of each in their order."""
        partitions, codes = distinct_partitions(batch, self._schema)
        buckets = self._chooser.choose(batch, partitions, codes).astype(np.int64)
        width = int(buckets.max()) + 1
        groups = buckets if not self._by_partition else codes * width + buckets
        order = np.argsort(groups, kind="stable")
        firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for rows in np.split(order, firsts[1:]):
            partition, bucket = divmod(int(groups[rows[0]]), width)
            name = partitions[partition].hex() if self._by_partition else ""
            yield f"{self._begin}{name}/{bucket}", rows


def table_number(group: str) -> int:
    """The number of the table that a group is of."""
    return int(group[:_DIGITS])
