"""UPDATE, DELETE and MERGE INTO: the tables that support them, the columns that identify rows, and the data sent.

In a primary-key table the key identifies a row, and a change is a row with its kind. The statements of each merge
engine are Paimon's (documentation page `spark/sql-write`). In an append table file and position identify a row; an
updated row is deleted and added.

Such columns are hidden: they are read when a query names them. `__interbed_row` is the whole row, with which a MERGE
deletes a row when the key alone is not enough. `__interbed_stored_<column>` is a CHAR of the key as it is stored: Spark
pads the key of a deleted row, which is another key then. Append tables have `__paimon_file_path` and
`__paimon_row_index`, as in Paimon's connector.

A write may also bring more columns than the table's: new ones, or one with the kind of each row (`RowsToCome`). A write
that merges its columns into the table's (Paimon's documentation: spark/sql-write, "Write Merge Schema") is analysed
against the schema that the table will have. The schema is created when the job is planned, before any task starts:
files name their schema, and an EXPLAIN changes nothing. It stays if the job fails then. That loses nothing, since the
new schema holds every row of the table.

Clustering of rows by Spark before a write, so that one task writes each bucket.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.values.predicates import FilterHandling, conjunction_of, handling_of
from interbed.spark_ext.values.spark_types import schema_from_spark, schema_to_spark, type_to_spark
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.predicate.conditions import char_lengths
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.types.data_type import (
    BINARIES,
    MAX_LENGTH,
    TIMESTAMPS,
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
from interbed.storage.meta.manifest.entry import ROW_ID
from interbed.storage.meta.merge_schema import MergeRules, merge_changes, merge_into, same_column
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.system_fields import readable_by_name, readable_fields
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from interbed.storage.read.columns import FILE_PATH, LocatedRead
from interbed.storage.read.pushdown import TopRead
from interbed.storage.scan.partition_filter import PartitionFilter, partition_filter
from interbed.storage.scan.split import Split
from interbed.storage.scan.starting_point import at_snapshot
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


OLD_ROW = "__interbed_row"
STORED = "__interbed_stored_"
"""The prefix of hidden columns with the texts of CHAR columns of the key as they are stored."""
RENAMED = "__interbed_change_"
"""The prefix of hidden columns under another name, for a statement that names the columns themselves."""

_COMMENTS = {
    OLD_ROW: "The row as a whole",
    FILE_PATH: "The data file that holds the row",
    ROW_INDEX: "The row's position in its data file, from 0",
    ROW_ID: "The row's id, which it keeps when it is updated or moved to another file",
    SEQUENCE_NUMBER: "The id of the snapshot that inserted or last updated the row",
}
# No file has the ids of hidden columns, so that any ids do.
_FIRST_ID = 2**31 - 100


def hidden_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the hidden columns of a table."""
    if schema.has_primary_key:
        whole = RowType(schema.fields, nullable=False)
        old = (DataField(id=_FIRST_ID, name=OLD_ROW, type=whole),) if needs_old_rows(schema) else ()
        text = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
        stored = (
            DataField(id=_FIRST_ID + number, name=name, type=text)
            for number, name in enumerate(_stored_keys(schema), len(old))
        )
        return (*old, *stored)
    path = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=False)
    index = AtomicType(TypeRoot.BIGINT, nullable=False)
    return (
        *readable_fields(schema)[len(schema.fields) :],
        DataField(id=_FIRST_ID, name=FILE_PATH, type=path),
        DataField(id=_FIRST_ID + 1, name=ROW_INDEX, type=index),
    )


def scanned_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the hidden columns that a scan may name: those of the table, and each of them under its other name."""
    fields = hidden_fields(schema)
    return (*fields, *(replace(f, name=f"{RENAMED}{f.name}") for f in fields))


def hidden_columns_of(schema: TableSchema) -> list[HiddenColumn]:
    """Describe the hidden columns of a table for Spark."""
    return [
        HiddenColumn(
            name=f.name,
            typeJson=json.dumps(_without_lengths(json.loads(schema_to_spark([f]))["fields"][0]["type"])),
            nullable=f.type.nullable,
            comment=_COMMENTS.get(f.name, "The text of a CHAR column as it is stored, without more blanks"),
        )
        for f in hidden_fields(schema)
    ]


def _stored_keys(schema: TableSchema) -> list[str]:
    return [f"{STORED}{name}" for name in char_lengths(schema.fields) if name in schema.primary_keys]


def _without_lengths(spark_type: Any) -> Any:
    """Return a type of Spark in JSON with STRING for CHAR and VARCHAR, which no plan of Spark has."""
    if isinstance(spark_type, str):
        return "string" if spark_type.startswith(("char(", "varchar(")) else spark_type
    if isinstance(spark_type, dict):
        inner = ("type", "elementType", "keyType", "valueType", "fields")
        return {key: _without_lengths(value) if key in inner else value for key, value in spark_type.items()}
    return [_without_lengths(each) for each in spark_type] if isinstance(spark_type, list) else spark_type


def needs_old_rows(schema: TableSchema) -> bool:
    """Return whether a statement has to send whole deleted rows, since the key is not enough for the table's merge.

    When it is enough, a DELETE reads only the key and the columns of its condition.
    """
    options = schema.core
    keys = {*schema.primary_keys}
    return (
        options.merge_engine is not MergeEngine.DEDUPLICATE
        or bool(options.sequence_fields)
        # Java Paimon reads the time of every record, deletions included.
        or bool(options.text("record-level.time-field", ""))
        or options.changelog_producer is ChangelogProducer.INPUT
        or not keys.issuperset(schema.partition_keys)
        or any(not f.type.nullable for f in schema.fields if f.name not in keys)
    )


def read_with_hidden(
    table: Table, columns: Sequence[str], predicate: Predicate | None, split: Split, *, top: Top | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split with these columns, which may be hidden; with `top` only candidates of the first rows.

    Raises the errors of TableRead.
    """
    if split.branch is not None:
        branch = table.branch(split.branch)
        table = Table(branch.name, at_snapshot(branch.store, split.snapshot_id)) if split.of_past else branch
        split = replace(split, branch=None, of_past=False)
    names = [c if c in table.schema.by_name else c.removeprefix(RENAMED).removeprefix(STORED) for c in columns]
    if names != list(columns):
        for batch in read_with_hidden(table, list(dict.fromkeys(names)), predicate, split, top=top):
            yield pa.RecordBatch.from_arrays([batch.column(c) for c in names], names=list(columns))
        return
    own = tuple(c for c in columns if c in readable_by_name(table.schema))
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
"""The column of row kinds that the JVM sends beside the table's columns."""


def row_changes_of(name: str, schema: TableSchema, unit: int) -> RowChanges:
    """Describe a table's support of row changes for Spark; see clustering_of for `unit`."""
    keys = list(schema.primary_keys)
    if not keys:
        by_column = schema.core.data_evolution_enabled
        # One task rewrites a file; a deletion vector can be merged from several tasks. New rows have no file, and one
        # task should write a bucket.
        by_file = WriteClustering(
            columns=[FILE_PATH],
            bucketCount=0,
            bucketColumns=[],
            strict=by_column or not schema.core.deletion_vectors_enabled,
            spread=_spread_by(schema),
        )
        if by_column:
            return RowChanges(
                rowId=[FILE_PATH, ROW_INDEX],
                toldOfRows={},
                refusals=refusals(name, schema),
                splitsUpdates=False,
                clustering=by_file,
                byColumn=True,
            )
        ids = [ROW_ID] if schema.core.row_tracking_enabled else []
        return RowChanges(
            rowId=[FILE_PATH, ROW_INDEX],
            toldOfRows={UPDATE: ids, MERGE: ids},
            refusals={},
            splitsUpdates=True,
            clustering=by_file,
        )
    sent: dict[str, list[str]] = {}
    if needs_old_rows(schema):
        sent = {DELETE: [n for n in schema.names if n not in keys], MERGE: [OLD_ROW]}
    sequences, kept = _sequences(schema), list(kept_for_null(schema))
    if sequences or kept:
        sent[UPDATE] = [OLD_ROW]
    if stored := _stored_keys(schema):
        sent |= {command: [*sent.get(command, []), *stored] for command in (DELETE, MERGE)}
    return RowChanges(
        rowId=keys,
        toldOfRows=sent,
        refusals=refusals(name, schema),
        splitsUpdates=False,
        clustering=clustering_of_changes(schema, unit),
        upserts=_upserts(schema),
        deletesByKey=_deletes_by_key(schema),
        sequences=sequences,
        keptForNull=kept,
    )


def _sequences(schema: TableSchema) -> list[SequenceRule]:
    """Return the rules by which the table drops an updated row, or some of its columns."""
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
    """Return whether an insert and an update of a row are the same write, and one task gets all rows of a key."""
    options = schema.core
    return (
        options.merge_engine in UPDATABLE
        # The old row may decide that an update is dropped.
        and not _sequences(schema)
        # With these, an inserted and an updated row differ.
        and options.changelog_producer is not ChangelogProducer.INPUT
        and options.rowkind_field is None
        # An inserted row has the default in place of null, an updated one has null.
        and all(f.default_value is None for f in schema.fields)
        and bucket_mode(schema, options) is not BucketMode.POSTPONED
        and _has_exact_keys(schema)
    )


def _deletes_by_key(schema: TableSchema) -> bool:
    """Return whether the key of a row, existing or not, is enough to delete it."""
    return (
        delete_refusal(schema, schema.core) is None
        and not needs_old_rows(schema)
        and _has_exact_keys(schema)
        # With dynamic or postponed buckets a missing key has no bucket.
        and bucket_mode(schema, schema.core) is BucketMode.FIXED
        # The deletion of a missing key would create its partition.
        and not schema.partition_keys
    )


def _has_exact_keys(schema: TableSchema) -> bool:
    """Return whether keys that are equal for Spark are one key.

    0.0 and -0.0 are equal for it, and texts of a CHAR that differ by blanks at the end; they are two keys.
    """
    inexact = (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.CHAR)
    return not any(is_atomic(schema.by_name[k].type, *inexact) for k in schema.primary_keys)


def _spread_by(schema: TableSchema) -> list[str]:
    """Return the columns by which new rows are distributed, the partition's first."""
    if schema.bucket_keys:
        return []
    partition = list(schema.partition_keys)
    return partition + [f.name for f in schema.fields if f.name not in partition and isinstance(f.type, AtomicType)]


def partitions_scanned(schema: TableSchema, filters: Sequence[str] | None) -> PartitionFilter:
    """Return the partitions that a scan with these filters reads; without filters all of them."""
    keys = schema.partition_keys
    bound = [f for f in filters or () if handling_of(f, schema.fields, keys) is FilterHandling.EXACT]
    predicate = conjunction_of(bound, schema.partition_fields)
    return partition_filter(predicate, schema.partition_fields, default_name=schema.core.partition_default_name)


def whole_partitions(schema: TableSchema, filters: Sequence[str]) -> Predicate | None:
    """Return the predicate of filters that select whole partitions; None when they may select a part of one."""
    said = [f for f in filters if json.loads(f).get("op") != "ALWAYS_TRUE"]
    if any(handling_of(f, schema.fields, schema.partition_keys) is not FilterHandling.EXACT for f in said):
        return None
    found = conjunction_of(said, schema.partition_fields)
    return AlwaysTrue() if found is None else found


_UNTYPED = "void"

KIND_COLUMNS = ("_row_kind_", "_row_kind", "rowkind")
"""Columns of a DataFrame with the kinds of its rows: Paimon's in Spark, ours, and that of an audit log."""

_KIND_TYPES = ("byte", "short", "integer", "long", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToCome:
    """Schema of the rows of a write: Spark's StructType as JSON, and whether names are case-sensitive."""

    schema_json: str
    case_sensitive: bool

    def merged(self, schema: TableSchema, options: CoreOptions) -> TableSchema:
        """Return the schema that the write will create, the same one if the rows fit. Raises SchemaMismatchError."""
        rules = self._rules(options)
        changes = merge_changes(schema, self._fields(schema, rules), rules)
        return changed_schema(schema, changes) if changes else schema

    def merge_into(self, store: FileStore) -> FileStore:
        """Create the merged schema. Raises SchemaMismatchError and CommitFailedError."""
        rules = self._rules(store.options)
        return merge_into(store, self._fields(store.schema, rules), rules)

    def _rules(self, options: CoreOptions) -> MergeRules:
        return MergeRules(
            widens=options.widens_types, casts=options.casts_types, case_sensitive=self.case_sensitive, takes=_takes
        )

    def _fields(self, schema: TableSchema, rules: MergeRules) -> tuple[DataField, ...]:
        struct = json.loads(self.schema_json)
        # NULL has no type, and needs none for a column of the table.
        struct["fields"] = [
            f for f in struct["fields"] if f["type"] != _UNTYPED or same_column(schema.fields, f["name"], rules) is None
        ]
        return schema_from_spark(json.dumps(struct))


def kind_field(schema_json: str, table: TableSchema) -> Any:
    """Return the field of a StructType in JSON with the kinds of the rows; None without one.

    A column of the table is no such field. Raises SchemaMismatchError for two fields, and for one of another type.
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
    """Return whether Spark writes the rows' values into a column of the table's type without loss.

    Spark has fewer types than tables, and casts any atomic value to text.
    """
    if isinstance(table, AtomicType) and table.root is TypeRoot.VARCHAR and table.length == MAX_LENGTH:
        return isinstance(rows, AtomicType) and rows.root not in BINARIES
    return bool(type_to_spark(table) == type_to_spark(rows))
