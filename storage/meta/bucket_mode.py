"""The five ways in which rows find their buckets (specification: concepts on data distribution)."""

from enum import StrEnum

from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import TableSchema

DYNAMIC_BUCKETS = -1
"""The option `bucket` of tables whose buckets are made as rows come, and of append tables without buckets."""


class BucketMode(StrEnum):
    """How a table's rows are spread."""

    FIXED = "fixed"
    """By a hash of the bucket key, over a number of buckets that the option says."""
    DYNAMIC = "dynamic"
    """A key stays where it was first put, which the partition's hash indexes remember."""
    CROSS_PARTITION = "cross-partition"
    """As dynamic, but a key may move between partitions; where it is, only the data files say."""
    POSTPONED = "postponed"
    """Rows wait, unseen, until a compaction takes them to buckets."""
    NONE = "none"
    """An append table without buckets."""


def bucket_mode(schema: TableSchema, options: CoreOptions) -> BucketMode:
    """How the table's rows are spread."""
    if options.bucket > 0:
        return BucketMode.FIXED
    if not schema.has_primary_key:
        return BucketMode.NONE
    if options.bucket == POSTPONE_BUCKET:
        return BucketMode.POSTPONED
    return BucketMode.CROSS_PARTITION if crosses_partitions(schema) else BucketMode.DYNAMIC


def crosses_partitions(schema: TableSchema) -> bool:
    """Whether the primary key leaves out a partition column, so that a key may move between partitions."""
    return schema.has_primary_key and not set(schema.partition_keys) <= set(schema.primary_keys)
