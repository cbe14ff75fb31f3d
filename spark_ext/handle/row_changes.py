"""UPDATE, DELETE and MERGE INTO: which tables take them, by which columns rows are found again, and what is sent.

A primary-key table finds rows by their key, and a change is a row with its kind. Which merge engines take which
statement is Paimon's choice (documentation page `spark/sql-write`). An append table finds rows by file and position; an
updated row goes and comes.
"""

import json
from collections.abc import Sequence

from interbed.spark_ext.handle.hidden_columns import OLD_ROW, needs_old_rows
from interbed.spark_ext.values.predicates import Handling, conjunction_of, handling_of
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.types.data_type import AtomicType, TypeRoot, is_atomic
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.positions import FILE_PATH, ROW_INDEX
from interbed.storage.scan.partition_filter import PartitionFilter, partition_filter
from interbed.storage.write.kept_updates import keep_rules, kept_for_null
from interbed.storage.write.row_statements import DELETE, MERGE, UPDATABLE, UPDATE, delete_refusal, refusals
from interbed.thrift_idl.planner.ttypes import RowChanges, SequenceRule, WriteClustering

KIND = "_row_kind"
"""The column of row kinds beside the table's own, as the JVM sends it."""


def row_changes_of(name: str, schema: TableSchema) -> RowChanges:
    """The description of a table for Spark."""
    keys = list(schema.primary_keys)
    if not keys:
        # A file that is written anew is one task's; a deletion vector can be put together from several. New rows have
        # no file, and a bucket is best written by one task.
        by_file = WriteClustering(
            columns=[FILE_PATH],
            bucketCount=0,
            bucketColumns=[],
            strict=not schema.core.deletion_vectors_enabled,
            spread=_spread_by(schema),
        )
        return RowChanges(
            rowId=[FILE_PATH, ROW_INDEX], toldOfRows={}, refusals={}, splitsUpdates=True, clustering=by_file
        )
    sent = {}
    if needs_old_rows(schema):
        sent = {DELETE: [n for n in schema.names if n not in keys], MERGE: [OLD_ROW]}
    sequences, kept = _sequences(schema), list(kept_for_null(schema))
    if sequences or kept:
        sent[UPDATE] = [OLD_ROW]
    return RowChanges(
        rowId=keys,
        toldOfRows=sent,
        refusals=refusals(name, schema),
        splitsUpdates=False,
        upserts=_upserts(schema),
        deletesByKey=_deletes_by_key(schema),
        sequences=sequences,
        keptForNull=kept,
    )


def _sequences(schema: TableSchema) -> list[SequenceRule]:
    """The rules by which the table drops an updated row, or some of its columns."""
    return [
        SequenceRule(
            sequence=list(rule.sequence),
            descending=rule.descending,
            columns=list(rule.columns),
            needsSequence=rule.is_group,
        )
        for rule in keep_rules(schema)
    ]


def _upserts(schema: TableSchema) -> bool:
    """Whether writing a row does the same whether its key is there or not, and one task gets all rows of a key."""
    options = schema.core
    return (
        options.merge_engine in UPDATABLE
        # An updated row may be refused for what the old one is.
        and not _sequences(schema)
        # These make a difference between a row that comes and one that is updated.
        and options.changelog_producer is not ChangelogProducer.INPUT
        and options.rowkind_field is None
        and bucket_mode(schema, options) is not BucketMode.POSTPONED
        and _has_exact_keys(schema)
    )


def _deletes_by_key(schema: TableSchema) -> bool:
    """Whether a row that deletes needs no more than a key, which may be one that is not there."""
    return (
        delete_refusal(schema, schema.core) is None
        and not needs_old_rows(schema)
        and _has_exact_keys(schema)
        # Where buckets are given out, or looked for later, a key that is not there has none.
        and bucket_mode(schema, schema.core) is BucketMode.FIXED
        # A partition that is not there would come to be.
        and not schema.partition_keys
    )


def _has_exact_keys(schema: TableSchema) -> bool:
    """Whether keys that are equal to Spark are one key; zeros of either sign are equal to it, and two keys."""
    return not any(is_atomic(schema.by_name[k].type, TypeRoot.FLOAT, TypeRoot.DOUBLE) for k in schema.primary_keys)


def _spread_by(schema: TableSchema) -> list[str]:
    """The columns by which new rows are spread, the partition's first."""
    if schema.bucket_keys:
        return []
    partition = list(schema.partition_keys)
    return partition + [f.name for f in schema.fields if f.name not in partition and isinstance(f.type, AtomicType)]


def partitions_scanned(schema: TableSchema, filters: Sequence[str] | None) -> PartitionFilter:
    """The partitions that a scan with these filters reads; without filters all of them."""
    keys = schema.partition_keys
    bound = [f for f in filters or () if handling_of(f, schema.fields, keys) is Handling.EXACT]
    predicate = conjunction_of(bound, schema.partition_fields)
    return partition_filter(predicate, schema.partition_fields, default_name=schema.core.partition_default_name)


def whole_partitions(schema: TableSchema, filters: Sequence[str]) -> Predicate | None:
    """What the filters amount to over partition columns; None when some partition may fulfil them in part."""
    said = [f for f in filters if json.loads(f).get("op") != "ALWAYS_TRUE"]
    if any(handling_of(f, schema.fields, schema.partition_keys) is not Handling.EXACT for f in said):
        return None
    found = conjunction_of(said, schema.partition_fields)
    return AlwaysTrue() if found is None else found
