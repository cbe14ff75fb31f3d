"""How a scan's splits are partitioned, for Spark's storage-partitioned joins: by partition columns, then by bucket.

Spark joins two tables without a shuffle when the splits of both report the same kind of key.
"""

from collections.abc import Sequence
from typing import Any

from interbed.spark_ext.handle.clustering import clustering_of
from interbed.spark_ext.values.literals import has_literal, literals
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.split import Split
from interbed.thrift_idl.planner.ttypes import ScanPartitioning

_BUCKET = AtomicType(root=TypeRoot.INT)


def partitioning_of(schema: TableSchema, splits: Sequence[Split]) -> tuple[ScanPartitioning, list[str]] | None:
    """The partitioning and the key of each split; None where the splits have no key that Spark can follow.

    Splits of a table whose buckets the JVM can't compute, or which was rescaled and has partitions with other numbers
    of buckets, are not distinguished by bucket.
    """
    partition = schema.partition_fields
    if not all(has_literal(field.type) for field in partition) or any(s.tells_changes or s.branch for s in splits):
        return None
    clustering: Any = clustering_of(schema)
    count = clustering.bucketCount if clustering.strict else 0
    columns = list(clustering.bucketColumns)
    # Spark looks bucket functions up by one column only.
    by_bucket = count > 0 and len(columns) == 1 and all(s.total_buckets == count and s.bucket >= 0 for s in splits)
    if not by_bucket and not partition:
        return None
    types = [field.type for field in partition]
    keys: list[str] = []
    known: dict[tuple[bytes, int], str] = {}
    for split in splits:
        place = (split.partition, split.bucket if by_bucket else 0)
        if place not in known:
            values = decode_row(split.partition, types)
            known[place] = literals((*values, place[1]), (*types, _BUCKET)) if by_bucket else literals(values, types)
        keys.append(known[place])
    partitioning = ScanPartitioning(
        columns=[field.name for field in partition],
        bucketCount=count if by_bucket else 0,
        bucketColumns=columns if by_bucket else [],
    )
    return partitioning, keys
