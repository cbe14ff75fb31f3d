"""How Spark clusters rows before a write, so that one task writes each bucket."""

from typing import Any

from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, DataType
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.thrift_idl.planner.ttypes import WriteClustering

# The JVM sees timestamps without their declared precision and hashes them as of this one and the next coarser three.
_HASHED_PRECISIONS = range(4, 7)


def clustering_of(schema: TableSchema, unit: int = 0) -> WriteClustering:
    """The clustering that a write to the table asks of Spark.

    With a fixed number of buckets: by partition and bucket, strictly, since two writers of one bucket would make a
    sorted run each and, with a primary key, give the same sequence numbers to different rows of one key. Where the
    JVM's bucket function can't follow the table's, the bucket columns themselves stand in.

    With dynamic buckets: by partition, strictly, since one task has to choose the buckets of all of a partition's keys;
    all rows in one task (the one bucket of a hash over a single one) where there are no partitions or keys cross them.
    Without buckets, and where rows wait for theirs: by partition, to write fewer files, and not strictly, so that Spark
    may split a large partition among tasks. Where a batch goes to real buckets although they are postponed, `unit`
    divides their number in each partition (`Table.access.bucket_unit`): as with so many fixed buckets.
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
    """The clustering for Spark where there is no catalog to find the bucket function in: by the columns themselves.

    Rows of one key still meet in one task, and those of one bucket need not.
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
