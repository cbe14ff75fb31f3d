"""Clustering of rows by Spark before a write, so that one task writes each bucket."""

from typing import Any

from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, DataType
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.thrift_idl.planner.ttypes import WriteClustering

# The JVM sees timestamps without their declared precision, and hashes them as of a precision in this range.
_HASHED_PRECISIONS = range(4, 7)


def clustering_of(schema: TableSchema, unit: int = 0) -> WriteClustering:
    """Return the clustering that a write to the table requires of Spark.

    With a fixed number of buckets: by partition and bucket, strictly. Two writers of one bucket would write a sorted
    run each and, with a primary key, give the same sequence numbers to different rows of one key. When the JVM has no
    equal bucket function, rows are clustered by the bucket columns instead.

    With dynamic buckets: by partition, strictly, since one task has to choose the buckets of all of a partition's keys.
    Without partitions, or with keys that cross them, all rows go to one task (as the one bucket of a hash).

    Without buckets, and with postponed buckets: by partition, to write fewer files, and not strictly, so that Spark may
    split a large partition among tasks. When a batch goes to real buckets of a table with postponed ones, `unit`
    divides their number in each partition (`Table.access.bucket_unit`), and rows are clustered as for `unit`
    fixed buckets.
    """
    keys = list(schema.bucket_keys)
    partition = list(schema.partition_keys)
    match bucket_mode(schema, schema.core):
        case BucketMode.POSTPONED if unit:
            return _by_bucket(schema, unit)
        case BucketMode.NONE | BucketMode.POSTPONED:
            return WriteClustering(columns=partition, bucketCount=0, bucketColumns=[], strict=False)
        case BucketMode.DYNAMIC if partition:
            return WriteClustering(columns=partition, bucketCount=0, bucketColumns=[], strict=True)
        case BucketMode.DYNAMIC | BucketMode.CROSS_PARTITION:
            return WriteClustering(columns=[], bucketCount=1, bucketColumns=keys, strict=True)
        case BucketMode.FIXED:
            return _by_bucket(schema, schema.core.bucket)


def clustering_of_changes(schema: TableSchema, unit: int) -> WriteClustering | None:
    """Return the clustering of a MERGE's rows if that of other writes may give the rows of one key to several tasks.

    These are writes to the postponed bucket; a task detects the keys that a MERGE writes twice.
    """
    if unit or not schema.has_primary_key or bucket_mode(schema, schema.core) is not BucketMode.POSTPONED:
        return None
    partition = list(schema.partition_keys)
    keys = [name for name in schema.primary_keys if name not in partition]
    return WriteClustering(columns=[*partition, *keys], bucketCount=0, bucketColumns=[], strict=True)


def _by_bucket(schema: TableSchema, buckets: int) -> WriteClustering:
    keys, partition = list(schema.bucket_keys), list(schema.partition_keys)
    function = schema.core.text("bucket-function.type", "default").lower()
    if function == "default" and all(_is_hashed_alike(schema.by_name[k].type) for k in keys):
        return WriteClustering(columns=partition, bucketCount=buckets, bucketColumns=keys, strict=True)
    if schema.core.bucket == POSTPONE_BUCKET:
        # Tasks that share a bucket would compact it twice. A single bucket of all rows needs no function.
        counted = 0 if partition else 1
        return WriteClustering(
            columns=partition, bucketCount=counted, bucketColumns=[] if partition else keys, strict=True
        )
    return WriteClustering(columns=partition + keys, bucketCount=0, bucketColumns=[], strict=True)


def without_functions(clustering: Any) -> WriteClustering:
    """Return the clustering without a catalog that has the bucket function: by the bucket columns themselves.

    Rows of one key are still in one task; those of one bucket need not be.
    """
    if not clustering.bucketCount:
        unchanged: WriteClustering = clustering
        return unchanged
    return WriteClustering(
        columns=[*clustering.columns, *clustering.bucketColumns],
        bucketCount=0,
        bucketColumns=[],
        strict=clustering.strict,
        oneTask=not clustering.columns and clustering.bucketCount == 1,
    )


def _is_hashed_alike(data_type: DataType) -> bool:
    if not isinstance(data_type, AtomicType):
        return False
    return data_type.root not in TIMESTAMPS or data_type.precision in _HASHED_PRECISIONS
