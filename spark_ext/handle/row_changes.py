"""UPDATE, DELETE and MERGE INTO: which tables take them, by which columns rows are found again, and what is sent.

A primary-key table finds rows by their key, and a change is a row with its kind. Which merge engines take which
statement is Paimon's choice (documentation page `spark/sql-write`). An append table finds rows by file and position; an
updated row is deleted and added.

Such columns are hidden: read when a query names them. `__interbed_row` is a row as a whole, by which a MERGE records
what it deletes where the key alone is not enough. Append tables have `__paimon_file_path` and `__paimon_row_index`, as
in Paimon's connector.

A write may also bring more columns than the table's: new ones, or one with the kind of each row (`RowsToCome`). A write
that merges its columns into the table's (Paimon's documentation: spark/sql-write, "Write Merge Schema") is analysed
against the schema that the table will have. The schema is created when the job is planned, before any task starts:
files name their schema, and an EXPLAIN changes nothing. It stays if the job fails then. That loses nothing, since the
new schema holds every row of the table.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.values.predicates import Handling, conjunction_of, handling_of
from interbed.spark_ext.values.spark_types import schema_from_spark, schema_to_spark, type_to_spark
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.types.data_type import (
    BINARIES,
    MAX_LENGTH,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    is_atomic,
)
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.merge_schema import MergeRules, merge_changes, merge_into, same_column
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.positions import FILE_PATH, LocatedRead
from interbed.storage.read.pushdown import TopRead
from interbed.storage.scan.partition_filter import PartitionFilter, partition_filter
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Top
from interbed.storage.table.option_rules import changed_schema
from interbed.storage.table.table import Table
from interbed.storage.write.row_statements import (
    DELETE,
    MERGE,
    UPDATABLE,
    UPDATE,
    delete_refusal,
    keep_rules,
    kept_for_null,
    refusals,
)
from interbed.thrift_idl.planner.ttypes import HiddenColumn, RowChanges, SequenceRule, WriteClustering

OLD_ROW = "__interbed_row"

_COMMENTS = {
    OLD_ROW: "The row as a whole",
    FILE_PATH: "The data file that holds the row",
    ROW_INDEX: "The row's position in its data file, from 0",
}
# Ids of hidden columns mean nothing: no file has them.
_FIRST_ID = 2**31 - 100


def hidden_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The hidden columns of a table."""
    if schema.has_primary_key:
        whole = RowType(schema.fields, nullable=False)
        return (DataField(id=_FIRST_ID, name=OLD_ROW, type=whole),) if needs_old_rows(schema) else ()
    path = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=False)
    index = AtomicType(TypeRoot.BIGINT, nullable=False)
    return (
        DataField(id=_FIRST_ID, name=FILE_PATH, type=path),
        DataField(id=_FIRST_ID + 1, name=ROW_INDEX, type=index),
    )


def hidden_columns_of(schema: TableSchema) -> list[HiddenColumn]:
    """Their description for Spark."""
    return [
        HiddenColumn(
            name=f.name,
            typeJson=json.dumps(json.loads(schema_to_spark([f]))["fields"][0]["type"]),
            nullable=f.type.nullable,
            comment=_COMMENTS[f.name],
        )
        for f in hidden_fields(schema)
    ]


def needs_old_rows(schema: TableSchema) -> bool:
    """Whether a statement has to send all of a row that it deletes: the key alone is not enough for the table's merge.

    Where it is enough a DELETE reads the key and the columns of its condition only.
    """
    options = schema.core
    keys = {*schema.primary_keys}
    return (
        options.merge_engine is not MergeEngine.DEDUPLICATE
        or bool(options.sequence_fields)
        # Java Paimon looks at the time of every record, also of one that deletes.
        or bool(options.text("record-level.time-field", ""))
        or options.changelog_producer is ChangelogProducer.INPUT
        or not keys.issuperset(schema.partition_keys)
        or any(not f.type.nullable for f in schema.fields if f.name not in keys)
    )


def read_with_hidden(
    table: Table, columns: Sequence[str], predicate: Predicate | None, split: Split, *, top: Top | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, with `top` those that may be among its first ones, with the columns asked for.

    Some of the columns may be hidden. Raises as TableRead does.
    """
    if split.branch is not None:
        table, split = table.branch(split.branch), replace(split, branch=None)
    own = tuple(c for c in columns if c in table.schema.by_name)
    if len(own) == len(columns):
        read = table.new_read(own, predicate) if top is None else TopRead(table.store, own, predicate, top)
        yield from read.to_batches(split)
    elif OLD_ROW in columns:
        for batch in table.new_read(None, predicate).to_batches(split):
            whole = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            arrays = [whole if c == OLD_ROW else batch.column(c) for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
    else:
        for batch in LocatedRead(table.store, own, predicate).to_batches(split):
            yield batch.select(list(columns))


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


_UNTYPED = "void"

KIND_COLUMNS = ("_row_kind_", "_row_kind", "rowkind")
"""Columns of a DataFrame that hold the kinds of its rows: Paimon's in Spark, ours, and that of an audit log."""

_KIND_TYPES = ("byte", "short", "integer", "long", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToCome:
    """Spark's StructType of the rows of a write, as JSON, and whether names that differ by case are two names."""

    schema_json: str
    case_sensitive: bool

    def merged(self, schema: TableSchema, options: CoreOptions) -> TableSchema:
        """The schema as the write will make it, the same one if the rows fit; raises SchemaMismatchError."""
        rules = self._rules(options)
        changes = merge_changes(schema, self._fields(schema, rules), rules)
        return changed_schema(schema, changes) if changes else schema

    def merge_into(self, store: FileStore) -> FileStore:
        """Make the schema; raises SchemaMismatchError and CommitFailedError."""
        rules = self._rules(store.options)
        return merge_into(store, self._fields(store.schema, rules), rules)

    def _rules(self, options: CoreOptions) -> MergeRules:
        return MergeRules(
            widens=options.widens_types, casts=options.casts_types, case_sensitive=self.case_sensitive, takes=_takes
        )

    def _fields(self, schema: TableSchema, rules: MergeRules) -> tuple[DataField, ...]:
        struct = json.loads(self.schema_json)
        # NULL has no type; where the table has the column it needs none.
        struct["fields"] = [
            f for f in struct["fields"] if f["type"] != _UNTYPED or same_column(schema.fields, f["name"], rules) is None
        ]
        return schema_from_spark(json.dumps(struct))


def kind_field(schema_json: str, table: TableSchema) -> Any:
    """Of a StructType in JSON the field with the kinds of the rows, if there is one that is no column of the table.

    Raises SchemaMismatchError for two of them, and for one of another type.
    """
    own = {name.lower() for name in table.names}
    fields = json.loads(schema_json)["fields"]
    found = [f for f in fields if f["name"].lower() in KIND_COLUMNS and f["name"].lower() not in own]
    if not found:
        return None
    first, *others = found
    if others:
        raise SchemaMismatchError(
            f"Both '{first['name']}' and '{others[0]['name']}' would hold the kinds of the rows. Drop one of them."
        )
    if first["type"] not in _KIND_TYPES:
        raise SchemaMismatchError(
            f"The column '{first['name']}' holds the kinds of the rows, 0 to 3 or +I, -U, +U and -D; it is of type "
            f"{first['type']}. Cast it, or give it another name if it is a column of its own."
        )
    return first


def _takes(table: DataType, rows: DataType) -> bool:
    """Whether Spark writes the rows' values into a column of the table's type, without loss.

    It knows fewer types than tables have, and makes text of any plain value.
    """
    if isinstance(table, AtomicType) and table.root is TypeRoot.VARCHAR and table.length == MAX_LENGTH:
        return isinstance(rows, AtomicType) and rows.root not in BINARIES
    return bool(type_to_spark(table) == type_to_spark(rows))
