"""The five ways in which rows are assigned to buckets (specification: concepts on data distribution)."""

from enum import StrEnum

from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import TableSchema

DYNAMIC_BUCKETS = -1
"""Value of the option `bucket` for tables with dynamic buckets, and for append tables without buckets."""


class BucketMode(StrEnum):
    """Assignment of a table's rows to buckets."""

    FIXED = "fixed"
    """By a hash of the bucket key, over a fixed number of buckets."""
    DYNAMIC = "dynamic"
    """A key stays in its first bucket, which the partition's hash indexes record."""
    CROSS_PARTITION = "cross-partition"
    """As dynamic, but a key may move between partitions; only the data files show where it is."""
    POSTPONED = "postponed"
    """Rows wait, invisible, until a compaction moves them to buckets."""
    NONE = "none"
    """An append table without buckets."""


def bucket_mode(schema: TableSchema, options: CoreOptions) -> BucketMode:
    """Return the bucket mode of a table."""
    if options.bucket > 0:
        return BucketMode.FIXED
    if not schema.has_primary_key:
        return BucketMode.NONE
    if options.bucket == POSTPONE_BUCKET:
        return BucketMode.POSTPONED
    return BucketMode.CROSS_PARTITION if crosses_partitions(schema) else BucketMode.DYNAMIC


def crosses_partitions(schema: TableSchema) -> bool:
    """Return whether the primary key leaves out a partition column, so that a key may move between partitions."""
    return schema.has_primary_key and not set(schema.partition_keys) <= set(schema.primary_keys)
